"""Thousands of objects that misbehave, each in its own way, against what looks at a namespace.

A seed makes the classes: their special methods raise (also what no ``except Exception`` catches),
return what they must not, call themselves without end, or count that they were called. Between
cells none of them may be called at all; within a cell all of them may be, and the cell still ends
as a cell does. ``SK_SEED`` replays a failure, ``SK_HOSTILE`` sets how many there are.
"""

from __future__ import annotations

import os
import random
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import RecordingWorker, end_shell

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk import _core
from libsk.kernel import tracebacks
from libsk.kernel.names import NameBook
from libsk.kernel.shell import RankShell

COUNT = int(os.environ.get("SK_HOSTILE", "10000"))

# fmt: off
_METHODS = [
    "__repr__", "__str__", "__bytes__", "__format__", "__hash__", "__bool__", "__len__", "__eq__",
    "__ne__", "__lt__", "__dir__", "__getattr__", "__getattribute__", "__iter__", "__next__",
    "__contains__", "__getitem__", "__call__", "__index__", "__int__", "__enter__", "__exit__",
    "__reduce__", "__sizeof__", "__instancecheck__", "__subclasscheck__", "items", "keys", "values",
    "_repr_html_", "_repr_mimebundle_", "_repr_png_", "_ipython_display_", "_render_traceback_",
    "_ipython_key_completions_", "_repr_pretty_", "startswith", "splitlines",
]
_PROPERTIES = [
    "__class__", "__dict__", "__doc__", "__name__", "__qualname__", "__module__", "__mro__",
    "__cause__", "__context__", "__traceback__", "__suppress_context__", "__notes__", "__wrapped__",
    "__signature__", "args",
]
# fmt: on
_RAISED = (
    Exception,
    ValueError,
    AttributeError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    MemoryError,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    UnicodeError,
    Warning,
)  # fmt: skip
_TEXTS = ("", "a\udcff.csv", "\ud83d", "a\0b", "x" * 1_000_000, "\r\n\x1b[31m", "é")


class Calls:
    """How often code of the hostile classes ran."""

    def __init__(self) -> None:
        self.count = 0


def _behaviour(draw: random.Random, calls: Calls) -> Callable[..., Any]:
    kind = draw.randrange(5)
    if kind == 0:
        error = draw.choice(_RAISED)
        text = draw.choice(_TEXTS[:3])

        def raises(*_: Any, **__: Any) -> Any:
            calls.count += 1
            raise error(text)

        return raises
    if kind == 1:

        def calls_itself(*arguments: Any, **options: Any) -> Any:
            calls.count += 1
            return calls_itself(*arguments, **options)

        return calls_itself
    if kind == 2:

        def warns(*_: Any, **__: Any) -> Any:
            calls.count += 1
            warnings.warn("looked at", DeprecationWarning, stacklevel=2)
            return None

        return warns
    value = draw.choice((*_TEXTS, 5, -1, None, object(), b"\xff", {5: ()}, NotImplemented, [1]))

    def returns(*_: Any, **__: Any) -> Any:
        calls.count += 1
        return value

    return returns


def _members(draw: random.Random, calls: Calls, but: tuple[str, ...] = ()) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name in draw.sample(_METHODS, draw.randrange(1, 6)):
        members[name] = _behaviour(draw, calls)
    for name in draw.sample(_PROPERTIES, draw.randrange(4)):
        members[name] = property(_behaviour(draw, calls))
    for name in but:
        members.pop(name, None)
    if isinstance(members.get("__qualname__"), property):
        del members["__qualname__"]  # The interpreter refuses such a class.
    return members


def _a_type(draw: random.Random, calls: Calls) -> Any:
    # What a class statement itself calls would end it before there is a class.
    meta = type("Meta", (type,), _members(draw, calls, but=("__call__",)))
    return type.__new__(meta, "Hostile", (), _members(draw, calls))


def _an_object(draw: random.Random, calls: Calls) -> Any:
    base = draw.choice((object, object, dict, list, str, int, float, bytes, tuple, set))
    cls = type.__new__(type, "Hostile", (base,), _members(draw, calls))
    return base.__new__(cls)


