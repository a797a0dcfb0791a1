"""Calls are enqueued: what comes before and behind them on a stream; graphs that repeat them."""

from __future__ import annotations

import threading
from typing import Any

import libsk as sk
import pytest
import torch
from conftest import DEVICE, Ranks, make_comm, poisoned, sleep

pytestmark = pytest.mark.gpu
RANKS = 2
COUNT = 100_003
CYCLES = 20_000_000  # A wait of some 10 ms on the GPU.


def test_what_is_enqueued_before_and_behind(ranks: Ranks) -> None:
    """On torch's current stream, which nobody waits for."""

    def body(comm: sk.Comm) -> Any:
        x = poisoned((COUNT,), torch.float32)
        kept = []
        for turn in range(5):
            sleep(CYCLES * (comm.rank + 1))
            x.fill_(turn + comm.rank)
            total = comm.allreduce(x)
            x.fill_(float("nan"))  # Behind the call, which has read it by then.
            kept.append(total * 2)
        return kept

    for kept in ranks(RANKS, body):
        for turn, got in enumerate(kept):
            assert torch.all(got == 2 * (2 * turn + 1)), turn


def test_calls_do_not_wait(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> bool:
        x = torch.ones(COUNT, device=DEVICE)
        comm.allreduce(x)  # The plan is made ready.
        comm.synchronize()
        sleep(20 * CYCLES)
        out = comm.allreduce(x)
        was_under_way = not torch.cuda.current_stream(DEVICE).query()
        with pytest.raises(sk.TimeoutError):
            comm.synchronize(timeout=0.01)
        comm.synchronize()
        assert torch.all(out == RANKS)
        return was_under_way

    assert all(ranks(RANKS, body))


@pytest.mark.parametrize("way", ["current", "argument"])
def test_streams_of_each_rank(ranks: Ranks, way: str) -> None:
    """Each rank has its own stream; the last to write is not the one that launches."""

    def body(comm: sk.Comm) -> Any:
        stream = torch.cuda.Stream(DEVICE)
        kept = []
        for turn in range(5):
            x = torch.empty(COUNT, device=DEVICE)
            stream.wait_stream(torch.cuda.current_stream(DEVICE))
            with torch.cuda.stream(stream):
                sleep(CYCLES * ((comm.rank + turn) % RANKS))
                x.fill_(turn + comm.rank)
                if way == "current":
                    total = comm.allreduce(x)
            if way == "argument":
                total = comm.allreduce(x, stream=stream)
            x.record_stream(stream)
            with torch.cuda.stream(stream):
                kept.append(total + 0)
        stream.synchronize()
        return kept

    for kept in ranks(RANKS, body):
        for turn, got in enumerate(kept):
            assert torch.all(got == 2 * turn + 1), turn


def test_operands_may_be_dropped(ranks: Ranks) -> None:
    """Their memory is torch's again, for tensors that are written before the call reads it."""

    def body(comm: sk.Comm) -> Any:
        side = torch.cuda.Stream(DEVICE)
        kept = []
        for turn in range(20):
            x = torch.full((COUNT,), float(turn + comm.rank), device=DEVICE)
            with torch.cuda.stream(side):
                sleep(CYCLES)
            total = comm.allreduce(x, stream=side)
            del x
            # Likely the same memory, unless torch knows that a stream has yet to read it.
            torch.full((COUNT,), float("nan"), device=DEVICE)
            torch.cuda.current_stream(DEVICE).wait_stream(side)
            kept.append(total)
        return kept

    for kept in ranks(RANKS, body):
        for turn, got in enumerate(kept):
            assert torch.all(got == 2 * turn + 1), turn


def test_a_graph_of_all_ranks(ranks: Ranks) -> None:
    """One stream is captured, on which all ranks call; plain calls and replays take turns."""
    stream = torch.cuda.Stream(DEVICE)
    graph = torch.cuda.CUDAGraph()
    meet = threading.Barrier(RANKS)
    x = [torch.zeros(COUNT, device=DEVICE) for _ in range(RANKS)]
    out = [poisoned((COUNT,), torch.float32) for _ in range(RANKS)]
    a = [torch.zeros(200, 160, device=DEVICE, dtype=torch.bfloat16) for _ in range(RANKS)]
    b = [torch.ones(160, 120, device=DEVICE, dtype=torch.bfloat16) for _ in range(RANKS)]
    c = [poisoned((200, 120), torch.bfloat16) for _ in range(RANKS)]
    torch.cuda.synchronize(DEVICE)

    def calls(comm: sk.Comm) -> None:
        rank = comm.rank
        comm.allreduce(x[rank], out=out[rank], stream=stream)
        comm.allreduce_gemm(a[rank], b[rank], c[rank], stream=stream)

    def body(comm: sk.Comm) -> None:
        rank = comm.rank
        if rank == 0:
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="relaxed")
        meet.wait(30)
        try:
            calls(comm)
        finally:
            meet.wait(30)
            if rank == 0:
                with torch.cuda.stream(stream):
                    graph.capture_end()
        for turn in range(12):
            with torch.cuda.stream(stream):
                x[rank].fill_(turn + rank)
                a[rank].fill_((turn + rank) % 3)
                out[rank].fill_(float("nan"))
                c[rank].fill_(float("nan"))
            meet.wait(30)
            if turn % 3 == 2:
                calls(comm)
            elif rank == 0:
                with torch.cuda.stream(stream):
                    graph.replay()
            meet.wait(30)
            stream.synchronize()
            assert torch.all(out[rank] == 2 * turn + 1), turn
            assert torch.all(c[rank] == 160 * sum((turn + r) % 3 for r in range(RANKS))), turn
            meet.wait(30)

    ranks(RANKS, body)


def test_many_calls_without_a_wait(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> Any:
        x = torch.ones(1000, device=DEVICE, dtype=torch.float64)
        for _ in range(40):
            x = comm.allreduce(x, "avg") + comm.rank
            comm.barrier()
            x = comm.allreduce(x, "max")
        return x

    first, second = ranks(RANKS, body)
    assert torch.equal(first, second)
    assert torch.all(first == 41)


def test_two_communicators(ranks: Ranks) -> None:
    """Of one GPU, in turns and on two streams; one's end is none of the other."""

    def body(comm: sk.Comm) -> None:
        side = torch.cuda.Stream(DEVICE)
        with make_comm(comm.rank, RANKS, "the second") as other:
            x = torch.full((COUNT,), 1.0 + comm.rank, device=DEVICE)
            side.wait_stream(torch.cuda.current_stream(DEVICE))
            for _ in range(20):
                one = comm.allreduce(x)
                two = other.allreduce(x, "max", stream=side)
            torch.cuda.current_stream(DEVICE).wait_stream(side)
            assert torch.all(one == 3) and torch.all(two == 2)
        assert torch.all(comm.allreduce(x) == 3)

    ranks(RANKS, body)
