"""``sys.stdout`` and ``sys.stderr`` of a rank: two captured descriptors, in one order.

What is captured is the running cell's. Threads, which may be of another one, and whoever prints to
a widget write past the descriptors.
"""

from __future__ import annotations

import functools
import io
import sys
import threading
from typing import Any

from libsk import _core
from libsk.kernel import places

_ident = threading.get_ident
_write = io.TextIOWrapper.write


class _Stream(io.TextIOWrapper):
    """Text by lines to one descriptor."""

    def write(self, text: str, /) -> int:
        """As a file's. A print calls it for each part of the line, so the first test is inline."""
        if _ident() == places.main_thread and places.now.widget is None:
            return _write(self, text)
        if isinstance(text, str) and places.takes(self.fileno(), text, self.flush):
            return len(text)
        return _write(self, text)


def install() -> None:
    """Before anything keeps the old ones: what Python prints to both arrives as it was printed."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = _opened(descriptor, name, getattr(sys, name))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _opened(descriptor: int, name: str, old: io.TextIOWrapper) -> io.TextIOWrapper:
    """As Python opens it at its start, by lines."""
    old.flush()
    raw: Any = io.FileIO(descriptor, "w", closefd=False)
    raw.name = f"<{name}>"
    raw.write = functools.partial(_core.write_in_order, raw)
    unbuffered = old.write_through  # python -u
    stream: Any = _Stream(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        newline="\n",
        line_buffering=True,
        write_through=unbuffered,
    )
    stream.mode = "w"
    return stream
