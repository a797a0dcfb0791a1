"""Tracebacks without frames of this package: a reader looks for the line of the notebook."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The same traceback, its frames inside libsk left out."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            kept.append(trace)
        trace = trace.tb_next
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def strip(error: BaseException | None) -> None:
    """Does so for an exception, its causes and its contexts."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = without_own_frames(each.__traceback__)
        pending += [each.__cause__, each.__context__]


def text_of(error: BaseException) -> str:
    """``str(error)``, or a sentence where that fails."""
    try:
        return str(error)
    except Exception as broken:  # noqa: BLE001 - the user's __str__ may raise anything.
        return f"<its __str__ raised {type(broken).__name__}>"
