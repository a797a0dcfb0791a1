"""Symmetric memory, and what is left behind."""

from __future__ import annotations

import gc
from typing import Any

import libsk as sk
import pytest
import torch
from conftest import DEVICE, Ranks, make_comm, sleep

pytestmark = pytest.mark.gpu
COUNT = 100_003
CYCLES = 20_000_000  # A wait of some 10 ms on the GPU.


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32"])
def test_symmetric_memory(ranks: Ranks, dtype: str) -> None:
    def body(comm: sk.Comm) -> None:
        x = comm.empty((300, 7), dtype)
        seen = torch.from_dlpack(x)
        assert seen.device == torch.device(DEVICE) and not seen.any()
        for turn in range(5):
            seen.fill_(comm.rank + turn)
            comm.allreduce(x, out=x)
            assert torch.all(seen == 3 + 3 * turn)
        comm.synchronize()
        del seen
        comm.free(x)

    ranks(3, body)


@pytest.mark.parametrize("way", ["current", "argument"])
def test_symmetric_memory_on_a_side_stream(ranks: Ranks, way: str) -> None:
    """Torch writes and reads it there; a stream that is named waits for torch's current one."""

    def body(comm: sk.Comm) -> None:
        x, out = comm.empty(COUNT, "f32"), comm.empty(COUNT, "f32")
        seen, results = torch.from_dlpack(x), torch.from_dlpack(out)
        current, other = torch.cuda.Stream(DEVICE), torch.cuda.Stream(DEVICE)
        with torch.cuda.stream(current):
            for turn in range(5):
                sleep(CYCLES)
                seen.fill_(comm.rank + turn)
                if way == "current":
                    comm.allreduce(x, out=out)
                else:
                    comm.allreduce(x, out=out, stream=other)
                    current.wait_stream(other)
                assert torch.all(results == 1 + 2 * turn)
        comm.synchronize()

    ranks(2, body)


def test_communicators_leave_nothing_behind() -> None:
    def once(i: int) -> None:
        with make_comm(0, 1, f"left {i}") as comm:
            x = torch.ones(1 << 20, device=DEVICE)
            w = comm.pack(torch.ones(512, 512, device=DEVICE, dtype=torch.bfloat16))
            comm.allreduce_gemm(torch.ones(64, 512, device=DEVICE, dtype=torch.bfloat16), w)
            comm.empty((1 << 20,), "f32")
            comm.allreduce(x, out=x)

    def free_bytes() -> int:
        gc.collect()
        torch.cuda.synchronize(DEVICE)
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(DEVICE)[0]

    with make_comm(0, 1, "keeps the device open"):
        once(0)
        before = free_bytes()
        for i in range(1, 30):
            once(i)
        assert before - free_bytes() < 4 << 20


def test_communicators_come_and_go(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> Any:
        return comm.allreduce(torch.ones(100, device=DEVICE))

    for world_size in (1, 2, 8, 3):
        for got in ranks(world_size, body):
            assert torch.all(got == world_size)
