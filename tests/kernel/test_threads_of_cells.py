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
        "    display(HTML(f'<b>late {rank}</b>'))\n"
        "    done.set()\n"
        "threading.Thread(target=work).start()"
    )
    cells = {two.start(work): "first", two.start(MEANWHILE): "second"}
    texts = outputs(two, cells, 6)
    assert texts["second"] == "before\nafter\n"
    for rank in range(2):
        assert f"'rank {rank}'" in texts["first"]
        assert f"<b>late {rank}</b>" in texts["first"]


def test_a_task_of_asyncio_prints_under_the_cell_that_made_it(two: Kernel) -> None:
    work = (
        "import asyncio, sys\n"
        "from IPython.display import HTML, display\n"
        "woken = asyncio.Event()\n"
        "async def inner():\n"
        "    print('from its own task')\n"
        "async def work():\n"
        "    await woken.wait()\n"
        "    print('from', 'a task', rank)\n"
        "    print('its error', file=sys.stderr)\n"
        "    await asyncio.create_task(inner())\n"
        "    await asyncio.to_thread(print, 'from its thread')\n"
        "    display(HTML(f'<b>late {rank}</b>'))\n"
        "task = asyncio.create_task(work())\n"
        "await asyncio.sleep(0)\n"
        "print('begun')"
    )
    meanwhile = "print('before')\nwoken.set()\nawait task\nprint('after')"
    cells = {two.start(work): "first", two.start(meanwhile): "second"}
    texts = outputs(two, cells, 15)
    assert texts["second"] == "before\nafter\n"
    first = texts["first"].splitlines()
    assert first[0] == "begun"
    for rank in range(2):
        own = [line for line in first if line.startswith(f"[{rank}] ")]
        assert sorted(own) == [
            f"[{rank}] from a task {rank}",
            f"[{rank}] from its own task",
            f"[{rank}] from its thread",
            f"[{rank}] its error",
        ]
        assert f"<b>late {rank}</b>" in texts["first"]


def test_a_task_that_uses_a_widget_leaves_the_running_cell_its_place(two: Kernel) -> None:
    pytest.importorskip("ipywidgets")
    work = (
        "import asyncio, ipywidgets\n"
        "out, woken = ipywidgets.Output(), asyncio.Event()\n"
        "async def work():\n"
        "    await woken.wait()\n"
        "    with out:\n"
        "        print('in the widget')\n"
        "task = asyncio.create_task(work())\n"
        "await asyncio.sleep(0)"
    )
    meanwhile = "print('before')\nwoken.set()\nawait task\nprint('after')"
    cells = {two.start(work): "first", two.start(meanwhile): "second"}
    texts = outputs(two, cells, 2)
    assert texts["second"] == "before\nafter\n"


def test_a_task_is_of_the_cell_that_gave_it_to_the_pool(two: Kernel) -> None:
    pool = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\n"
        "pool.submit(print, 'one').result()"
    )
    assert two.run(pool).text() == "one\n"
    cell = two.run("print('begin')\npool.submit(print, 'two').result()\nprint('end')")
    assert cell.text() == "begin\ntwo\nend\n"


def test_each_script_comes_under_its_own_cell(two: Kernel) -> None:
    """IPython keeps one thread with a loop for all scripts, which the first such cell begins."""
    assert two.run("%%bash\necho one").text() == "one\n"
    second = two.run("%%bash\necho two; echo its error >&2")
    assert (second.text(), second.text("stderr")) == ("two\n", "its error\n")
    third = two.run("%%sh\necho three; exit 3")
    assert third.text() == "three\n"
    assert third.of("error")[0]["ename"] == "CalledProcessError"


def test_a_script_of_a_widget_comes_into_it(two: Kernel) -> None:
    pytest.importorskip("ipywidgets")
    two.run("%%bash\necho the thread is there")
    cell = two.run(
        "import ipywidgets\n"
        "out = ipywidgets.Output()\n"
        "with out:\n"
        "    get_ipython().run_cell_magic('bash', '', 'echo inside')\n"
        "get_ipython().run_cell_magic('bash', '', 'echo outside')"
    )
    assert cell.text() == "outside\n"
    assert two.run("print(out.outputs[0]['text'])").text() == "inside\n\n"


