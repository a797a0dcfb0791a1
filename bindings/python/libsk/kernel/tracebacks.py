"""Tracebacks without frames of this package: a reader looks for the line of the notebook."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from libsk.kernel import still

_PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"

_LINES_TAKEN_APART = 500
_WORDS_MAX = 1 << 20
"""Characters of an exception's text. All ranks send theirs."""
_LAST_FRAMES = 30

# The interpreter's own, whatever a class derived from BaseException has put over them.
_trace, _cause, _context = (
    BaseException.__dict__[name] for name in ("__traceback__", "__cause__", "__context__")
)
# Since Python 3.11.
_group: type | None = getattr(builtins, "BaseExceptionGroup", None)
_NESTED_MAX, _LOOKED_AT_MAX = 20, 10_000


def without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The same traceback, its frames inside libsk left out."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not str.startswith(trace.tb_frame.f_code.co_filename, _PACKAGE):
            kept.append(trace)
        trace = trace.tb_next
    result = None
    for entry in reversed(kept):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def trace_of(error: BaseException) -> TracebackType | None:
    """``error.__traceback__``."""
    return _trace.__get__(error)  # type: ignore[no-any-return]


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Of a group; nothing of another exception."""
    if _group is None or not still.is_a(error, _group):
        return ()
    return _group.__dict__["exceptions"].__get__(error)  # type: ignore[no-any-return]


def stems_from(error: BaseException, *kinds: type) -> bool:
    """Whether it, or what led to it, is of one of these; a group, if all that it holds do: one that
    holds another mistake would be there without them."""
    known: dict[int, bool] = {}

    def look(each: BaseException, nested: int) -> bool:
        if id(each) in known or nested > _NESTED_MAX or len(known) > _LOOKED_AT_MAX:
            return known.get(id(each), False)
        known[id(each)] = False  # Until it is known: a member may have its group for a context.
        found = any(
            still.is_a(link, *kinds)
            or (bool(held := members(link)) and all(look(one, nested + 1) for one in held))
            for link in chain(each, into_groups=False)
        )
        known[id(each)] = found
        return found

    return look(error, 0)


def chain(error: BaseException | None, into_groups: bool = True) -> Iterator[BaseException]:
    """An exception, its causes and its contexts, and what groups hold, each once. A context that is
    not shown, as after ``from None``, is one all the same: the exception would not be there without
    it."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        pending += [_cause.__get__(each), _context.__get__(each)]
        if into_groups:
            pending += members(each)


def strip(error: BaseException | None) -> None:
    """Does so for all of its :func:`chain`. Of interrupts that came while one was
    under way (a wait in C ends, and so does what cleans up after it) the last is left."""
    for each in chain(error):
        _trace.__set__(each, without_own_frames(_trace.__get__(each)))
        if still.is_a(each, KeyboardInterrupt):
            _forget_interrupts(each)


def _forget_interrupts(last: BaseException) -> None:
    """Those that were being handled when it came."""
    seen = {id(last)}
    before = _context.__get__(last)
    while still.is_a(before, KeyboardInterrupt) and id(before) not in seen:
        seen.add(id(before))
        before = _context.__get__(before)
    _context.__set__(last, None if id(before) in seen else before)


def text_of(error: BaseException) -> str:
    """``str(error)``, or a sentence where that fails."""
    try:
        text = still.exact(str(error))
    except BaseException as broken:  # noqa: BLE001 - the user's __str__ may raise anything.
        return f"<its __str__ raised {still.type_name(broken)}>"
    if len(text) > _WORDS_MAX:
        return f"{text[:_WORDS_MAX]}… ({len(text) - _WORDS_MAX} characters more)"
    return text


def line_of(error: BaseException) -> str:
    """Its name and its text."""
    text = text_of(error)
    return still.type_name(error) + (f": {text}" if text else "")


def place_of(error: BaseException) -> str:
    """The line that raised it."""
    trace = trace_of(error)
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "no frame"
    name = still.exact(trace.tb_frame.f_code.co_filename)
    return f"{name.rpartition('/')[2]}, line {trace.tb_lineno}"


def plain(error: BaseException, instead_of: BaseException) -> list[str]:
    """A traceback that asks the exception for nothing but its text, where a better one failed."""
    lines = ["Traceback (most recent call last):"]
    trace = without_own_frames(_trace.__get__(error))
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(
            f'  File "{still.exact(code.co_filename)}", line {trace.tb_lineno}, '
            f"in {still.exact(code.co_name)}"
        )
        trace = trace.tb_next
    why = f"(its full traceback cannot be written: {still.type_name(instead_of)})"
    return [*lines, *frames[-_LAST_FRAMES:], line_of(error), why]


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
