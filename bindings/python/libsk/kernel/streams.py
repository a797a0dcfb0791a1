"""``sys.stdout`` and ``sys.stderr`` of a rank: two captured descriptors, in one order."""

from __future__ import annotations

import functools
import io
import sys
from typing import Any

from libsk import _core


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
    stream: Any = io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=old.encoding,
        errors=old.errors,
        newline="\n",
        line_buffering=True,
        write_through=unbuffered,
    )
    stream.mode = "w"
    return stream
