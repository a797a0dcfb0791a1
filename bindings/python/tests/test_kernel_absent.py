"""Collectives that wait for a rank which will not come end and say why; others are left be."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from session import Cell, Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

OK, ERROR = 1, 2
RANKS = 4
LIMIT_S = 20.0  # A wait that nothing ends takes 60.
THREADS = """
import threading
from time import sleep
mine = sk.Comm(bootstrap="env", name="threads")
def work():
    for turn in range(4):
        sleep(0.5 if rank == turn else 0)
        mine.barrier()
thread = threading.Thread(target=work)
thread.start()
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(RANKS) as session:
        expect_united(session)
        assert session.run("kept = rank").status == OK
        yield session


def expect_united(session: Session) -> None:
    cell = session.run("print(comm.allreduce(rank + 1).item())")
    assert (cell.status, cell.out) == (OK, "10\n"), cell


def run(session: Session, code: str, ranks: str | None = None) -> Cell:
    """A cell that ends by itself; then the ranks are all there, with what they had."""
    began = time.monotonic()
    cell = session.run(code, ranks)
    assert time.monotonic() - began < LIMIT_S
    expect_united(session)
    assert session.run("print(kept == rank)").out == "True\n"
    return cell


def test_a_rank_that_failed_is_named_with_its_cause(session: Session) -> None:
    cell = run(session, "if rank == 2:\n    1 / 0\nprint('on')\ncomm.barrier()")
    assert (cell.status, cell.ename) == (ERROR, "ZeroDivisionError"), cell
    why = "the cell has ended there with ZeroDivisionError: division by zero"
    assert f"rank 2 will not come to barrier(): {why} [ranks 0,1,3]" in cell.evalue
    assert "rank 2 (root cause" in cell.traceback
    assert "ranks 0,1,3 (as a consequence" in cell.traceback
    assert cell.out == "[0,1,3] on\n"


@pytest.mark.parametrize("how", ["from error", "from None", ""])
def test_an_error_that_follows_from_it_is_a_consequence_too(session: Session, how: str) -> None:
    cell = run(
        session,
        "if rank == 2:\n    1 / 0\ntry:\n    comm.barrier()\nexcept sk.PeerLostError as error:\n"
        f"    raise RuntimeError('training failed') {how}",
    )
    assert cell.ename == "ZeroDivisionError", cell
    assert "rank 2 (root cause" in cell.traceback
    assert "ranks 0,1,3 (as a consequence" in cell.traceback


def test_a_rank_that_skips_the_call_is_named(session: Session) -> None:
    cell = run(session, "if rank not in (0, 1):\n    comm.allreduce(kept)")
    assert cell.ename == "PeerLostError"
    assert "ranks 0 and 1 will not come to allreduce(" in cell.evalue
    assert cell.evalue.endswith("the cell has ended there [ranks 2,3]")


def test_a_rank_that_the_cell_does_not_name_is_named(session: Session) -> None:
    cell = run(session, "comm.barrier()", "0-2")
    assert cell.ename == "PeerLostError"
    assert "rank 3 will not come to barrier(): the cell does not run there" in cell.evalue


def test_a_send_cannot_wait_for_the_next_cell(session: Session) -> None:
    first = session.start("comm.send(kept, 1)", "0")
    second = session.start("print(comm.recv(peer=0, shape=1, dtype='i64'))", "1")
    assert "rank 1 will not come to send_recv(" in session.collect(first, LIMIT_S).evalue
    assert session.collect(second, LIMIT_S).status != OK  # Dropped, or alone as well.
    expect_united(session)


def test_the_error_can_be_caught(session: Session) -> None:
    cell = run(
        session,
        "if rank:\n"
        "    try:\n"
        "        comm.barrier()\n"
        "    except sk.PeerLostError as error:\n"
        "        print('without', error.rank)",
    )
    assert (cell.status, cell.out) == (OK, "[1-3] without 0\n")


def test_others_may_go_on_without_a_rank_that_is_done(session: Session) -> None:
    cell = run(
        session,
        "from time import sleep\n"
        "if rank == 0:\n"
        "    sleep(1.5)\n"  # The receiver waits for one that is late, not gone.
        "    comm.send(7, 1)\n"
        "elif rank == 1:\n"
        "    print(comm.recv(peer=0, shape=1, dtype='i64').item())",
    )
    assert (cell.status, cell.out) == (OK, "[1] 7\n"), cell


def test_a_late_rank_is_waited_for(session: Session) -> None:
    code = "from time import sleep\nsleep(1.5 if rank == 0 else 0)\ncomm.barrier()\nprint('all')"
    cell = run(session, code)
    assert (cell.status, cell.out) == (OK, "all\n")


def test_threads_beside_the_cells_are_left_be(session: Session) -> None:
    assert session.run(THREADS).status == OK
    # Their calls wait for ranks that are in no cell.
    assert session.run("sleep(1)", "0").status == OK
    cell = session.run("thread.join(20)\nprint(thread.is_alive(), mine.info()['over'])")
    assert cell.out == "False 0\n", cell
    # And a cell's call may wait for such a thread.
    cell = session.run(
        "def late():\n"
        "    sleep(1.5)\n"
        "    mine.barrier()\n"
        "if rank == 2:\n"
        "    thread = threading.Thread(target=late)\n"
        "    thread.start()\n"
        "else:\n"
        "    mine.barrier()"
    )
    assert cell.status == OK, cell
    assert session.run("thread.join(20)\nmine.free()\nprint(thread.is_alive())").out == "False\n"
    expect_united(session)


ONCE = {
    "a thread": "thread = threading.Thread(target=use)\nthread.start()\nthread.join()",
    "a thread that goes on": "stay = threading.Event()\n"
    "def go_on():\n    use()\n    used.set()\n    stay.wait()\n"
    "used = threading.Event()\nthreading.Thread(target=go_on).start()\nused.wait()",
    "a pool": "pool = concurrent.futures.ThreadPoolExecutor(1)\npool.submit(use).result()",
}


@pytest.mark.parametrize("how", ONCE)
def test_what_a_thread_did_once_is_over(session: Session, how: str) -> None:
    use = "import concurrent.futures, threading\ndef use(): comm.allreduce(1)\n"
    assert session.run(use + ONCE[how]).status == OK
    cell = run(session, "if rank == 2:\n    1 / 0\ncomm.barrier()")
    assert "rank 2 will not come to barrier()" in cell.evalue
    session.run("if 'stay' in globals(): stay.set()")


def test_any_ranks_may_fail_at_any_moment(session: Session) -> None:
    choice = random.Random(5)
    for _ in range(12):
        failing = choice.sample(range(RANKS), choice.randint(1, RANKS - 1))
        steps = choice.randint(0, 3)
        delay = choice.choice([0, 0, 0.2, 0.4])
        cell = run(
            session,
            "from time import sleep\n"
            f"for _ in range({steps}): comm.barrier()\n"
            f"if rank in {failing}:\n"
            f"    sleep({delay})\n"
            "    raise ValueError('on purpose')\n"
            "comm.allreduce(kept)",
        )
        assert cell.ename == "ValueError", cell
        assert "will not come to allreduce(" in cell.evalue
