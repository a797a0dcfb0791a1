"""The notebook's ``comm``: there before the ranks are connected, and there again after an abort.

Connecting is collective, and a cell need not be: so the ranks connect in the background, as soon as
all are there, and the first use waits for it. An interrupt in a collective ends the communicator on
all ranks; the next cell finds a new one. A rank's death ends it too: until all ranks are there
again each use is an error that names who is missing.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from libsk import _core
    from libsk._symmetric import Memory

from libsk._comm import Comm
from libsk._errors import PeerLostError

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
        self._epoch = 0
        self._generation = 0
        self._missing = ""
        self._freed = False
        self._connection: _Connection | None = None

    def _connected(self) -> Comm:
        why = self._missing or ("" if self._connection else "not all have joined yet")
        if why:
            sentence = f"comm spans all ranks, but {why}: `%sk revive` brings them back"
            raise PeerLostError(sentence, 20, "SK_ERR_PEER_LOST")
        assert self._connection is not None
        return self._connection.wait()

    @property
    def _handle(self) -> _core.Comm:  # type: ignore[override]
        return self._connected()._handle

    @property
    def _memory(self) -> Memory:  # type: ignore[override]
        return self._connected()._memory

    def renew(self, epoch: int, missing: int, first_missing: int) -> None:
        """Before each cell, and when ranks come or go: connects anew if what there was is over.

        Ranks agree on the name of the new communicator: the controller counts the epochs, and
        within one every rank counts those that it saw connected.
        """
        lost = f"{missing} ranks are" if missing > 1 else f"rank {first_missing} is"
        self._missing = f"{lost} not there" if missing else ""
        if self._freed or missing or epoch == 0:
            return
        if epoch != self._epoch:
            self._drop()
            self._epoch, self._generation = epoch, 0
        elif self._connection is not None and self._connection.is_over():
            self._generation += self._drop()
        if self._connection is None:
            self._connection = _Connection(f"notebook-{self._epoch}-{self._generation}")

    def _drop(self) -> int:
        """Forgets the connection; 1 if it had come about."""
        connection, self._connection = self._connection, None
        if connection is None or connection.comm is None:
            return 0
        connection.comm.free()
        return 1

    def free(self, array: Any = None) -> None:
        """As :meth:`libsk.Comm.free`; without an argument no later cell gets a new one."""
        super().free(array)
        self._freed = self._freed or array is None


# What messages call it; the difference is nobody's business.
RankComm.__name__ = RankComm.__qualname__ = "Comm"
