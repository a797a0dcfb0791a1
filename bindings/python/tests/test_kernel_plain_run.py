"""A cell run without IPython's part around it, beside the same cell run by IPython."""

from __future__ import annotations

import io
import linecache
import random
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import RecordingWorker, end_shell

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk.kernel.plain_run import PlainRunner
from libsk.kernel.shell import RankShell

EARLY = ("pre_execute", "pre_run_cell")
LATE = ("post_execute", "post_run_cell")


class Side:
    """A shell, and all that can be seen of the cells it ran."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, by_ipython: bool, events: tuple[str, ...]
    ) -> None:
        end_shell()
        self.worker = RecordingWorker()
        self.shell = RankShell.make()
        self.shell.attach(self.worker, {"rank": 3})  # type: ignore[arg-type]
        self.taken = 0
        self.events: list[Any] = []
        for name in events:
            self.shell.events.register(name, self._recorder(name))
        run = PlainRunner.run

        def counted(runner: PlainRunner, raw_cell: str, store_history: bool) -> Any:
            ran = (None, False) if by_ipython else run(runner, raw_cell, store_history)
            self.taken += ran[0] is not None
            return ran

        monkeypatch.setattr(PlainRunner, "run", counted)

    def _recorder(self, name: str) -> Any:
        def record(about: Any = None) -> None:
            told = [name]
            info = getattr(about, "info", about)  # A result has one; what comes before, is one.
            for each in ("raw_cell", "transformed_cell", "store_history", "silent", "cell_id"):
                told.append(getattr(info, each, None))
            for each in ("execution_count", "success", "result"):
                told.append(_shown(getattr(about, each, None)))
            self.events.append(told)

        # IPython calls with as many arguments as the event has.
        return (lambda: record()) if name.endswith("execute") else (lambda about: record(about))

    def run(self, code: str, **fields: Any) -> dict[str, Any]:
        """What the cell did."""
        request = {"code": code, "execution_count": 0, "silent": False, "store_history": True}
        out, err = io.StringIO(), io.StringIO()
        old = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        hook = sys.displayhook
        try:
            error = self.shell.run({**request, **fields})
        finally:
            sys.stdout, sys.stderr = old
        assert sys.displayhook is hook
        shell = self.shell
        result = shell.last_execution_result
        names = {
            name: _shown(value)
            for name, value in shell.user_ns.items()
            if name
            not in (
                "In",
                "Out",
                "_ih",
                "_oh",
                "exit",
                "quit",
                "get_ipython",
                "open",
                "__warningregistry__",
            )
        }
        files = [name for name in linecache.cache if name.startswith("<ipython-input")]
        return {
            "error": (type(error).__name__, str(error)),
            "traceback": shell.last_traceback,
            "stdout": _without_addresses(out.getvalue()),
            "stderr": _without_addresses(err.getvalue()),
            "displays": _shown(self.worker.displays),
            "names": names,
            "in": shell.user_ns["In"][:],
            "raw": shell.history_manager.input_hist_raw[:],
            "out": _shown(list(shell.user_ns["Out"])),
            "count": shell.execution_count,
            "files": files,
            "lines": [linecache.cache[name][2] for name in files],
            "mapped": dict(shell.compile._filename_map),
            "flags": shell.compile.flags,
            "succeeded": shell.last_execution_succeeded,
            "result": _shown(getattr(result, "result", None)),
            "failures": [
                repr(getattr(result, each, None)) for each in ("error_before_exec", "error_in_exec")
            ],
            "exceptions": dict(getattr(shell.history_manager, "exceptions", {})),
        }


def _shown(value: Any) -> str:
    try:
        return _without_addresses(repr(value))
    except ValueError:  # One of the cells' own.
        return type(value).__name__


def _without_addresses(text: str) -> str:
    return re.sub(r"\b(0x|at )[0-9a-f]{6,}", r"\1", text)


def _show_warning(*about: Any, **options: Any) -> None:
    """As Python's; pytest's own only remembers."""
    message, category, filename, lineno = about[:4]
    print(warnings.formatwarning(message, category, filename, lineno), file=sys.stderr)


def both(
    monkeypatch: pytest.MonkeyPatch,
    cells: list[str],
    before: Any = None,
    events: tuple[str, ...] = LATE,
    **fields: Any,
) -> tuple[int, list[Any]]:
    """Runs the cells on either side; how many were run here, and the events of each side."""
    sides = []
    for by_ipython in (True, False):
        for kept in (linecache.cache, getattr(linecache, "_ipython_cache", {})):  # IPython 8.5.
            for name in [name for name in kept if name.startswith("<ipython-input")]:
                del kept[name]
        with monkeypatch.context() as patch:
            patch.setattr(warnings, "showwarning", _show_warning)
            side = Side(patch, by_ipython=by_ipython, events=events)
            if before is not None:
                before(side.shell)
            told = [side.run(cell, **fields) for cell in cells]
        sides.append((told, side.events, side.taken))
    for cell, theirs, ours in zip(cells, sides[0][0], sides[1][0], strict=True):
        for what, expected in theirs.items():
            assert ours[what] == expected, (what, cell)
    assert sides[0][1] == sides[1][1]
    return sides[1][2], sides[1][1]


@pytest.fixture(autouse=True)
def one_shell() -> Iterator[None]:
    yield
    end_shell()


@pytest.mark.parametrize(
    ("cells", "taken"),
    [
        (["print(1)"], 1),
        (["print(1)\n"], 1),
        (["print(1)  # a remark"], 1),
        (["x = 1", "x", "x + 1", "_ + __", "x is None", "print(_i, _iii, In[2])"], 6),
        (["x = 1\nx", "x = 2\nx += 1", "for i in range(3):\n    i", "if True: 5"], 4),
        (["5;", "5 ;", "a = 1; a", "5", "rank; rank", "rank;", "print(1); rank"], 4),
        (["None", "'text'", "(1, 2)", "[i for i in range(3)]", "{1: 2}", "lambda: 3"], 2),
        (["1 / 0", "rank / 0", "print(1 / 0)", "def f():\n    rank / 0\n\nf()", "f()"], 4),
        (["print(", "x = = 1", "return 1", "x\nreturn 1", "print(1)\nbreak", "f(x", "'\\d' +"], 2),
        (["from __future__ import annotations", "def f(x: nix): pass", "f.__annotations__"], 3),
        (["import asyncio", "await asyncio.sleep(0)", "print(await asyncio.sleep(0, 7))"], 0),
        (["import asyncio\nx = 1\nawait asyncio.sleep(0)\nx"], 0),
        (["async def f():\n    return 1", "await f()", "rank"], 1),
        (["raise SystemExit", "raise SystemExit(3)", "rank"], 3),
        (["raise KeyboardInterrupt", "rank"], 2),
        (["import bdb\nraise bdb.BdbQuit", "rank"], 2),
        (["", "\n", "   ", "#", "# only a remark", "\n\nrank"], 0),
        (["x = %pwd", "%%capture\nrank", "!true", "rank?", "who", "exit", "rank"], 2),
        (["print('é')", "é = 1", "é", "print('\\n')", "print('a\\nb')\nrank"], 5),
        (["print('\udcff')", "x = '\udcff'\nx", "rank"], 1),
        (["print('\0')", "rank"], 1),
        (["rank = 4", "rank", "del rank", "rank", "print = 3", "print", "print(1)"], 6),
        (["import warnings", "warnings.warn('w')", "warnings.warn('w')", "rank is 5", "'\\d'"], 4),
        (["get_ipython().run_cell('rank')", "get_ipython().run_line_magic('pwd', '')"], 2),
        (["get_ipython().run_cell('1 / 0')\nprint(2)"], 1),
        (["class R:\n    def __repr__(self): raise ValueError('no')\nR()", "R()"], 2),
        (["import sys", "sys.displayhook(5)", "import sys; sys.displayhook = print", "5", "6"], 3),
        (
            [
                "class E(BaseException):\n    def _render_traceback_(self): raise E()",
                "raise E()",
                "rank",
            ],
            3,
        ),
        (
            [
                "assert (1, 2)",
                "x = [5 is 5, (yield)]",
                "x = '\\d'\ny = 3 3",
                "x = 1if y",
                "x = 1or 2",
            ],
            2,
        ),
        (["get_ipython().run_cell('print(1)', False, True)", "rank"], 2),
        (["globals()['y'] = 1", "y", "locals() is globals()", "__name__", "vars()['y']"], 5),
        (["def g():\n    yield 1\n", "list(g())", "x = list(g())\n", "assert x", "assert 0, x"], 5),
    ],
)
def test_it_does_what_ipython_does(
    monkeypatch: pytest.MonkeyPatch, cells: list[str], taken: int
) -> None:
    assert both(monkeypatch, cells)[0] == taken


def test_cells_that_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ["x = 1", "x", "1 / 0", "In[-1]", "x\nx + 1"]
    assert both(monkeypatch, cells, store_history=False)[0] == 4


def test_silent_cells_are_ipythons(monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(monkeypatch, ["rank", "print(1)"], silent=True)[0] == 0


def test_the_front_ends_count_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(monkeypatch, ["rank", "In[17]", "_i17"], execution_count=17)[0] == 3


def test_late_events_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, events = both(monkeypatch, ["rank", "rank / 0"])
    assert taken == 2
    assert [told[0] for told in events] == [*LATE, *LATE]
    assert events[1][1] == "rank"


@pytest.mark.parametrize("early", [EARLY, *((name,) for name in EARLY)])
def test_cells_that_someone_waits_for_are_ipythons(
    monkeypatch: pytest.MonkeyPatch, early: tuple[str, ...]
) -> None:
    taken, events = both(monkeypatch, ["rank", "rank / 0"], events=early + LATE)
    assert taken == 0
    assert [told[0] for told in events] == [*early, *LATE] * 2


def test_any_mixture_of_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [
        *["rank", "x = 1", "x", "x += 1", "del x", "print(x)", "print(rank, x)", "1 / 0", "5;"],
        *["'''a\nb'''", "(1,\n 2)", "for i in (1, 2):\n    print(i)\n", "def f(): return x\n"],
        *["f()", "import math", "math.pi", "if rank:\n    x\n", "x = [rank,", "return", "_", "y"],
        *["pass", "with open('/nix'):\n    pass\n", "try:\n    x\nexcept NameError:\n    x = 2\n"],
        *["# remark", "", "  x", "x = lambda: 3", "x: int = 3", "await x", "%who_ls", "x = %pwd"],
    ]
    chance = random.Random(6)
    taken = 0
    for _ in range(25):
        cells = ["\n".join(chance.choices(pieces, k=chance.choice([1, 1, 2, 3]))) for _ in range(8)]
        taken += both(monkeypatch, cells)[0]
    assert taken > 60  # Else little was tested.


def _transforms(shell: RankShell) -> None:
    import ast

    class Doubles(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.Constant:
            return ast.Constant(node.value * 2)

    shell.ast_transformers.append(Doubles())


def _shows_all(shell: RankShell) -> None:
    shell.ast_node_interactivity = "all"


def _calls_by_itself(shell: RankShell) -> None:
    shell.autocall = 2


def _shouts(shell: RankShell) -> None:
    shell.input_transformers_post.append(lambda lines: [line.upper() for line in lines])


def _cleans(shell: RankShell) -> None:
    shell.input_transformers_cleanup.append(lambda lines: [line.lower() for line in lines])


def _renews(shell: RankShell) -> None:
    shell.ast_transformers = []  # Equal to what it was, so nobody is told.
    shell.input_transformers_post = []
    _transforms(shell)


def _patches(shell: RankShell) -> None:
    transform = shell.transform_ast
    shell.transform_ast = lambda tree: (print("seen"), transform(tree))[1]


def _patches_the_compiler(shell: RankShell) -> None:
    name = shell.compile.get_code_name
    shell.compile.get_code_name = lambda *about: name(*about) + "*"


@pytest.mark.parametrize(
    "change", [_transforms, _shows_all, _calls_by_itself, _shouts, _cleans, _renews, _patches]
)
def test_what_a_user_has_changed_is_ipythons(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    cells = ["rank", "5", "PRINT = 3\nPRINT\nprint(PRINT)", "abs -3"]
    assert both(monkeypatch, cells, change)[0] == 0


def test_another_transformer_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    side = Side(monkeypatch, by_ipython=False, events=())
    side.shell.input_transformer_manager = TransformerManager()
    side.shell.input_transformer_manager.line_transforms.append(lambda lines: ["print(7)\n"])
    assert side.run("rank")["stdout"] == "7\n"


def test_a_wrapped_run_cell_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Side(monkeypatch, by_ipython=False, events=())
    wrapped = side.shell.run_cell
    side.shell.run_cell = lambda raw_cell, **about: wrapped("print(8)", **about)
    assert side.run("rank")["stdout"] == "8\n"


def test_what_another_compiler_does_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    both(monkeypatch, ["rank", "rank / 0"], _patches_the_compiler)


def test_what_is_changed_back_is_plain_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def there_and_back(shell: RankShell) -> None:
        shell.ast_node_interactivity = "all"
        shell.ast_node_interactivity = "last_expr"
        _shouts(shell)
        shell.input_transformers_post.clear()

    assert both(monkeypatch, ["rank", "rank + 1"], there_and_back)[0] == 2
