"""Threads that outlive their cell: what they put out comes under it, whatever runs by then."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict

import pytest
from conftest import TIMEOUT, Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

GATES = "import threading\nbegun, go, done = (threading.Event() for _ in range(3))"
# Waits on every rank until a thread of an earlier cell has put out what it has.
MEANWHILE = "print('before')\ngo.set()\nassert done.wait(60)\nprint('after')"


@pytest.fixture
def two(start_kernel: StartKernel) -> Kernel:
    """A kernel of two Python ranks, with events to wait for."""
    kernel = start_kernel(2, [sys.executable, "-m", "libsk.kernel"])
    kernel.run(GATES)
    return kernel


def outputs(kernel: Kernel, cells: dict[str, str], lines: int) -> dict[str, str]:
    """Text and displays by cell, until there are so many lines and every cell is idle."""
    texts: dict[str, str] = defaultdict(str)
    busy = set(cells)
    while busy or sum(text.count("\n") for text in texts.values()) < lines:
        message = kernel.client.get_iopub_msg(timeout=TIMEOUT)
        parent = message["parent_header"].get("msg_id")
        if parent not in cells:
            continue
        content = message["content"]
        if message["msg_type"] == "clear_output":
            texts[cells[parent]] = ""
        elif message["msg_type"] == "stream":
            texts[cells[parent]] += content["text"]
        elif message["msg_type"] in ("display_data", "error"):
            texts[cells[parent]] += f"{content}\n"
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            busy.discard(parent)
    return texts


def test_a_thread_prints_under_its_own_cell(two: Kernel) -> None:
    work = (
        "import sys\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    print('from', 'a', 'thread', rank)\n"
        "    print('its error', file=sys.stderr)\n"
        "    child = threading.Thread(target=print, args=('from its child',))\n"
        "    child.start(); child.join()\n"
        "    done.set()\n"
        "threading.Thread(target=work).start()\n"
        "print('begun')"
    )
    cells = {two.start(work): "first", two.start(MEANWHILE): "second"}
    texts = outputs(two, cells, 9)
    assert texts["second"] == "before\nafter\n"
    first = texts["first"].splitlines()
    assert first[0] == "begun"
    for rank in range(2):
        own = [line for line in first if line.startswith(f"[{rank}] ")]
        assert sorted(own) == [
            f"[{rank}] from a thread {rank}",
            f"[{rank}] from its child",
            f"[{rank}] its error",
        ]


def test_displays_of_a_thread_come_under_its_own_cell(two: Kernel) -> None:
    work = (
        "from IPython.display import HTML, display\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    display(HTML('<b>late</b>'))\n"
        "    done.set()\n"
        "threading.Thread(target=work).start()"
    )
    cells = {two.start(work): "first", two.start(MEANWHILE): "second"}
    texts = outputs(two, cells, 4)
    assert texts["second"] == "before\nafter\n"
    assert texts["first"].count("<b>late</b>") == 2


def test_a_task_is_of_the_cell_that_gave_it_to_the_pool(two: Kernel) -> None:
    pool = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\n"
        "pool.submit(print, 'one').result()"
    )
    assert two.run(pool).text() == "one\n"
    cell = two.run("print('begin')\npool.submit(print, 'two').result()\nprint('end')")
    assert cell.text() == "begin\ntwo\nend\n"


def test_a_thread_may_outlive_the_kernel(two: Kernel) -> None:
    work = (
        "def work():\n"
        "    while not done.wait(0.001): print('x' * 100)\n"
        "threading.Thread(target=work, daemon=True).start()"
    )
    two.run(work)
    assert two.run("print('on')").text() == "on\n"
    two.client.shutdown()
    assert two.manager.provisioner is not None
    two.stop()
    assert not two.manager.is_alive()
