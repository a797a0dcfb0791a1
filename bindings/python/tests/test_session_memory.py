"""Ranks whose control group has too little memory: a death is told with the kernel's reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from session_tools import wait_for

HERE = Path(__file__).resolve().parent
LIMIT_BYTES = 600 << 20

# In the group from the start, with all that it starts; it says what was told, and what is left.
PROGRAM = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
sys.path.insert(0, sys.argv[2])
import libsk as sk
from session_tools import open_session
with open_session(2) as session:
    session.run("kept = rank + 1")
    try:
        session.run("if rank == 1: more = bytearray(1 << 30)")
    except sk.CellError as error:
        print("told:", " ".join(str(error).split()))
    print("left:", session.run("print(kept)", ranks="0").text)
"""


def _own_group() -> tuple[Path, str]:
    """Where groups below this process's own can be made, and the name of their limit's file."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        if "memory" in names.split(","):
            return Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        if number == "0" and Path("/sys/fs/cgroup/cgroup.controllers").exists():
            return Path("/sys/fs/cgroup" + path), "memory.max"
    pytest.skip("this process is in no control group that limits memory")


@pytest.fixture
def group() -> Iterator[Path]:
    parent, limit = _own_group()
    made = parent / f"sk-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (made / limit).write_text(str(LIMIT_BYTES))
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")
        yield made
    finally:
        for pid in (made / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        wait_for(lambda: not (made / "cgroup.procs").read_text())
        made.rmdir()


def test_a_rank_that_is_killed_for_memory(group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(group), str(HERE)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("told: ")]
    assert len(told) == 1, done.stdout + done.stderr
    assert "rank 1: killed by signal 9 (SIGKILL)" in told[0]
    assert "control group is out of memory" in told[0]
    assert "left: 1" in done.stdout
