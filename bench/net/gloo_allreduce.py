"""torch.distributed's all-reduce over gloo, one rank in each host, by the rules of harness.h.

The area is the file that all ranks map: its first flags are the barrier before each call. Each rank
prints a JSON line for each batch, with its own times.

usage: gloo_allreduce.py AREA_FILE RANK RANKS ADDRESS PORT SIZES BUDGET_MS BATCHES
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FLAG_BYTES = 128  # bench_flag in place.h.
LIMIT_S = 60.0
ITERS_MIN, ITERS_MAX = 4, 200


class Barrier:
    """That of bench_barrier()."""

    def __init__(self, path: str, rank: int, ranks: int) -> None:
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), FLAG_BYTES * ranks)
        self._flags = [
            ctypes.c_uint32.from_buffer(self._memory, FLAG_BYTES * each) for each in range(ranks)
        ]
        self._rank, self._turn = rank, 0

    def meet(self) -> None:
        """Spins."""
        self._turn += 1
        self._flags[self._rank].value = self._turn
        end = time.monotonic() + LIMIT_S
        for flag in self._flags:
            while flag.value < self._turn:
                if time.monotonic() > end:
                    raise SystemExit("a rank has not come to the barrier")


def numbers(rank: int, count: int) -> torch.Tensor:
    """Small integers, so that their sums are exact."""
    return (torch.arange(count) * 7 + rank * 311).remainder(1021).sub(510).to(torch.float32)


class Case:
    """Calls on vectors of one size."""

    def __init__(self, barrier: Barrier, rank: int, ranks: int, size: int) -> None:
        count = size // 4
        self._barrier = barrier
        self._input = numbers(rank, count)
        self._vector = torch.empty(count)
        self._sum = sum((numbers(each, count) for each in range(ranks)), torch.zeros(count))

    def seconds(self) -> float:
        """Of one call; gloo's is in place, so its input is written before."""
        self._vector.copy_(self._input)
        self._barrier.meet()
        start = time.perf_counter()
        dist.all_reduce(self._vector)
        return time.perf_counter() - start

    def iterations(self, budget_s: float) -> int:
        """The same on all ranks: rank 0's choice."""
        self.seconds()
        fit = torch.tensor([budget_s / min(self.seconds() for _ in range(3))])
        dist.broadcast(fit, 0)
        return int(min(max(fit.item(), ITERS_MIN), ITERS_MAX))

    def check(self) -> None:
        """Of the last call."""
        if not torch.equal(self._vector, self._sum):
            raise SystemExit("a sum is wrong")


def main() -> None:
    """One rank."""
    area, rank, ranks, address, port, sizes, budget_ms, batches = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://{address}:{port}", rank=int(rank), world_size=int(ranks)
    )
    os.sched_setaffinity(0, {int(rank) % (os.cpu_count() or 1)})  # As bench_pin() does.
    barrier = Barrier(area, int(rank), int(ranks))
    for size in map(int, sizes.split(",")):
        case = Case(barrier, int(rank), int(ranks), size)
        iterations = case.iterations(float(budget_ms) * 1e-3 / int(batches))
        for batch in range(int(batches)):
            us = [round(case.seconds() * 1e6, 3) for _ in range(iterations)]
            case.check()
            line = {"case": "gloo", "bytes": size, "batch": batch, "rank": int(rank), "us": us}
            print(json.dumps(line), flush=True)
    barrier.meet()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