def _a_module(draw: random.Random, calls: Calls) -> Any:
    cls = type.__new__(type, "Module", (types.ModuleType,), _members(draw, calls))
    return types.ModuleType.__new__(cls)


def _a_function(draw: random.Random, calls: Calls) -> Any:
    odd = _an_object(draw, calls)

    def function(a: Any = odd, *, b: Any = odd) -> None:
        """One."""

    function.__name__ = draw.choice(_TEXTS)
    function.__doc__ = draw.choice(_TEXTS)
    function.__dict__.update(__wrapped__=odd, __signature__=odd)
    return types.MethodType(odd, 3) if callable(odd) and draw.randrange(2) else function


def _an_error(draw: random.Random, calls: Calls) -> BaseException:
    base = draw.choice((Exception, ValueError, SyntaxError, OSError, BaseException, SystemExit))
    cls = type.__new__(type, "Failure", (base,), _members(draw, calls, but=("__init__",)))
    error: BaseException = base.__new__(
        cls, *[draw.choice(_TEXTS) for _ in range(draw.randrange(3))]
    )
    if draw.randrange(4) == 0:
        BaseException.__dict__["__context__"].__set__(error, base.__new__(cls))
    return error


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[RankShell]:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    shell = RankShell.make()
    shell.attach(RecordingWorker(), {"rank": 3})  # type: ignore[arg-type]
    yield shell
    end_shell()


@pytest.fixture
def draw() -> random.Random:
    seed = int(os.environ.get("SK_SEED", random.randrange(1 << 32)))
    print(f"SK_SEED={seed}")
    return random.Random(seed)


class Wire:
    """In the place of the worker: what it is told can be sent."""

    def __init__(self) -> None:
        self.told = 0

    def snapshot(self, root: str, entries: list[tuple[str, str]]) -> None:
        self.told += 1
        for text in [root, *(text for entry in entries for text in entry)]:
            assert type(text) is str
            _core.to_wire(text).decode()


def test_the_book_of_names_runs_no_code_of_theirs(shell: RankShell, draw: random.Random) -> None:
    calls, wire = Calls(), Wire()
    book = NameBook(wire, shell)  # type: ignore[arg-type]
    book.tell()
    kept = dict(shell.user_ns)
    for number in range(COUNT):
        make = draw.choice((_a_type, _an_object, _a_module, _a_function, _an_error))
        hostile = make(draw, calls)
        name: Any = draw.choice((f"name{number}", "one", "a\udcff", number, ("a", "b"), b"b"))
        shell.user_ns.clear()
        shell.user_ns.update(kept)
        dict.__setitem__(shell.user_ns, name, hostile)
        before, calls.count = wire.told, 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            book.tell()
        assert calls.count == 0, (number, make)
        assert wire.told > before or type(name) is not str


def test_cells_that_show_or_raise_them_end_as_cells(shell: RankShell, draw: random.Random) -> None:
    calls = Calls()
    request = {"execution_count": 0, "silent": False, "store_history": False, "expressions": "{}"}
    ends: dict[str, int] = {}
    for number in range(COUNT // 10):
        raises = draw.randrange(2)
        make = _an_error if raises else draw.choice((_a_type, _an_object, _a_module, _a_function))
        hostile = shell.user_ns["hostile"] = make(draw, calls)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shell.forget_error()
            error = shell.run({**request, "code": "raise hostile" if raises else "hostile"})
            shell.answer_cell(request, error)
            plain = tracebacks.plain(error, MemoryError()) if error is not None else []
        if raises:
            assert error is hostile, number
        if error is None:
            continue
        name, text = shell.words_of(error)
        assert shell.last_traceback, number
        for line in [name, text, *plain, *shell.last_traceback]:
            assert type(line) is str, number
            _core.to_wire(line).decode()
        ends[name] = ends.get(name, 0) + 1
    assert ends["Failure"] > COUNT // 40


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("é", "é"),
        ("a\udcff.csv", "a\\udcff.csv"),
        ("\ud83d", "\\ud83d"),
        ("😀", "😀"),
        ("a\0", "a\0"),
    ],
)
def test_any_text_can_be_sent(text: str, sent: str) -> None:
    assert _core.to_wire(text).decode() == sent
