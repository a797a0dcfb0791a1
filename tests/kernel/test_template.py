"""Whether Python's ranks are forked from one process or started one by one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SK, TIMEOUT, Kernel, StartKernel
from jupyter_client.connect import write_connection_file

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]


def children_of(pid: int) -> set[int]:
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def ranks_of(kernel: Kernel) -> set[int]:
    """As the ranks know themselves."""
    lines = kernel.run("import os\nprint('pid', os.getpid())").text().splitlines()
    return {int(line.split()[-1]) for line in lines}


def test_ranks_and_their_template_are_the_controllers_children(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM)
    ranks = ranks_of(kernel)
    family = children_of(kernel.controller())
    assert len(ranks) == 3 and ranks < family and len(family) == 4


def test_without_a_template_each_is_started_by_itself(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM, {"SK_TEMPLATE": "0"})
    ranks = ranks_of(kernel)
    assert len(ranks) == 3 and children_of(kernel.controller()) == ranks


@pytest.mark.parametrize("value", ["", "2", "yes"])
def test_another_value_is_refused(tmp_path: Path, value: str) -> None:
    path, _ = write_connection_file(str(tmp_path / "connection.json"), key=b"k")
    command = [str(SK), "kernel", "-f", path, "--ranks", "1", "--", *PROGRAM]
    done = subprocess.run(
        command,
        env={**os.environ, "SK_TEMPLATE": value},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert f'SK_TEMPLATE is "{value}": it must be 0 or 1' in done.stderr