def test_what_a_loop_of_an_earlier_cell_is_given_is_of_the_cell_that_gave_it(two: Kernel) -> None:
    begin = (
        "import asyncio\n"
        "from IPython.display import HTML, display\n"
        "loop = asyncio.new_event_loop()\n"
        "threading.Thread(target=loop.run_forever, daemon=True).start()"
    )
    give = (
        "async def work():\n"
        "    print('of a task')\n"
        "    await asyncio.to_thread(print, 'of its thread')\n"
        "    display(HTML('<b>shown</b>'))\n"
        "asyncio.run_coroutine_threadsafe(work(), loop).result(60)\n"
        "loop.call_soon_threadsafe(print, 'of a callback')\n"
        "loop.call_soon_threadsafe(done.set)\n"
        "assert done.wait(60)"
    )
    two.run(begin)
    cell = two.run(give)
    assert sorted(cell.text().splitlines()) == ["of a callback", "of a task", "of its thread"]
    assert cell.of("display_data")[0]["data"]["text/html"] == "<b>shown</b>"


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


def test_who_is_refused_is_told_whose_call_is_inside(two: Kernel) -> None:
    """Rank 0's thread waits in a barrier for a later cell of rank 1."""
    work = (
        "import libsk\n"
        "def work():\n"
        "    while True:\n"
        "        try: return comm.barrier()\n"
        "        except libsk.BusyError: pass  # The cell looked just then.\n"
        "if rank == 0:\n"
        "    side = threading.Thread(target=work, name='side'); side.start()\n"
        "while rank == 0:\n"
        "    try: comm.plan('barrier')\n"
        "    except libsk.BusyError as error:\n"
        "        print(str(error).partition(' of this')[0])\n"
        "        break"
    )
    cell = two.run(work)
    number = cell.reply["execution_count"]
    wanted = f"comm.plan(): thread 'side' (begun in In[{number}]) is inside comm.barrier()"
    assert cell.text() == f"[0] {wanted}\n"
    done = two.run("comm.barrier() if rank else side.join()\nprint('on')")
    assert done.text() == "on\n"


CALLS = {
    "allreduce": "comm.allreduce(1)",
    "a plan's run": "plan.run(x)",
    "empty": "comm.empty(4)",
    "free": "comm.free(held)",
}
REFUSED = "calls it outside that cell; comm is for the cell that runs"


@pytest.mark.parametrize("call", CALLS)
def test_no_task_of_another_cell_calls_the_cells_communicator(two: Kernel, call: str) -> None:
    """It would meet the next cell's call of another rank, and each sum would be wrong."""
    work = (
        "import asyncio, numpy as np\n"
        "x, held, said, woken = np.ones(1), comm.empty(2), [], asyncio.Event()\n"
        "plan = comm.plan('allreduce', dtype='f64', count=1)\n"
        "async def work():\n"
        "    await woken.wait()\n"
        "    try:\n"
        f"        said.append({CALLS[call]})\n"
        "    except sk.BusyError as error: said.append(str(error))\n"
        "task = asyncio.create_task(work())\n"
        "await asyncio.sleep(0)"
    )
    number = two.run(work).reply["execution_count"]
    between = "woken.set()\nif rank == 0: await task\nprint(comm.allreduce(100))\nawait task"
    assert two.run(between).text() == "200\n"
    said = two.run("print(*said)").text()
    assert f"(): a task of In[{number}] {REFUSED}" in said and not said.startswith("[")
    assert two.run("comm.free(held)\nprint(comm.allreduce(1))").text() == "2\n"


