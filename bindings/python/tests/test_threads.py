"""What waiting calls do to Python: others run meanwhile, and Ctrl-C ends them."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import libsk as sk
import pytest
from conftest import run_ranks


def test_other_threads_run_while_a_rank_waits() -> None:
    """Rank 0 waits in a barrier until this thread, which needs the GIL, has counted."""
    counted = threading.Event()

    def body(comm: sk.Comm) -> None:
        if comm.rank == 1:
            assert counted.wait(30)
        comm.barrier()

    def count() -> None:
        for _ in range(100_000):
            pass
        counted.set()

    counter = threading.Thread(target=count)
    counter.start()
    assert run_ranks(2, body) == [None, None]
    counter.join(30)


def test_two_first_calls_at_once_do_not_wait_for_each_other() -> None:
    """Whatever Python runs for a thread's first call, the other may get the GIL meanwhile."""
    program = """
import threading
import libsk as sk

main_thread, never = threading.main_thread, threading.Event()
threading.main_thread = lambda: never.wait(0.3) or main_thread()

def rank(number):
    with sk.Comm(rank=number, world_size=2, bootstrap="threads", timeout=20) as comm:
        comm.barrier()
        met.append(number)

met = []
threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(met))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[0, 1]\n", done.stderr


def test_a_second_thread_is_refused() -> None:
    """Of two threads of rank 0, one waits in a barrier, and the other is refused."""
    refused = threading.Event()

    def body(comm: sk.Comm) -> list[BaseException] | None:
        if comm.rank == 1:
            assert refused.wait(30)
            comm.barrier()
            return None
        errors: list[BaseException] = []

        def meet() -> None:
            try:
                comm.barrier()
            except sk.BusyError as error:
                errors.append(error)
                try:
                    comm.free()
                except sk.BusyError as too:
                    errors.append(too)
                refused.set()

        other = threading.Thread(target=meet)
        other.start()
        meet()
        other.join(30)
        return errors

    errors = run_ranks(2, body)[0]
    assert [type(error) for error in errors] == [sk.BusyError] * 2
    barrier, free = map(str, errors)
    assert re.match(r"comm\.barrier\(\): thread '[^']+' is inside comm\.barrier\(\) of", barrier)
    assert re.match(r"comm\.free\(\): thread '[^']+' is inside comm\.barrier\(\) of", free)
    assert "give each thread a communicator of its own, libsk.Comm(name=...)" in barrier


INTERRUPTED = """
import os, signal, sys, threading, time
import libsk as sk

def join(rank):
    comm = sk.Comm(bootstrap="threads", rank=rank, world_size=3, name="x", timeout=60)
    comm.allreduce(1.0)  # Loads NumPy too.
    return comm

def peer():
    with join(1) as comm:
        ready.set()
        try:
            comm.recv(peer=2, shape=1, dtype="f32")
        except sk.AbortedError as error:
            sys.stdout.write(f"peer: {error.rank} {error}\\n")

def idler():  # Whom the two others wait for, each in its own call.
    with join(2):
        over.wait()

# Where the tests run in the background, shells let SIGINT be ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
ready, over = threading.Event(), threading.Event()
threads = [threading.Thread(target=peer), threading.Thread(target=idler)]
for thread in threads:
    thread.start()
comm = join(0)
ready.wait()
pressed = []

def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(0.3, press).start()
try:
    comm.allreduce(1.0)
except KeyboardInterrupt:
    sys.stdout.write(f"interrupted after {time.monotonic() - pressed[0]:.2f} s\\n")
over.set()
for thread in threads:
    thread.join()
"""


def run_script(code: str, limit_s: float = 60.0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=limit_s
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_ends_a_waiting_call_and_its_peers() -> None:
    out = run_script(INTERRUPTED)
    took = re.search(r"^interrupted after (\S+) s$", out, re.MULTILINE)
    assert took is not None
    print(f"seen: Ctrl-C ended a wait after {took[1]} s")
    assert float(took[1]) < 5  # It takes a twentieth of a second; a machine may be slow.
    assert "peer: 0 rank 0 has aborted: KeyboardInterrupt\n" in out


def test_ctrl_c_ends_the_search_for_ranks() -> None:
    out = run_script(
        "import os, signal, threading, time, libsk as sk\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n"
        "    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    sk.Comm(bootstrap='threads', rank=0, world_size=2, name='n', timeout=50)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n",
        limit_s=30,
    )
    assert out == "interrupted\n"


def test_a_program_with_its_own_handler_decides_for_itself() -> None:
    out = run_script(
        "import os, signal, threading, libsk as sk\n"
        "seen = []\n"
        "signal.signal(signal.SIGINT, lambda *a: seen.append(1))\n"
        "def peer():\n"
        "    with sk.Comm(bootstrap='threads', rank=1, world_size=2, name='n') as c:\n"
        "        interrupted.wait()\n"
        "        c.barrier()\n"
        "interrupted = threading.Event()\n"
        "def interrupt():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    interrupted.set()\n"
        "t = threading.Thread(target=peer); t.start()\n"
        "comm = sk.Comm(bootstrap='threads', rank=0, world_size=2, name='n')\n"
        "threading.Timer(0.2, interrupt).start()\n"
        "comm.barrier()\n"
        "t.join(); print('done', len(seen))\n"
    )
    assert out == "done 1\n"


RANK_PROGRAM = """
import os, signal, sys
import numpy as np
import libsk as sk

comm = sk.Comm(timeout=60)
total = comm.allreduce(np.full(1000, comm.rank + 1.0))
assert np.all(total == sum(range(1, comm.world_size + 1)))
print("rank", comm.rank, "of", comm.world_size, flush=True)
if "die" in sys.argv and comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if "die" in sys.argv:
    try:
        comm.barrier()
    except sk.PeerLostError as error:
        print("lost", error.rank, flush=True)
        sys.exit(0)
    sys.exit(9)
comm.barrier()
comm.free()
"""


@pytest.fixture
def port() -> Iterator[int]:
    """Held as a launcher holds it, so that nobody else gets it: bound, and not listening."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def start_ranks(
    world_size: int, port: int, tmp_path: Path, *arguments: str
) -> list[subprocess.Popen[str]]:
    """Processes with the launcher's environment."""
    program = tmp_path / "rank.py"
    program.write_text(RANK_PROGRAM)
    processes = []
    for rank in range(world_size):
        env = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "SK_JOB_SECRET": "a secret of this test",
        }
        command = [sys.executable, str(program), *arguments]
        processes.append(
            subprocess.Popen(
                command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    return processes


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_as_processes(world_size: int, port: int, tmp_path: Path) -> None:
    for rank, process in enumerate(start_ranks(world_size, port, tmp_path)):
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        assert out == f"rank {rank} of {world_size}\n"


def test_a_killed_process_is_named_to_the_others(port: int, tmp_path: Path) -> None:
    processes = start_ranks(3, port, tmp_path, "die")
    outputs = [process.communicate(timeout=90) for process in processes]
    assert processes[1].returncode == -signal.SIGKILL
    for rank in (0, 2):
        assert processes[rank].returncode == 0, outputs[rank][1]
        assert "lost 1" in outputs[rank][0]
