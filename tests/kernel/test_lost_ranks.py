"""A Python rank killed in a cell: what the notebook is told, what stays, what comes back."""

from __future__ import annotations

import importlib.util
import sys
import time

import pytest
from conftest import Kernel, StartKernel, kill

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

RANKS = 4
VICTIM = 2
ENDED_S = 20  # To tell a hang; ./dev bench --stages notebook measures it against 0.2 s.


@pytest.fixture
def four(start_kernel: StartKernel) -> Kernel:
    """A kernel of four Python ranks."""
    return start_kernel(RANKS, [sys.executable, "-m", "libsk.kernel"])


def pids(kernel: Kernel, cell: str) -> dict[int, int]:
    """The process of each rank that the cell runs on."""
    text = kernel.run(cell).text()
    return {int(line[1]): int(line.split("pid ")[1]) for line in text.splitlines()}


@pytest.mark.acceptance(5)
def test_a_killed_rank_costs_only_what_was_its_own(four: Kernel) -> None:
    tell = "import os; print('pid', os.getpid())"
    four.run("kept = 7 * rank")
    before = pids(four, tell)
    assert sorted(before) == list(range(RANKS))
    running = four.start(
        "import sys, threading\n"
        "print('last words of', rank, file=sys.stderr, flush=True)\n"
        "_ = threading.Event().wait(60)"
    )
    seen = ""
    while f"last words of {VICTIM}" not in seen:
        seen += four.wait_for_stream(running)
    killed = time.monotonic()
    kill(before[VICTIM])
    cell = four.finish(running)
    assert time.monotonic() - killed < ENDED_S
    assert len(cell.of("error")) == 1
    assert cell.reply["ename"] == "RankDied"
    assert f"rank {VICTIM}: killed by signal 9 (SIGKILL)" in cell.reply["evalue"]
    assert f"[{VICTIM}] last words of {VICTIM}\n" in cell.text("stderr")

    refused = four.run("kept = 0")
    assert refused.reply["ename"] == "RankUnavailable"
    assert "`%sk revive`" in refused.reply["evalue"]
    assert "`%%on alive`" in refused.reply["evalue"]
    others = [rank for rank in range(RANKS) if rank != VICTIM]
    lines = "".join(f"[{rank}] {7 * rank}\n" for rank in others)
    assert four.run("%%on alive\nprint(kept)").text() == lines

    assert four.run("%sk revive").reply["status"] == "ok"
    after = pids(four, tell)
    assert sorted(after) == list(range(RANKS))
    assert [rank for rank in range(RANKS) if after[rank] != before[rank]] == [VICTIM]
    assert four.run("%%on 0,1,3\nprint(kept)").text() == lines
    assert "NameError" in four.run(f"%%on {VICTIM}\nkept").reply["ename"]
    total = RANKS * (RANKS + 1) // 2
    assert four.run("print(comm.allreduce(rank + 1))").text() == f"{total}\n"
