"""What a call of libsk raises: one class for each status code, all of them :class:`Error`."""

from __future__ import annotations

import builtins
import re
import threading
from collections.abc import Callable
from typing import Any

_RANK = re.compile(r"\branks? (\d+)\b")
_WAITED_FOR = re.compile(r"\b(?:for|connected to|s in [^:]*:) ranks? (\d+)\b")
_TIMEOUT = 30

MAY_BE_UNDER_WAY = 20
"""Statuses from here on may come of a call that had begun; those before changed nothing, but for
that of a tile that failed."""

# Sentences of these codes name the rank that is to blame; others may mention ranks in passing.
_NAMES_A_RANK = frozenset({16, 20, 21, 30})


class Error(Exception):
    """A call of libsk failed.

    The text is the sentence of ``sk_last_error()``: which argument, what it was, what is allowed.
    """

    code: int
    """The status, as in ``sk/base.h``: 10 for ``SK_ERR_INVALID_ARGUMENT``, and so on."""
    name: str
    """The status by name, ``"SK_ERR_INVALID_ARGUMENT"``."""
    rank: int | None
    """The rank that died, aborted, was waited for or called something else; None if none is."""

    def __init__(self, sentence: str, code: int = 70, name: str = "SK_ERR_INTERNAL") -> None:
        super().__init__(sentence)
        self.code = code
        self.name = name
        self.rank = _rank_in(str(sentence), code)

    def __reduce__(self) -> tuple[type[Error], tuple[str, int, str], dict[str, object]]:
        return type(self), (str(self), self.code, self.name), self.__dict__


def _rank_in(sentence: str, code: int) -> int | None:
    if code not in _NAMES_A_RANK:
        return None
    # An abort's reason is anybody's text, and may be of waiting for another rank.
    found = _WAITED_FOR.search(sentence) if code == _TIMEOUT else None
    found = found or _RANK.search(sentence)
    return int(found[1]) if found else None


class InvalidArgumentError(Error, ValueError):
    """An argument is outside what the call allows; nothing was changed."""


class OutOfRangeError(Error, ValueError):
    """A buffer or an index is too small or too large; nothing was changed."""


class UnsupportedError(Error):
    """Valid, but this build or machine cannot do it."""


class BadHandleError(Error):
    """The object was freed."""


class BusyError(Error):
    """Another thread is inside a call on this object, or another cell of the notebook runs."""


class ForkedError(Error):
    """Called in a forked child of the process that first used libsk."""


class DesyncError(Error):
    """The ranks called different things; every rank gets this, and no byte was moved."""


class TileError(Error):
    """A tile of the user's own failed its call, whose results are anything; all else goes on."""


class PeerLostError(Error):
    """A rank died, or will not come, ``.rank``; the communicator is over."""


class AbortedError(Error):
    """A rank, ``.rank``, called ``abort()``; the communicator is over."""


class TimeoutError(Error, builtins.TimeoutError):
    """A wait ran out. Of a call of a communicator, ``.rank`` is the rank waited for, and the
    communicator is over. Of a session's cell, see :attr:`result`."""

    result: Any = None
    """Of :meth:`Session.run`: the :class:`Result` of the cell that was interrupted."""


class NoMemoryError(Error, MemoryError):
    """Memory, shared memory or file descriptors ran out."""


class TransportError(Error, ConnectionError):
    """A connection failed."""


class SystemCallError(Error):
    """A system call failed; the sentence holds its errno."""


class DeviceError(Error):
    """A GPU or its driver failed; the sentence holds its error."""


class TrustError(Error):
    """A peer could not show that it belongs to this job."""


class InternalError(Error):
    """A bug of libsk."""


_CLASSES: dict[int, type[Error]] = {
    10: InvalidArgumentError,
    11: OutOfRangeError,
    12: UnsupportedError,
    13: BadHandleError,
    14: BusyError,
    15: ForkedError,
    16: DesyncError,
    17: TileError,
    20: PeerLostError,
    21: AbortedError,
    30: TimeoutError,
    40: NoMemoryError,
    50: TransportError,
    51: SystemCallError,
    52: DeviceError,
    60: TrustError,
    70: InternalError,
}


def from_status(code: int, name: str, sentence: str) -> Error:
    """The exception for a status; called by the extension module."""
    return _CLASSES.get(code, Error)(sentence, code, name)


def _begun_in(thread: threading.Thread) -> str:
    """Where a thread's work began, as its user knows it; in a notebook the cell."""
    return ""


begun_in: Callable[[threading.Thread], str] = _begun_in
"""Notebooks put theirs here."""


def busy(call: str, inside: str, ident: int) -> BusyError:
    """``call`` while the thread ``ident`` is inside a call; raised by the extension module."""
    who = f"thread {ident}, which Python did not start,"
    for thread in threading.enumerate():
        if thread.ident == ident:
            who = f"thread {thread.name!r}{begun_in(thread)}"
    return BusyError(
        f"{_dotted(call)}(): {who} is inside {_dotted(inside)}() of this communicator; ranks tell"
        " two calls apart by their order alone, so give each thread a communicator of its own,"
        " libsk.Comm(name=...)",
        14,
        "SK_ERR_BUSY",
    )


def outside(call: str, who: str) -> BusyError:
    """``call`` on the notebook's communicator by ``who``, whose cell is not the one that runs."""
    return BusyError(
        f"{_dotted(call)}(): {who} calls it outside that cell; comm is for the cell that runs, as"
        " ranks tell two calls apart by their order alone: give what goes on beside the cells a"
        " communicator of its own, libsk.Comm(name=...)",
        14,
        "SK_ERR_BUSY",
    )


def _dotted(call: str) -> str:
    return call if "." in call else f"comm.{call}"


def invalid(sentence: str) -> InvalidArgumentError:
    """An argument that is refused before the C call."""
    return InvalidArgumentError(sentence, 10, "SK_ERR_INVALID_ARGUMENT")
