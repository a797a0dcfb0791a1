"""Cells that cannot end by themselves: a barrier that one rank skips, and a rank stuck in C."""

from __future__ import annotations

import re
import sys
import time

import pytest
from conftest import Kernel, StartKernel, alive, descendants, wait_until

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

PYTHON = [sys.executable, "-m", "libsk.kernel"]
STUCK_IN_C = """
import ctypes, signal
if rank == 3:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print('up', flush=True)
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):  # No signal ends the second wait.
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.fixture
def four(start_kernel: StartKernel) -> Kernel:
    """A kernel of four Python ranks that know their number."""
    kernel = start_kernel(4, PYTHON)
    assert kernel.run("x = rank; comm.barrier()").reply["status"] == "ok"
    return kernel


def interrupt(kernel: Kernel, code: str, done: tuple[int, ...] = ()) -> tuple[str, float]:
    """The error of a cell that is interrupted, and how long that took.

    Interrupted once it has shown something and the ranks `done` are through with it.
    """
    message_id = kernel.start(code)
    kernel.wait_for_stream(message_id)
    for rank in done:
        idle = re.compile(rf"^{rank} +idle", re.MULTILINE)
        assert wait_until(lambda idle=idle: idle.search(kernel.aside("%sk status")) is not None)
    pressed = time.monotonic()
    kernel.manager.interrupt_kernel()
    reply = kernel.finish(message_id).reply
    assert reply["ename"] == "KeyboardInterrupt"
    return reply["evalue"], time.monotonic() - pressed


@pytest.mark.acceptance(7)
def test_a_barrier_that_one_rank_skips(four: Kernel) -> None:
    began = time.monotonic()
    cell = four.run("print('up')\nif rank != 2:\n    comm.barrier()")  # Nobody interrupts it.
    assert time.monotonic() - began < 20  # It is to be 2; the machine may be busy.
    assert cell.reply["ename"] == "PeerLostError"
    why = "rank 2 will not come to barrier(): the cell has ended there"
    assert cell.reply["evalue"] == f"{why} [ranks 0,1,3]"
    assert cell.text() == "up\n"
    assert four.run("comm.barrier()\nprint(x == rank)").text() == "True\n"


@pytest.mark.acceptance(7)
def test_a_barrier_that_one_rank_does_not_reach(four: Kernel) -> None:
    elsewhere = "if rank == 2:\n    from time import sleep\n    sleep(600)\n"
    _, seconds = interrupt(four, f"print('up', flush=True)\n{elsewhere}comm.barrier()")
    assert seconds < 20
    assert four.run("comm.barrier()\nprint(x == rank)").text() == "True\n"


@pytest.mark.acceptance(7)
def test_a_rank_stuck_in_c_and_a_shutdown_with_it(four: Kernel) -> None:
    processes = descendants(four.pid)
    evalue, seconds = interrupt(four, STUCK_IN_C, (0, 1, 2))
    assert seconds < 20
    assert "[rank 3]" in evalue
    assert "`pthread_mutex_lock` (libc.so.6), at cell 2, line 7" in evalue
    assert "ranks 0-2 finished" in evalue
    assert four.run("%%on alive\nprint(x == rank)").text() == "True\n"
    four.manager.restart_kernel(now=False)
    assert wait_until(lambda: not any(map(alive, processes)))


def test_how_python_calls_a_c_function_is_no_part_of_a_stack(four: Kernel) -> None:
    again = "while True: ctypes.CDLL(None).sleep(600)"  # The question ends a sleep.
    cell = four.start(f"import ctypes\nprint('up', flush=True)\n{again}")
    four.wait_for_stream(cell)
    stack = ""

    def sleeps() -> bool:
        nonlocal stack
        stack = four.aside("%sk stack")
        return " sleep (libc" in stack and stack.startswith("[ranks 0-3]\n")

    assert wait_until(sleeps), stack
    assert "ctypes" not in stack and "ffi" not in stack, stack
    four.manager.interrupt_kernel()
    assert four.finish(cell).reply["ename"] == "KeyboardInterrupt"
