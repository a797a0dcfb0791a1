"""Python ranks that die, hang or skip a barrier: what the others keep, and how all come back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

OK, ERROR = 1, 2
ENDED_S = 20  # To tell a hang, which lasts a minute here.
HANGS_IN_C = """
import ctypes, signal
if rank == {rank}:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print('up', flush=True)
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):  # No signal ends the second wait.
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(4) as session:
        assert session.run("pass").status == OK
        yield session


def kill_rank(session: Session, rank: int) -> None:
    pid = session.states()[rank]["pid"]
    assert pid > 1
    os.kill(pid, signal.SIGKILL)


def wait_until_idle(session: Session, *ranks: int) -> None:
    """Until these ranks are through with the cell that others still run."""
    until = time.monotonic() + 60
    while {session.states()[rank]["state"] for rank in ranks} != {"idle"}:
        assert time.monotonic() < until, "they do not end"


def test_a_killed_rank_is_named_and_the_others_keep_their_state(session: Session) -> None:
    session.run("x = rank * 10; import sys; print('words', file=sys.stderr)")
    pids = [each["pid"] for each in session.states()]
    number = session.start("print('up', flush=True); from time import sleep; sleep(60)")
    session.wait_started(number)
    killed = time.monotonic()
    os.kill(pids[2], signal.SIGKILL)
    cell = session.collect(number)
    assert time.monotonic() - killed < ENDED_S
    assert (cell.status, cell.ename) == (ERROR, "RankDied")
    assert "rank 2: killed by signal 9 (SIGKILL)" in cell.evalue
    refused = session.run("print('on fewer')")
    assert (refused.ename, refused.out) == ("RankUnavailable", "")
    assert "`%sk revive`" in refused.evalue
    assert "`%%on alive`" in refused.evalue
    assert session.run("x", "alive").displays[0][1]["text/plain"] == b"[0] 0\n[1] 10\n[3] 30"
    assert [each["pid"] for each in session.states() if each["rank"] != 2] == [
        pid for rank, pid in enumerate(pids) if rank != 2
    ]


def test_a_revived_rank_joins_the_collectives(session: Session) -> None:
    session.run("x = rank; comm.barrier()")
    for victim in (2, 0, 3):
        kill_rank(session, victim)
        lost = session.run("comm.barrier()", "alive")
        assert lost.status in (OK, ERROR)  # The death may be noticed before or in it.
        assert session.ask("revive")[0] == 0
        cell = session.run(
            "import numpy as np\nprint(comm.allreduce(np.array([1.0 + rank])).tolist())"
        )
        assert (cell.status, cell.out) == (OK, "[10.0]\n"), cell
    left = session.run("print('x' in globals())").out
    assert left == "[0,2,3] False\n[    1] True\n"


def test_comm_says_who_is_missing(session: Session) -> None:
    kill_rank(session, 1)
    number = session.start("pass", "1")
    assert session.collect(number).status == ERROR
    cell = session.run("comm.barrier()", "alive")
    assert cell.ename == "PeerLostError"
    assert "rank 1" in cell.evalue


def test_a_barrier_that_one_rank_does_not_reach_ends(session: Session) -> None:
    session.run("x = rank; from time import sleep")
    number = session.start("print('up', flush=True)\nrank == 2 and sleep(60)\ncomm.barrier()")
    session.wait_started(number)
    pressed = time.monotonic()
    session.interrupt()
    cell = session.collect(number)
    assert time.monotonic() - pressed < ENDED_S
    assert (cell.status, cell.ename) == (ERROR, "KeyboardInterrupt")
    assert session.run("comm.barrier()\nprint(x == rank)").out == "True\n"


def test_a_rank_stuck_in_c_is_named_with_its_frame_and_comes_back(session: Session) -> None:
    session.run("x = rank")
    number = session.start(HANGS_IN_C.format(rank=3))
    session.wait_started(number)
    wait_until_idle(session, 0, 1, 2)
    pressed = time.monotonic()
    session.interrupt()
    cell = session.collect(number)
    assert time.monotonic() - pressed < ENDED_S
    assert (cell.status, cell.ename) == (ERROR, "KeyboardInterrupt")
    assert "[rank 3]" in cell.evalue
    assert "`pthread_mutex_lock` (libc.so.6)" in cell.evalue
    assert "at cell 3, line 7 in <module>" in cell.evalue
    assert "ranks 0-2 finished" in cell.evalue
    assert "did not answer" in session.run("print(1)").evalue
    assert session.run("print(x == rank)", "alive").out == "True\n"
    assert session.states()[3]["state"] == "stuck"
    assert session.ask("revive", "3")[0] == 0
    assert session.run("comm.barrier(); print('all')").out == "all\n"


def test_stacks_of_busy_ranks(session: Session) -> None:
    idle = session.ask("stack")[1]
    assert idle == "[ranks 0-3] waits for a cell\n"
    code = "print('up', flush=True)\ndef f():\n    while True: pass\n"
    number = session.start(code + "from time import sleep\nf() if rank else sleep(60)")
    session.wait_started(number)
    until = time.monotonic() + 60
    text = ""
    while "[ranks 1-3]" not in text or "nanosleep" not in text:  # All are where they stay.
        assert time.monotonic() < until, text
        status, text = session.ask("stack")
        assert status == 0
    assert text.startswith("[rank 0]\n"), text
    assert ", line 3 in f" in text
    assert "nanosleep (libc.so.6)" in text
    session.interrupt()
    assert session.collect(number).ename == "KeyboardInterrupt"
