"""Those that are left of a communicator go on: ranks that ``sk run`` started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import libsk as sk
import pytest
from conftest import run_ranks

SK = os.environ.get("SK_PROGRAM", str(Path(sk.__file__).parent / "bin" / "sk"))
LIMIT_S = 120.0


def ran(program: str, *options: str, ranks: int = 3) -> list[str]:
    """What the ranks printed, each line behind its "[rank N] ", in the order of ranks."""
    command = [SK, "run", "-n", str(ranks), "--tag", *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S
    )
    print(done.stderr)
    return sorted(done.stdout.splitlines())


def test_two_of_three_go_on() -> None:
    program = """if True:
        import os, signal
        import libsk as sk
        comm = sk.Comm(name="work", timeout=60, workers=1)
        first = comm.allreduce(1)
        if comm.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            comm.allreduce(1)
        except sk.PeerLostError as error:
            assert error.rank == 0
            left = comm.shrink(timeout=30)
            comm.free()
            total = left.allreduce(10 + left.rank)
            print(first, left.rank, left.world_size, left.info()["workers"], total)
            left.free()
    """
    assert ran(program, "--keep-going") == ["[rank 1] 3 0 2 1 21", "[rank 2] 3 1 2 1 21"]


def test_ranks_that_nobody_is_lost_of() -> None:
    program = """if True:
        import libsk as sk
        with sk.Comm() as comm, comm.shrink() as other:
            assert type(other) is sk.Comm and other is not comm
            print(other.rank, other.allreduce(1), comm.allreduce(2))
            memory = other.empty(4)
            memory[:] = other.rank
            assert other.allreduce(memory, out=memory)[3] == 3
            del memory
    """
    assert ran(program) == [f"[rank {rank}] {rank} 3 6" for rank in range(3)]


def test_one_that_does_not_come_is_named() -> None:
    program = """if True:
        import libsk as sk
        comm = sk.Comm()
        if comm.rank != 1:
            try:
                comm.shrink(timeout=1)
            except sk.TimeoutError as error:
                print("rank 1 did not come within" in str(error))
        sk.Comm(name="end", timeout=60)  # Until then rank 1 is alive.
    """
    assert ran(program) == ["[rank 0] True", "[rank 2] True"]


@pytest.mark.parametrize("handler", ["default", "raises"])
def test_an_interrupt_ends_it(handler: str) -> None:
    """Rank 1 does not come; rank 0's own signal ends its wait at once."""
    program = f"""if True:
        import os, signal, threading, time
        import libsk as sk
        signal.signal(signal.SIGINT, signal.default_int_handler)  # In the background it is ignored.
        comm = sk.Comm(timeout=60)
        if {handler!r} == "raises":
            def stop(number, frame):
                raise KeyboardInterrupt
            signal.signal(signal.SIGINT, stop)
        if comm.rank == 0:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            try:
                comm.shrink()
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - begin < 30)
            comm.free()
        sk.Comm(name="end", timeout=60)
    """
    assert ran(program, ranks=2) == ["[rank 0] interrupted True"]


def test_threads_are_refused() -> None:
    for refused in run_ranks(2, lambda comm: comm.shrink()):
        assert isinstance(refused, sk.UnsupportedError)
        assert "SK_BOOTSTRAP_THREADS" in str(refused)
