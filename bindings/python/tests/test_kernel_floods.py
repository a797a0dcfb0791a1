"""Children that flood a cell's output: ranks live on, and whoever interrupts them is heard."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from session import Session

RANKS = 16
FLOOD = "['yes']"
PEAK_MIB = 256
"""Of the controller, however much its ranks' children print."""

if sys.platform != "linux":
    pytest.skip("ranks need Linux", allow_module_level=True)


def peak_mib(pid: int) -> int:
    """The most memory that a process has held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interrupt_ends_a_cell_whose_children_flood_it(interrupts: int) -> None:
    with Session(RANKS) as session:
        session.run(f"import subprocess, threading\nchild = subprocess.Popen({FLOOD})")
        number = session.start("print('begun', flush=True)\nthreading.Event().wait()")
        session.wait_started(number)
        for _ in range(interrupts):
            session.interrupt()
        cell = session.collect(number)
        assert cell.ename == "KeyboardInterrupt"
        assert "did not stop" not in cell.evalue, cell.evalue
        status = json.loads(session.ask("status")[1])
        assert [rank["state"] for rank in status["ranks"]] == ["idle"] * RANKS, status
        assert session.run("child.kill()\nprint(child.wait())").status == 1
        assert session.run("print(comm.allreduce(1).item())").out.endswith(f"{RANKS}\n")
        assert peak_mib(status["host"]["controller_pid"]) < PEAK_MIB


def test_a_flood_for_longer_than_a_silence_kills_no_rank() -> None:
    with Session(RANKS) as session:
        # Twice as long as a rank may say nothing.
        cell = session.run(
            f"import subprocess, time\nchild = subprocess.Popen({FLOOD})\ntime.sleep(10)\n"
            "child.kill()\nprint(child.wait())"
        )
        assert (cell.ename, cell.evalue) == ("", "")
        assert {rank["state"] for rank in session.states()} == {"idle"}


def test_a_stopped_rank_is_found_among_ranks_that_flood() -> None:
    with Session(4) as session:
        session.run(f"import os, signal, subprocess, time\nchild = subprocess.Popen({FLOOD})")
        cell = session.run(
            "if rank == 2:\n    os.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(60)"
        )
        assert (cell.ename, "rank 2: sent no heartbeat" in cell.evalue) == ("RankDied", True)
        assert "rank 1:" not in cell.evalue
