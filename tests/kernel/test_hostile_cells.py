"""Cells that are hostile to whatever looks at them: no rank ends, and later cells are right."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from conftest import Cell, Kernel, StartKernel
from hostile_cells import CELLS, Case

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]


def check_later(kernel: Kernel, ranks: int) -> None:
    """A cell like any other: its print, its result and its error are what they should be."""
    cell = kernel.run("print(6 * 7)\nprint('of', rank)\n[world_size]")
    assert cell.reply["status"] == "ok", cell.messages
    width = len(str(ranks - 1))
    lines = [" " * (width + 3) + "42", *(f"[{rank:{width}}] of {rank}" for rank in range(ranks))]
    assert cell.text().splitlines() == lines
    assert cell.text("stderr") == ""
    assert [shown["data"]["text/plain"] for shown in cell.of("execute_result")] == [f"[{ranks}]"]


def run_case(kernel: Kernel, case: Case) -> Cell:
    """The hostile cell; it ends as it should, and the next one takes back what cannot stay."""
    cell = kernel.run(case.code)
    ename = cell.reply["ename"] if cell.reply["status"] == "error" else None
    assert ename == case.ename, cell.messages
    if case.undo:
        kernel.run(case.undo)
    return cell


@pytest.mark.parametrize("ranks", [4, 16])
def test_all_in_one_notebook(start_kernel: StartKernel, ranks: int) -> None:
    kernel = start_kernel(ranks, PROGRAM)
    processes = kernel.run("import os\nos.getpid()").of("execute_result")
    for name, case in CELLS.items():
        try:
            run_case(kernel, case)
            check_later(kernel, ranks)
        except AssertionError as error:
            raise AssertionError(name) from error
    now = kernel.run("import os\nos.getpid()").of("execute_result")
    assert [shown["data"] for shown in now] == [shown["data"] for shown in processes]
