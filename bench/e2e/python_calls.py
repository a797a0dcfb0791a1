"""All-reduces from Python: mpi4py's, libsk's and a plan's, in one launch, arrays reused.

usage: mpirun -n R python python_calls.py SIZES BUDGET_MS BATCHES

Rank 0 prints one line of JSON for each batch: its case, bytes, and the mean over ranks of the time
of a call, in microseconds. Batches of the cases come in turns, there and back (A B C C B A).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

import libsk
import numpy as np
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
WAIT_S = 30.0


def seconds_of(call: Callable[[], object], count: int) -> float:
    """Of one call, on this rank, after all have met."""
    WORLD.Barrier()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


class Case:
    """One size: what all cases read and write."""

    def __init__(self, comm: libsk.Comm, size: int) -> None:
        self.size = size
        self.x = np.zeros(size // 8)
        self.out = np.zeros_like(self.x)
        plan = comm.plan("allreduce", dtype="f64", count=self.x.size)
        x, out = self.x, self.out
        self.calls: dict[str, Callable[[], object]] = {
            "mpi4py": lambda: WORLD.Allreduce(x, out),
            "libsk": lambda: comm.allreduce(x, out=out),
            "plan": lambda: plan.run(x, out),
        }

    def count(self, budget_s: float) -> int:
        """Of calls in a batch: as many of the slowest as the budget has room for, the same on all
        ranks."""
        for call in self.calls.values():
            seconds_of(call, 3)
        slowest = max(seconds_of(call, 5) for call in self.calls.values())
        return WORLD.bcast(min(5000, max(10, int(budget_s / slowest))))

    def batch(self, name: str, count: int, round_: int) -> None:
        """Fresh numbers, a poisoned result, and a look at what came."""
        self.x[:] = np.arange(self.x.size) % 1000 + 7 * WORLD.rank + round_
        self.out[:] = np.nan
        mean = WORLD.allreduce(seconds_of(self.calls[name], count)) / WORLD.size
        ranks = WORLD.size
        wanted = ranks * (np.arange(self.x.size) % 1000 + round_) + 7 * ranks * (ranks - 1) // 2
        if not np.array_equal(self.out, wanted):
            sys.exit(f"{name}: a wrong sum of {self.size} bytes")
        if WORLD.rank == 0:
            line = {"case": name, "bytes": self.size, "ranks": ranks, "us": [mean * 1e6]}
            print(json.dumps(line), flush=True)


def main() -> None:
    """All sizes, one after the other."""
    sizes = [int(size) for size in sys.argv[1].split(",")]
    budget_s, batches = float(sys.argv[2]) * 1e-3, int(sys.argv[3])
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[WORLD.rank % len(cores)]})
    if WORLD.rank == 0:
        print(json.dumps({"version": MPI.Get_library_version()[:80]}))
    with libsk.Comm(timeout=WAIT_S) as comm:
        if (comm.rank, comm.world_size) != (WORLD.rank, WORLD.size):
            sys.exit("the two libraries do not agree who the ranks are")
        for size in sizes:
            case = Case(comm, size)
            count = case.count(budget_s)
            for round_ in range(batches):
                for name in (*case.calls, *reversed(case.calls)):
                    case.batch(name, count, round_)


if __name__ == "__main__":
    main()
