"""The notebook's ``comm`` when ranks die, freeze or are interrupted while they connect."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from session import Cell, Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

OK, ERROR = 1, 2
RANKS = 4
LIMIT_S = 20.0  # An attempt that nobody gives up takes 60.
REUNITE = "print(comm.allreduce(rank + 1).item())"
LEFT = """
import os, threading
open_files = []
for number in os.listdir("/proc/self/fd"):
    try:
        open_files.append(os.readlink(f"/proc/self/fd/{number}").rstrip("]0123456789"))
    except OSError:
        pass  # That of the listing.
connecting = [each.name for each in threading.enumerate() if each.name == "libsk-connect"]
print(sorted(open_files), len(os.listdir("/proc/self/task")), connecting)
"""


def expect_united(cell: Cell) -> None:
    assert (cell.status, cell.out) == (OK, "10\n"), cell


def pid_of(session: Session, rank: int) -> int:
    pid = session.states()[rank]["pid"]
    assert pid > 1
    return pid


def revive(session: Session) -> None:
    """Once the death is known."""
    deadline = time.monotonic() + LIMIT_S
    while session.ask("revive")[0] != 0:
        assert time.monotonic() < deadline


def wait_for_state(session: Session, rank: int, state: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while session.states()[rank]["state"] != state:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("close", ["os.close(0)", "ctypes.CDLL(None).close(0)"])
def test_descriptor_0_is_not_left_closed(close: str) -> None:
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))  # No thread opens anything meanwhile.
        session.run(f"import ctypes, os; {close};")
        later = session.run("print(os.readlink('/proc/self/fd/0'))\n!cat; echo $?")
        assert (later.out, later.err) == ("/dev/null\n0\n", "")


def test_without_descriptor_0_an_attempt_is_given_up_all_the_same() -> None:
    """In a configuration 0 is no descriptor, and what gives up must not be that one."""
    program = """
import os, threading
os.close(0)
import libsk as sk
from libsk import _core
cancel = _core.Cancel()
threading.Timer(0.2, cancel.request).start()
try:
    sk.Comm(rank=0, world_size=2, bootstrap="threads", timeout=20, _cancel=cancel)
except sk.Error as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.stderr) == ("AbortedError\n", "")


@pytest.mark.parametrize("witness", [0, 1])
def test_a_death_at_any_moment_of_connecting(witness: int) -> None:
    choice = random.Random(witness)
    victims = [rank for rank in range(RANKS) if rank != witness]
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))
        before = session.run(LEFT, str(witness)).out
        for _ in range(12):
            os.kill(pid_of(session, choice.choice(victims)), signal.SIGKILL)
            revive(session)
            pids = [each["pid"] for each in session.states() if each["rank"] in victims]
            # The ranks connect as soon as the new one is there: some 30 ms from here on.
            threading.Event().wait(choice.uniform(0, 0.08))
            victim = choice.choice([pid for pid in pids if pid > 1])  # 0: not forked yet.
            os.kill(victim, signal.SIGKILL)
            if choice.random() < 0.5:  # A cell may be waiting for the communicator meanwhile.
                assert session.run("comm.barrier()", "alive").status in (OK, ERROR)
            began = time.monotonic()
            revive(session)
            expect_united(session.run(REUNITE))
            assert time.monotonic() - began < LIMIT_S
        assert session.run(LEFT, str(witness)).out == before


def test_an_interrupt_gives_up_connecting() -> None:
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))
        frozen = pid_of(session, 3)
        assert session.run("comm.abort('enough')", "0").status == OK
        os.kill(frozen, signal.SIGSTOP)
        try:
            number = session.start("print('up', flush=True)\ncomm.barrier()", "0-2")
            session.wait_started(number)
            began = time.monotonic()
            session.interrupt()
            assert session.collect(number).ename == "KeyboardInterrupt"
        finally:
            os.kill(frozen, signal.SIGCONT)
        expect_united(session.run(REUNITE))
        assert time.monotonic() - began < LIMIT_S


