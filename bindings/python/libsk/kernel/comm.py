"""The notebook's ``comm``: there before the ranks are connected, and there again after an abort.

Connecting is collective, and a cell need not be: so the ranks connect in the background, as soon as
all are there, and the first use waits for it. The controller counts the epochs in which they do:
one ends with a rank's death, and when a rank finds its communicator over, by an interrupt in a
collective, by ``comm.free()`` or because not all could connect. All hear of the next one and
connect anew under its name; an attempt of an earlier one is given up at once. While ranks are
missing each use is an error that names who.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from libsk import _core
from libsk._checks import text_of
from libsk._comm import Comm
from libsk._errors import BusyError, PeerLostError
from libsk.kernel import places

if TYPE_CHECKING:
    from libsk._symmetric import Memory

_CONNECT_TIMEOUT_S = 60.0
_LOOK_S = 0.1
_REGROUP_MS = 2_000
"""How long a cell waits for the controller's word; the controller answers at once."""


class _Connection:
    """One attempt to connect all ranks, in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.comm: Comm | None = None
        self.failure: BaseException | None = None
        self._name = name
        self._cancel: _core.Cancel | None = _core.Cancel()
        self._cancelled = False
        self._thread = threading.Thread(target=self._connect, name=places.CONNECT, daemon=True)
        self._thread.start()

    def _connect(self) -> None:
        try:
            comm = Comm(
                bootstrap="env",
                name=self._name,
                timeout=_CONNECT_TIMEOUT_S,
                _cancel=self._cancel,
            )
            comm._handle.set_admit(places.admit)
            self.comm = comm
        except BaseException as failure:  # noqa: BLE001 - raised again by whoever needs the comm.
            self.failure = failure.with_traceback(None)
        finally:
            # For its descriptor: an error that is shown keeps this object, as frames keep theirs.
            self._cancel = None

    def cancel(self) -> None:
        """Gives the attempt up, if it has not come to its end."""
        cancel = self._cancel
        if cancel is not None:
            self._cancelled = True
            cancel.request()

    def settle(self, is_wanted: Callable[[], bool]) -> bool:
        """Waits for what comes of it; Ctrl-C gives it up. False: so did this, for it is not wanted
        any more."""
        try:
            while self._thread.is_alive():
                self._thread.join(_LOOK_S)
                if not is_wanted():
                    self.cancel()
                    return False
        except KeyboardInterrupt:
            self.cancel()
            raise
        return True

    def wait(self, is_wanted: Callable[[], bool]) -> Comm | None:
        """The communicator. None when it is not wanted any more."""
        if not self.settle(is_wanted):
            return None
        if self.comm is None:
            assert self.failure is not None
            raise self.failure.with_traceback(None)  # Without where it was raised before.
        return self.comm

    def is_over(self) -> bool:
        """Whether it can never be used again."""
        if self._cancelled:
            return True
        if self.comm is not None:  # First, for it is asked before and after each cell.
            return self.comm._handle.is_over()
        # Looked at again once the thread has ended, for it may have come in between.
        return not self._thread.is_alive() and self.comm is None


def _who(missing: int, first_missing: int) -> str:
    if not missing:
        return ""
    return f"{missing} ranks are not there" if missing > 1 else f"rank {first_missing} is not there"


def _not_whole(why: str) -> PeerLostError:
    way_out = ": `%sk revive` brings them back" if "not there" in why else ""
    sentence = f"comm spans all ranks, but {why}{way_out}"
    return PeerLostError(sentence, 20, "SK_ERR_PEER_LOST")


class RankComm(Comm):
    """The communicator over all ranks of a notebook. Not made by users."""

    def __init__(self, worker: _core.Worker) -> None:
        # Comm's __init__ connects; here a _Connection does.
        self._rank = int(os.environ["RANK"])
        self._world_size = int(os.environ["WORLD_SIZE"])
        self._local_rank = int(os.environ.get("LOCAL_RANK", self._rank))
        self._worker = worker
        self._epoch = 0
        self._missing = ""
        self._ports = (0, 0)
        self._connection: _Connection | None = None

    def _connected(self) -> Comm:
        why = self._missing or ("" if self._connection else "not all have joined yet")
        if why:
            raise _not_whole(why)
        assert self._connection is not None
        comm = self._connection.wait(self._is_wanted)
        if comm is not None:
            return comm
        _, missing, first_missing, *_ = self._worker.group()
        raise _not_whole(
            _who(missing, first_missing) or "the ranks connect anew, for the next cell"
        )

    def _is_wanted(self) -> bool:
        return self._worker.group()[0] == self._epoch

    def _to_end(self) -> Comm | None:
        """What is to be given up. None where that has been done: a rank that is quicker asks for
        the next one while this one has not begun the cell, and nothing is left to end."""
        connection = self._connection
        if connection is not None:
            connection.settle(self._is_wanted)
        return None if connection is None else connection.comm

    def abort(self, reason: str = "") -> None:
        text_of(reason, "reason")  # A wrong one is refused in any case.
        comm = self._to_end()
        if comm is not None:
            comm.abort(reason)

    def _leave(self) -> None:
        comm = self._to_end()
        if comm is not None:
            comm.free()

    @property
    def _handle(self) -> _core.Comm:  # type: ignore[override]
        return self._connected()._handle

    @property
    def _memory(self) -> Memory:  # type: ignore[override]
        return self._connected()._memory

    def _ask_for_another(self, wait_ms: int = 0) -> None:
        """After each cell: where this one is over, says so, and all ranks begin a new epoch."""
        if self._connection is not None and self._connection.is_over():
            self._worker.regroup(self._epoch, wait_ms)

    def _renew(self) -> None:
        """Before each cell, and when the group of ranks has changed: connects anew if it must."""
        self._ask_for_another(_REGROUP_MS)
        epoch, missing, first_missing, master_port, coordinator_port = self._worker.group()
        if epoch == self._epoch:
            return
        self._drop()
        self._epoch = epoch
        self._missing = _who(missing, first_missing)
        if missing:
            return
        self._tell_ports(master_port, coordinator_port)
        self._connection = _Connection(f"notebook-{epoch}")

    def _tell_ports(self, master_port: int, coordinator_port: int) -> None:
        """Where the servers of PyTorch and JAX are to listen: at the old ports one of before the
        revival may listen still. A cell may have chosen others; those hold until then."""
        if self._ports == (master_port, coordinator_port):
            return
        self._ports = (master_port, coordinator_port)
        os.environ["MASTER_PORT"] = str(master_port)
        os.environ["JAX_COORDINATOR_ADDRESS"] = f"{os.environ['MASTER_ADDR']}:{coordinator_port}"

    def _drop(self) -> None:
        """Gives the connection up, whatever has become of it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.cancel()
        if connection.comm is not None:
            # A thread of the user's may be inside a call; then it goes with the last of them.
            with contextlib.suppress(BusyError):
                connection.comm.free()


# What messages call it; the difference is nobody's business.
RankComm.__name__ = RankComm.__qualname__ = "Comm"
