"""Cells that are left as they are: exactly those that IPython would not have changed."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from collections.abc import Iterator

from conftest import end_shell
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.macro import Macro
from libsk.kernel import plain
from libsk.kernel.shell import RankShell

CELLS = [
    "",
    "\n",
    "print(1)",
    "print(1)\n",
    "x = 1\ny = x % 2",
    "%time x",
    "%%time\nx",
    "a = %time x",
    "!ls",
    "files = !ls",
    "len?",
    "?len",
    "len??",
    "  x = 1\n  y = 2",
    "\n\n1/0",
    ">>> x = 1\n>>> y",
    "def f():\n    return 1\n\n\nf()",
    "In [1]: x",
    "In [1]: for i in x:\n   ...:     i",
    ", f a b",
    "; f a b",
    "/f 1",
    "if x:\n  , f a",
    "s = '''\n%not a magic\n!nor this\nnor this?\n'''",
    "x = (1,\n  2)",
    "x != 1",
    "await f()",
    "async def f(): pass",
    "é = 'ü'",
    "a\rb",
    "a\fb",
    "'a\u2028b'",
    "x = [\n# comment\n]\\\n",
    "(",
    "'",
    "ls",
    "@f\ndef g(): ...",
    "...",
    "x\n... y",
]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_becomes_what_ipython_makes_of_it(cell: str) -> None:
    assert plain.PlainTransformer().transform_cell(cell) == TransformerManager().transform_cell(
        cell
    )


def test_any_mixture_becomes_what_ipython_makes_of_it() -> None:
    letters = " \n\t\r()'\":,;/\\%!?=1#x@$`{é"
    pieces = [*letters, ">>> ", "... ", "In [3]: ", "def f():", "ls"]
    chance = random.Random(4)
    ours, theirs = plain.PlainTransformer(), TransformerManager()
    skipped = 0
    for _ in range(6000):
        cell = "".join(chance.choices(pieces, k=chance.randint(1, 9)))
        skipped += plain._SPECIAL.search(cell) is None
        try:
            expected = theirs.transform_cell(cell)
        except SyntaxError:
            with pytest.raises(SyntaxError):
                ours.transform_cell(cell)
            continue
        assert ours.transform_cell(cell) == expected, cell
    assert skipped > 300  # Else nothing was tested.


def test_what_a_user_adds_is_run() -> None:
    ours = plain.PlainTransformer()
    ours.cleanup_transforms.append(lambda lines: [line.upper() for line in lines])
    assert ours.transform_cell("x") == "X\n"


@pytest.fixture
def shell() -> Iterator[RankShell]:
    made = RankShell.make()
    made.user_ns.update(rank=3, who=[1], f=print, time=len, m=Macro("f(1)\n"))
    yield made
    end_shell()


LINES = [
    "rank",
    "rank + 1  ",
    "who",  # A magic's name that is the user's here.
    "who(1)",
    "whos",
    "whos rank",
    "whos = 1",
    "whos, x = 1, 2",
    "pwd",
    "cd ..",
    "pwd(1)",
    "time f(1)",
    "time(1)",
    "timeit f(1)",
    "m",
    "m()",
    "m.x",
    "exit",
    "exit()",
    "quit 1",
    "import os",
    "for x in y: pass",
    "unknown",
    "unknown.name(1)",
    "f 1",
    "print 1",
    "1 + 1",
    "'text'",
    "(1)",
    "# a remark",
    "é = 1",
    "rank\n\n",
    "whos\n\n",
    "x\ny",
    "whos\nrank",
    "",
]


def as_ipython(shell: RankShell, cell: str) -> str:
    return InteractiveShell.transform_cell(shell, cell)


@pytest.mark.parametrize("autocall", [0, 1, 2])
@pytest.mark.parametrize("cell", LINES)
def test_a_line_becomes_what_ipython_makes_of_it(
    shell: RankShell, cell: str, autocall: int
) -> None:
    shell.autocall = autocall
    assert shell.transform_cell(cell) == as_ipython(shell, cell)


def test_any_line_becomes_what_ipython_makes_of_it(shell: RankShell) -> None:
    pieces = [
        "rank",
        "who",
        "whos",
        "pwd",
        "m",
        "f",
        "print",
        "if",
        "import",
        "nix",
        "exit",
        "time",
    ]
    pieces += [*" \n().,='\"1#:[]+-*\t", "lambda", "é"]
    chance = random.Random(5)
    skipped = 0
    for _ in range(4000):
        cell = "".join(chance.choices(pieces, k=chance.randint(1, 6)))
        skipped += shell.input_transformer_manager.leaves(cell) and shell.prefilter.leaves(cell)
        try:
            expected = as_ipython(shell, cell)
        except SyntaxError:
            with pytest.raises(SyntaxError):
                shell.transform_cell(cell)
            continue
        assert shell.transform_cell(cell) == expected, cell
    assert skipped > 300  # Else nothing was tested.


def test_what_a_user_adds_to_lines_is_run(shell: RankShell) -> None:
    shell.input_transformers_post.append(lambda lines: [line.upper() for line in lines])
    assert shell.transform_cell("rank") == "RANK\n"


@pytest.mark.parametrize(
    ("code", "awaits"),
    [
        ("await f()", True),
        ("async with a: pass", True),
        ("x = [i async for i in y]", True),
        ("awaited = 1", False),
        ("print(1)", False),
    ],
)
def test_only_two_words_need_an_event_loop(code: str, awaits: bool) -> None:
    assert plain.may_await(code) is awaits