def test_the_death_of_a_rank_outside_the_cell_ends_connecting() -> None:
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))
        frozen = pid_of(session, 3)
        assert session.run("comm.abort('enough')", "0").status == OK
        os.kill(frozen, signal.SIGSTOP)
        number = session.start("print('up', flush=True)\ncomm.barrier()", "0-2")
        session.wait_started(number)
        began = time.monotonic()
        os.kill(frozen, signal.SIGKILL)
        cell = session.collect(number)
        assert time.monotonic() - began < LIMIT_S
        assert cell.ename == "PeerLostError"
        # As it is found: by its end, or by a connection that its death reset.
        assert re.search("rank 3 is (not there|gone)", cell.evalue), cell.evalue
        revive(session)
        expect_united(session.run(REUNITE))


def test_a_communicator_that_ended_on_one_rank_is_renewed_on_all() -> None:
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))
        for _ in range(5):
            session.run("comm.abort('enough')", "2")
            expect_united(session.run(REUNITE))
            # Those that are not in the cell meet, too.
            session.run("comm.abort('enough')", "1-3")
            assert session.run("comm._connected()", "0-1").status == OK


def test_a_cell_may_create_and_give_up_a_communicator() -> None:
    with Session(RANKS) as session:
        mine = "mine = sk.Comm(bootstrap='env', name='mine')"
        number = session.start(f"print('up', flush=True)\nif rank != 1:\n    {mine}")
        session.wait_started(number)
        began = time.monotonic()
        session.interrupt()
        assert session.collect(number).ename == "KeyboardInterrupt"
        expect_united(session.run(REUNITE))
        expect_united(session.run(f"{mine}\nprint(mine.allreduce(rank + 1).item())"))
        assert time.monotonic() - began < LIMIT_S


SERVE = """
import os, socket
if rank == 0:
    place = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
    server = socket.create_server(place, reuse_port=True)  # Held for this user alone.
"""
PORTS = "print(os.environ['MASTER_PORT'], os.environ['JAX_COORDINATOR_ADDRESS'])"


def test_revived_ranks_get_new_ports_for_their_servers() -> None:
    with Session(RANKS) as session:
        assert session.run(SERVE).status == OK  # And rank 0 keeps it open.
        before = session.run(PORTS).out
        assert session.run("comm.abort('enough')", "0").status == OK
        assert session.run(PORTS).out == before  # A new epoch, and nobody was revived.
        for victim in (2, 3):
            os.kill(pid_of(session, victim), signal.SIGKILL)
            wait_for_state(session, victim, "dead")
            revive(session)
            assert session.run(SERVE).status == OK
            after = session.run(PORTS).out
            assert "[" not in after, after  # All ranks agree.
            assert not set(after.split()) & set(before.split())
            before = after


def test_one_that_is_connected_just_now_is_not_over() -> None:
    from libsk.kernel.comm import _Connection

    class Connected:
        class _handle:
            @staticmethod
            def is_over() -> bool:
                return False

    class Thread:
        """Ends while it is looked at."""

        def is_alive(self) -> bool:
            connection.comm = Connected()  # type: ignore[assignment]
            return False

    connection = _Connection.__new__(_Connection)
    connection.comm, connection._cancelled = None, False
    connection._thread = Thread()  # type: ignore[assignment]
    assert not connection.is_over()
    assert not connection.is_over()


@pytest.mark.parametrize("ending", ["comm.free()", "comm.abort('enough')"])
def test_what_is_given_up_already_can_be_given_up(ending: str) -> None:
    with Session(RANKS) as session:
        expect_united(session.run(REUNITE))
        for _ in range(20):  # Ranks that are done ask for the next one while others begin.
            cell = session.run(ending)
            assert (cell.status, cell.ename) == (OK, ""), cell
        expect_united(session.run(REUNITE))
        frozen = pid_of(session, 3)
        assert session.run("comm.abort('enough')", "0").status == OK
        os.kill(frozen, signal.SIGSTOP)
        number = session.start(f"print('up', flush=True)\n{ending}", "0-2")
        session.wait_started(number)
        os.kill(frozen, signal.SIGKILL)  # So the others connect in vain.
        cell = session.collect(number)
        assert (cell.status, cell.ename) == (OK, ""), cell
        wait_for_state(session, 3, "dead")
        cell = session.run(ending, "alive")  # There is none.
        assert (cell.status, cell.ename) == (OK, ""), cell
        revive(session)
        expect_united(session.run(REUNITE))
