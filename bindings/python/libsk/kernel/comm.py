"""The notebook's ``comm``: there before the ranks are connected, and there again after an abort.

Connecting is collective, and a cell need not be: so the ranks connect in the background, right when
they start, and the first use waits for it. A rank that died before cannot keep others from
starting; what they get is the error of that first use. An interrupt in a collective ends the
communicator on all ranks; the next cell finds a new one.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libsk import _core
    from libsk._symmetric import Memory

from libsk._comm import Comm

_CONNECT_TIMEOUT_S = 60.0


class _Connection:
    """One attempt to connect all ranks, in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.comm: Comm | None = None
        self.failure: BaseException | None = None
        self._name = name
        self._thread = threading.Thread(target=self._connect, name="libsk-connect", daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        try:
            self.comm = Comm(bootstrap="env", name=self._name, timeout=_CONNECT_TIMEOUT_S)
        except BaseException as failure:  # noqa: BLE001 - raised again by whoever needs the comm.
            self.failure = failure

    def wait(self) -> Comm:
        """The communicator; Ctrl-C ends the wait."""
        self._thread.join()
        if self.comm is None:
            assert self.failure is not None
            raise self.failure.with_traceback(None)
        return self.comm

    def is_over(self) -> bool:
        """Whether it can never be used again."""
        if self._thread.is_alive():
            return False
        return self.comm is None or self.comm._handle.is_over()


class RankComm(Comm):
    """The communicator over all ranks of a notebook. Not made by users."""

    def __init__(self) -> None:  # Comm's __init__ connects; here a _Connection does.
        self._rank = int(os.environ["RANK"])
        self._world_size = int(os.environ["WORLD_SIZE"])
        self._local_rank = int(os.environ.get("LOCAL_RANK", self._rank))
        self._generation = 0
        self._freed = False
        self._connection = _Connection("notebook-0")

    @property
    def _handle(self) -> _core.Comm:  # type: ignore[override]
        return self._connection.wait()._handle

    @property
    def _memory(self) -> Memory:  # type: ignore[override]
        return self._connection.wait()._memory

    def renew(self) -> None:
        """Before each cell: connects anew if what there was is over.

        Ranks agree on the name of the new communicator because every rank counts those that it saw
        connected.
        """
        if self._freed or not self._connection.is_over():
            return
        if self._connection.comm is not None:
            self._connection.comm.free()
            self._generation += 1
        self._connection = _Connection(f"notebook-{self._generation}")

    def free(self, array: Any = None) -> None:
        """As :meth:`libsk.Comm.free`; without an argument no later cell gets a new one."""
        super().free(array)
        self._freed = self._freed or array is None
