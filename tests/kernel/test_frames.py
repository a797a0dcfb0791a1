"""Prints of several lines, as a reader of many ranks sees them."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from conftest import Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]
SOME_TIME = "import random, threading\nthreading.Event().wait(random.random() / 10)\n"
FRAME = """
class Frame:
    def __repr__(self):
        rows = "".join(f"{i}  {rank + i / 10:5.1f}  {rank * i:5}\\n" for i in range(3))
        return "       a      b\\n" + rows + "\\n[3 rows x 2 columns]"
print(Frame())
"""


@pytest.mark.parametrize("ranks", [4, 16])
def test_a_frame_stays_whole(start_kernel: StartKernel, ranks: int) -> None:
    kernel = start_kernel(ranks, PROGRAM)
    width = len(f"[{ranks - 1}] ")
    expected = " " * width + "       a      b\n"
    for rank in range(ranks):
        tag = f"[{rank:{width - 3}}] "
        expected += "".join(f"{tag}{i}  {rank + i / 10:5.1f}  {rank * i:5}\n" for i in range(3))
    expected += "\n" + " " * width + "[3 rows x 2 columns]\n"
    for _ in range(5):  # Whoever is faster.
        cell = kernel.run(SOME_TIME + FRAME)
        assert cell.text() == expected


def lines_of(kernel: Kernel, code: str) -> list[str]:
    """What a cell prints."""
    cell = kernel.run(code)
    assert cell.reply["status"] == "ok", cell.reply
    return cell.text().splitlines()


def test_sets_of_many_ranks_are_short(start_kernel: StartKernel) -> None:
    kernel = start_kernel(16, PROGRAM)
    assert lines_of(kernel, "print('even' if rank % 2 == 0 else 'odd')") == [
        "[0-14:2] even",
        "[1-15:2] odd",
    ]
    assert lines_of(kernel, "print('first' if rank == 0 else 'others')") == [
        "[ 0] first",
        "[!0] others",
    ]
    assert lines_of(kernel, "%%on !0-13\nprint(rank)") == ["[14] 14", "[15] 15"]
    assert lines_of(kernel, "%%on 3-11:4\nprint(rank)") == ["[ 3] 3", "[ 7] 7", "[11] 11"]
    nobody = kernel.run("%%on !0-15\nprint(rank)")
    assert nobody.reply["ename"] == "UsageError"
    assert "leaves no rank" in nobody.reply["evalue"]
    results = kernel.run("rank").of("execute_result")[0]["data"]["text/plain"].splitlines()
    assert results == [f"[{rank:2}] {rank}" for rank in range(16)]
