"""The first notebooks of the idea, on ``comm``: `%sk tag spec` shows what they showed."""

from __future__ import annotations

import importlib.util
import socket
import sys

import pytest
from conftest import Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]
SUM = (
    "import numpy as np\n"
    "value = rank + 1\n"
    "total = int(comm.allreduce(np.array([value]))[0])\n"
    "print(f'local value = {value}, total sum = {total} (world_size={world_size})')"
)


@pytest.fixture(params=[12, 24])
def ranks(request: pytest.FixtureRequest) -> int:
    """As many as those notebooks had."""
    return int(request.param)


@pytest.fixture
def kernel(start_kernel: StartKernel, ranks: int) -> Kernel:
    """Python ranks whose lines are tagged one by one."""
    kernel = start_kernel(ranks, PROGRAM)
    assert kernel.run("%sk tag spec").reply["status"] == "ok"
    return kernel


@pytest.mark.acceptance(2)
def test_each_line_has_its_rank_in_order(kernel: Kernel, ranks: int) -> None:
    host = socket.gethostname()
    assert kernel.run("!hostname").text() == "".join(
        f"[rank {r:4d}] {host}\n" for r in range(ranks)
    )
    assert kernel.run("%hostname").text() == "".join(
        f"[rank {r:4d}] {host}\n" for r in range(ranks)
    )
    total = ranks * (ranks + 1) // 2
    assert kernel.run(SUM).text() == "".join(
        f"[rank {r:4d}] local value = {r + 1}, total sum = {total} (world_size={ranks})\n"
        for r in range(ranks)
    )
    some = kernel.run("if rank < 3:\n    print(f'Hello from rank {rank}')")
    assert some.text() == "".join(f"[rank {r:4d}] Hello from rank {r}\n" for r in range(3))


@pytest.mark.acceptance(2)
def test_several_lines_stay_with_their_rank(kernel: Kernel, ranks: int) -> None:
    cell = kernel.run("for i in range(3): print('line', i)")
    assert cell.text() == "".join(
        f"[rank {r:4d}] line {i}\n" for r in range(ranks) for i in range(3)
    )
    # Results and displays of all ranks stay one, and the mode can be left again.
    assert kernel.run("%sk tag set\nprint('once')").text() == "once\n"
