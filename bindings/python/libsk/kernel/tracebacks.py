"""Tracebacks without frames of this package: a reader looks for the line of the notebook."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"

_LINES_TAKEN_APART = 500


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


@contextmanager
def quick(kind: type[BaseException]) -> Iterator[None]:
    """For an interrupt, whose answer somebody awaits: only short files are taken apart.

    For a traceback, every file of it is parsed, to mark the expression in its line. Those of
    PyTorch cost a busy core seconds, and a rank that does not end in time counts as stuck.
    """
    if not issubclass(kind, KeyboardInterrupt):
        yield
        return
    from stack_data import core

    usual = core.Source
    core.Source = _quick_source()
    try:
        yield
    finally:
        core.Source = usual


@functools.cache
def _quick_source() -> type:
    """What a traceback sees of a file; a class of its own, as files are kept by class."""
    from stack_data import Source

    class QuickSource(Source):  # type: ignore[misc]
        def __init__(self, filename: str, lines: Sequence[str]) -> None:
            if len(lines) <= _LINES_TAKEN_APART:
                super().__init__(filename, lines)
                return
            super().__init__(filename, ["("])  # As one that is no Python: lines without marks.
            self.text = "".join(lines)
            self.lines = [line.rstrip("\r\n") for line in lines]

    return QuickSource
