"""Python ranks under a real controller: cells, merged output, errors, interrupts, the ``comm``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

OK, ERROR = 1, 2


@pytest.fixture(scope="module", params=[2, 4])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with Session(request.param) as session:
        session.world_size = request.param  # type: ignore[attr-defined]
        yield session


def ranks_of(session: Session) -> range:
    return range(session.world_size)  # type: ignore[attr-defined]


def test_the_names_that_every_rank_has(session: Session) -> None:
    size = len(ranks_of(session))
    cell = session.run("print(world_size, sk.__name__, type(comm).__mro__[1].__name__)\nrank")
    assert cell.out == f"{size} libsk Comm\n"
    lines = cell.displays[0][1]["text/plain"].decode().splitlines()
    assert lines == [f"[{rank}] {rank}" for rank in ranks_of(session)]
    assert session.run("assert (comm.rank, comm.world_size) == (rank, world_size)").status == OK


def test_what_is_alike_is_shown_once(session: Session) -> None:
    cell = session.run("print('same')\nprint('rank', rank)\n!echo from a shell\n'value'")
    each = "".join(f"[{rank}] rank {rank}\n" for rank in ranks_of(session))
    assert cell.out == f"    same\n{each}    from a shell\n"
    assert [bundle for _, bundle in cell.displays] == [{"text/plain": b"'value'"}]


def test_output_of_c_code_and_of_descriptors(session: Session) -> None:
    cell = session.run(
        "import ctypes, os, sys\n"
        "print('python')\n"
        "sys.stdout.flush()\n"
        "ctypes.CDLL(None).puts(b'c library')\n"
        "ctypes.CDLL(None).fflush(None)\n"
        "os.write(2, b'descriptor\\n');"
    )
    assert (cell.out, cell.err) == ("python\nc library\n", "descriptor\n")


def test_text_without_a_newline_arrives(session: Session) -> None:
    assert session.run("print('no newline', end='')").out.rstrip("\n") == "no newline"


def test_all_ranks_reduce(session: Session) -> None:
    size = len(ranks_of(session))
    cell = session.run("import numpy as np\nprint(comm.allreduce(np.arange(3) + rank).tolist())")
    first = size * (size - 1) // 2
    assert cell.out == f"{[first + size * i for i in range(3)]}\n", cell


def test_one_error_that_names_its_rank(session: Session) -> None:
    cell = session.run("if rank == 1:\n    raise ValueError('boom')")
    assert cell.status == ERROR
    assert (cell.ename, "boom" in cell.evalue, "rank" in cell.evalue) == ("ValueError", True, True)
    assert "libsk/kernel" not in cell.traceback and "interactiveshell" not in cell.traceback
    assert session.run("print('alive')").out == "alive\n"


def test_a_figure_drawn_alike_is_one_picture(session: Session) -> None:
    pytest.importorskip("matplotlib")
    cell = session.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 1]);")
    pictures = [bundle["image/png"] for _, bundle in cell.displays if "image/png" in bundle]
    assert len(pictures) == 1 and pictures[0].startswith(b"\x89PNG"), cell


@pytest.mark.parametrize(
    "body", ["from time import sleep; sleep(60)", "while True: pass", "!sleep 60"]
)
def test_an_interrupt_ends_the_cell(session: Session, body: str) -> None:
    session.run("kept = rank")
    number = session.start(f"print('started')\n{body}")
    session.wait_started(number)
    session.interrupt()
    cell = session.collect(number)
    assert (cell.status, cell.ename) == (ERROR, "KeyboardInterrupt")
    cell = session.run("print(kept == rank)")
    assert (cell.out, cell.status) == ("True\n", OK), cell


def test_an_interrupted_await_shows_the_line_of_the_cell(session: Session) -> None:
    number = session.start("import asyncio\nprint('started')\nawait asyncio.sleep(600)")
    session.wait_started(number)
    session.interrupt()
    cell = session.collect(number)
    assert cell.ename == "KeyboardInterrupt"
    assert "await asyncio.sleep(600)" in re.sub(r"\x1b\[[0-9;]*m", "", cell.traceback)
    assert session.run("await asyncio.sleep(0)\nprint('on')").out == "on\n"


def test_tasks_go_on_between_cells(session: Session) -> None:
    code = (
        "import asyncio, threading\n"
        "over = threading.Event()\n"
        "async def count():\n"
        "    for _ in range(3): await asyncio.sleep(0.01)\n"
        "    over.set()\n"
        "task = asyncio.create_task(count())\n"
        "await asyncio.sleep(0)"
    )
    assert session.run(code).status == OK
    for _ in range(200):  # Each cell ends at once; only between them can the tasks go on.
        if "False" not in session.run("print(over.is_set())").out:
            break
    assert session.run("print(task.done())").out == "True\n"


BETWEEN = {
    "a server": "async def answer(reader, writer):\n"
    "    writer.write(b'yes'); writer.close()\n"
    "server = await asyncio.start_server(answer, '127.0.0.1', 0)\n"
    "def ask():\n"
    "    if socket.create_connection(server.sockets[0].getsockname()).recv(3): over.set()\n"
    "threading.Thread(target=ask).start()",
    "a callback": "await asyncio.sleep(0)\n_ = asyncio.get_event_loop().call_later(0.01, over.set)",
    "a callback that a thread gives": "await asyncio.sleep(0)\n"
    "loop, ended = asyncio.get_event_loop(), threading.Event()\n"
    "get_ipython().events.register('post_execute', ended.set)\n"
    "def give(): ended.wait(); loop.call_soon_threadsafe(over.set)\n"
    "threading.Thread(target=give).start()",
    "a task of a cell that does not await": "async def work(): over.set()\n"
    "task = asyncio.create_task(work())",
}


@pytest.mark.parametrize("what", BETWEEN)
def test_the_loop_goes_on_between_cells(session: Session, what: str) -> None:
    begin = "import asyncio, socket, threading\nover = threading.Event()\n"
    cell = session.run(begin + BETWEEN[what])
    assert cell.status == OK, cell
    until = time.monotonic() + 20
    while "False" in session.run("print(over.is_set())").out and time.monotonic() < until:
        pass
    assert session.run("print(over.is_set())").out == "True\n"
    session.run("if 'server' in globals(): server.close(); del server")


def test_all_cells_have_one_loop(session: Session) -> None:
    code = "import asyncio\nasync def work(): return 7\nfuture = asyncio.ensure_future(work())"
    assert session.run(code).status == OK
    assert session.run("print(await future)").out == "7\n"
    assert session.run("print(asyncio.run(work()))").out == "7\n"
    same = "import asyncio\nloop = asyncio.get_event_loop()"
    assert session.run(same).status == OK
    assert session.run("print(loop is asyncio.get_running_loop(), await work())").out == "True 7\n"
    both = (
        "async def begin(): return await asyncio.create_task(work())\nprint(asyncio.run(begin()))"
    )
    assert session.run(both).out == "7\n"


def test_a_forked_process_has_a_loop_of_its_own(session: Session) -> None:
    code = (
        "import asyncio, os\nloop = asyncio.get_event_loop()\npid = os.fork()\n"
        "if pid == 0:\n    os._exit(int(asyncio.get_event_loop() is loop))\n"
        "print(os.waitpid(pid, 0)[1])"
    )
    assert session.run(code).out == "0\n"


def test_an_interrupt_ends_a_collective_and_the_next_cell_has_a_comm(session: Session) -> None:
    session.run("comm.barrier(); from time import sleep")
    number = session.start("print('started')\nrank or sleep(60)\ncomm.barrier()")
    session.wait_started(number)
    session.interrupt()
    cell = session.collect(number)
    assert (cell.status, cell.ename) == (ERROR, "KeyboardInterrupt")
    size = len(ranks_of(session))
    cell = session.run("print(int(comm.allreduce(1)))")
    assert cell.out == f"{size}\n", cell


def test_a_freed_comm_is_there_again_in_the_next_cell(session: Session) -> None:
    cell = session.run("comm.free()\ncomm.barrier()")
    assert cell.status == ERROR
    assert "this communicator was freed" in cell.evalue
    assert session.run("print(comm.allreduce(1))").out == f"{len(ranks_of(session))}\n"


def test_a_wrong_call_says_so_without_our_frames(session: Session) -> None:
    cell = session.run("comm.allreduce('text')")
    assert cell.ename == "InvalidArgumentError"
    assert "x is a str" in cell.evalue
    assert "_arrays.py" not in cell.traceback


def test_input_is_refused_with_a_sentence(session: Session) -> None:
    cell = session.run("input('name? ')")
    assert cell.ename == "StdinNotImplementedError" and "nobody to ask" in cell.evalue
