"""Python's stdout and stderr in a rank: text goes where the thread's place is, else to the captured
descriptors. What a cell closes is there again for the next one."""

from __future__ import annotations

import functools
import io
import os
import sys
import threading
from typing import Any

from libsk import _core
from libsk.kernel import places

_ident = threading.get_ident
_write = io.TextIOWrapper.write
_flush = io.TextIOWrapper.flush
_closed = io.TextIOWrapper.__dict__["closed"].__get__

_own: dict[str, _Stream] = {}
"""By the names that ``sys`` has for them."""
_DESCRIPTORS = {"stdout": 1, "stderr": 2}
_unbuffered = False  # python -u


class _Stream(io.TextIOWrapper):
    """Text by lines to one descriptor."""

    def write(self, text: str, /) -> int:
        """As a file's. A print calls it for each part of the line, so the first test is inline."""
        if _ident() == places.main_thread:
            now = places.now
            if now.widget is None and places.of_context() is now:
                return _write(self, text)
        if isinstance(text, str) and places.takes(self.fileno(), text, self.flush):
            return len(text)
        return _write(self, text)


def install() -> None:
    """Before anything keeps the old ones: what Python prints to both arrives as it was printed."""
    global _unbuffered
    for name in _DESCRIPTORS:
        old = getattr(sys, name)
        old.flush()
        _unbuffered = old.write_through
        stream = _own[name] = _opened(name)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def keep_descriptors() -> None:
    """In a rank ``os.close(1)`` leaves 1 open, and so for 0 and 2: the next file that any thread
    opens would get its number, and with it all that is printed, or be what children read. A process
    that the rank forks closes what it likes."""
    rank, close, closerange = os.getpid(), os.close, os.closerange
    first, last = 0, 2

    @functools.wraps(close)
    def keeping(fd: int) -> None:
        if fd in (0, 1, 2) and os.getpid() == rank:
            return
        close(fd)

    @functools.wraps(closerange)
    def keeping_in_range(low: int, high: int, /) -> None:
        if os.getpid() != rank:
            return closerange(low, high)
        closerange(low, min(high, first))
        closerange(max(low, last + 1), high)

    os.close, os.closerange = keeping, keeping_in_range


def is_own(stream: object) -> bool:
    """Whether it is one of these, which are flushed here."""
    return type(stream) is _Stream


def flush() -> None:
    """Hands what they hold back to the captured descriptors."""
    for stream in _own.values():
        try:
            _flush(stream)
        except (OSError, ValueError):  # It is closed, or the disk behind it full.
            continue


def moved(descriptors: list[int]) -> str:
    """What is said of those that a cell has left leading elsewhere."""
    which = " and ".join(map(str, descriptors))
    return f"what the cell has put in place of descriptor {which} holds for the cell alone\n"


def restore() -> None:
    """After a cell: one that it has closed or deleted is there again. What it has put in its place
    stays, as in every kernel."""
    present = vars(sys)
    for name in _DESCRIPTORS:
        stream = _own[name]
        closed = _is_closed(stream)
        if not closed and name in present:
            continue
        if closed:
            _own[name] = _opened(name)
            setattr(sys, f"__{name}__", _own[name])
        if present.get(name, stream) is stream:
            setattr(sys, name, _own[name])


def _is_closed(stream: _Stream) -> bool:
    try:
        return bool(_closed(stream))
    except ValueError:  # Its buffer was detached.
        return True


def _opened(name: str) -> _Stream:
    """As Python opens it at its start, by lines."""
    raw: Any = io.FileIO(_DESCRIPTORS[name], "w", closefd=False)
    raw.name = f"<{name}>"
    raw.write = functools.partial(_core.write_in_order, raw)
    stream: Any = _Stream(
        raw if _unbuffered else io.BufferedWriter(raw),
        # A cell's text is UTF-8; a file name that is none is seen, as an escape.
        encoding="utf-8",
        errors="backslashreplace",
        newline="\n",
        line_buffering=True,
        write_through=_unbuffered,
    )
    stream.mode = "w"
    return stream
