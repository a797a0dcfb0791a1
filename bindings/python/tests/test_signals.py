"""Handlers of signals while the main thread waits for other ranks."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The main thread is rank 0. Rank 1 signals once rank 0 is inside its call, and comes to it only
# when the handler has run, or for the one that raises never.
_PROGRAM = """
import os, signal, sys, threading
import libsk as sk

number, handling, call = signal.Signals[sys.argv[1]], sys.argv[2], sys.argv[3]
config = dict(world_size=2, bootstrap="threads", workers=int(sys.argv[4]), timeout=20)
CALLS = {
    "barrier": lambda comm: comm.barrier(),
    "allreduce": lambda comm: comm.allreduce([1.0] * 100_000),
    "empty": lambda comm: comm.empty(10),
    "pair": lambda comm: comm.recv(peer=1, shape=3, dtype="f64")
    if comm.rank == 0
    else comm.send([1.0] * 3, 0),
}
ran, waiting, peer = threading.Event(), [], []


class Mine(Exception):
    pass


def handler(*_):
    ran.set()
    if handling == "raises":
        raise Mine
    if handling == "exits":
        sys.exit(5)


def second():
    comm = sk.Comm(rank=1, **config)
    while True:
        try:
            waiting[0].info()
        except sk.BusyError:
            break
        except IndexError:
            pass
    os.kill(os.getpid(), number)
    assert ran.wait(30)
    try:
        CALLS[call](comm)
    except sk.Error as error:
        peer.append(type(error).__name__)
    else:
        peer.append("came")


signal.signal(number, handler)
thread = threading.Thread(target=second)
thread.start()
comm = sk.Comm(rank=0, **config)
waiting.append(comm)
try:
    CALLS[call](comm)
    print("returned")
except Mine:
    print("Mine")
except SystemExit as end:
    print("SystemExit", end.code)
thread.join()
print(*peer)
"""


def program(*arguments: str) -> list[str]:
    """The lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("call", ["barrier", "allreduce", "empty", "pair"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_handler_that_returns_lets_the_wait_go_on(call: str, workers: str) -> None:
    assert program("SIGUSR1", "returns", call, workers) == ["returned", "came"]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1"])
def test_a_handler_that_raises_ends_the_call(number: str) -> None:
    assert program(number, "raises", "barrier", "1") == ["Mine", "AbortedError"]


@pytest.mark.parametrize("call", ["allreduce", "empty", "pair"])
def test_a_handler_may_end_the_process(call: str) -> None:
    assert program("SIGTERM", "exits", call, "2") == ["SystemExit 5", "AbortedError"]