def test_no_task_between_cells_calls_the_cells_communicator(two: Kernel) -> None:
    work = (
        "import asyncio\n"
        "from libsk.kernel import places\n"
        "said = []\n"
        "async def work():\n"
        "    while places._runs: await asyncio.sleep(0)\n"
        "    try: comm.allreduce(1)\n"
        "    except sk.BusyError as error: said.append(str(error))\n"
        "if rank == 0:\n"
        "    task = asyncio.create_task(work())\n"
        "await asyncio.sleep(0)"
    )
    number = two.run(work).reply["execution_count"]
    assert two.run("print(comm.allreduce(100))").text() == "200\n"
    said = two.run("if rank == 0:\n    await task\n    print(*said)").text()
    assert f"[0] comm.allreduce(): a task of In[{number}] {REFUSED}" in said


KEEPS = {
    "a call that others do not come to": ("mine.barrier()", "barrier"),
    "a wait of its own": ("threading.Event().wait(600)", "wait"),
}


@pytest.mark.parametrize("what", KEEPS)
def test_a_task_that_keeps_its_rank_is_seen_and_an_interrupt_ends_it(
    two: Kernel, what: str
) -> None:
    code, shown = KEEPS[what]
    work = (
        "import asyncio, libsk, threading\n"
        "from libsk.kernel import places\n"
        "mine = libsk.Comm(name='mine')\n"
        "async def work():\n"
        "    while places._runs: await asyncio.sleep(0)\n"
        f"    {code}  # here\n"
        "if rank == 0:\n"
        "    task = asyncio.create_task(work())\n"
        "await asyncio.sleep(0)"
    )
    two.run(work)
    sent = two.start("print('on')")
    assert two.wait_for_stream(sent) == "[1] on\n"
    stack = two.aside("%sk stack")
    assert "[rank 1] waits for a cell" in stack
    assert "[rank 0]" in stack and "in work" in stack and shown in stack
    two.manager.interrupt_kernel()
    (error,) = two.finish(sent).of("error")
    assert (error["ename"], error["evalue"]) == (
        "KeyboardInterrupt",
        "before the cell began here [rank 0]",
    )
    assert two.run("print(comm.allreduce(1))").text() == "2\n"


def test_a_notebook_gives_symmetric_memory_back(two: Kernel) -> None:
    cell = two.run("held = comm.empty(4)\ncomm.free(held)\nprint(held.size)")
    assert cell.text() == "0\n"


def test_no_thread_of_another_cell_calls_the_cells_communicator(two: Kernel) -> None:
    work = (
        "def work():\n"
        "    go.wait(60)\n"
        "    try: comm.allreduce(1)\n"
        "    except sk.BusyError as error: said.append(str(error))\n"
        "    comm.info()  # Which waits for nobody.\n"
        "    done.set()\n"
        "said = []\n"
        "threading.Thread(target=work, name='side').start()"
    )
    number = two.run(work).reply["execution_count"]
    two.run("go.set()\nassert done.wait(60)")
    said = two.run("print(*said)").text()
    assert f"comm.allreduce(): thread 'side' (begun in In[{number}]) {REFUSED}" in said
    assert two.run("print(comm.allreduce(1))").text() == "2\n"


def test_a_cell_and_what_it_waits_for_call_the_communicator(two: Kernel) -> None:
    cell = (
        "import asyncio\n"
        "async def work(): return comm.allreduce(1)\n"
        "print(await work(), await asyncio.create_task(work()))\n"
        "print(await asyncio.to_thread(comm.allreduce, 1))\n"
        "thread = threading.Thread(target=lambda: print(comm.allreduce(1)))\n"
        "thread.start(); thread.join()"
    )
    assert two.run(cell).text() == "2 2\n2\n2\n"


def test_a_task_that_exits_between_cells_is_told_of_once(two: Kernel) -> None:
    """Not again by asyncio, under whichever cell runs when its memory is given back."""
    two.run(
        "import asyncio, gc\n"
        "async def leave():\n"
        "    await asyncio.sleep(0.02)\n"
        "    raise SystemExit\n"
        "task = asyncio.create_task(leave())\n"
        "await asyncio.sleep(0)"
    )
    for _ in range(1000):
        if two.run("print(task.done())").text() == "True\n":
            break
    else:
        raise AssertionError("the task does not end")
    cell = two.run("del task\nprint('collected', gc.collect() > 0)")
    assert (cell.text(), cell.text("stderr")) == ("collected True\n", "")
