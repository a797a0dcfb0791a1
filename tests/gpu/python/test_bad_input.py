"""Sentences for what cannot be, after which the communicator works on; failures of peers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import libsk as sk
import pytest
import torch
from conftest import DEVICE, Ranks, sleep

pytestmark = pytest.mark.gpu


def usable(comm: sk.Comm) -> None:
    """A small sum comes out."""
    total = comm.allreduce(torch.ones(33, device=DEVICE))
    assert torch.all(total == comm.world_size)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda comm, x: comm.allreduce(x.cpu()), r"x lies in memory of the CPU.*\.to\("),
        (lambda comm, x: comm.allreduce(x, out=x.cpu()), "out lies in memory of the CPU"),
        (lambda comm, x: comm.allreduce(x.T), r"x has strides \(1, 4\).*x\.contiguous\(\)"),
        (lambda comm, x: comm.allreduce(x, out=x[:1]), "out"),
        (lambda comm, x: comm.allreduce(x, "median"), "median"),
        (lambda comm, x: comm.allreduce(x.to(torch.complex64)), "type code 5 with 64 bits"),
        (lambda comm, x: comm.allreduce_gemm(x, x), "x|b has"),
        (lambda comm, x: comm.allreduce_gemm(x.double(), x.T.double()), "f64|float64"),
        (lambda comm, x: comm.allreduce(x, stream=2), "per-thread default stream"),
        (lambda comm, x: comm.allreduce(x, stream="s"), "stream is"),
        (lambda comm, x: comm.broadcast(x, 7), "root"),
        (lambda comm, x: comm.allreduce(x.clone().requires_grad_()), "gradient"),
        (lambda comm, x: comm.prepare("allreduce", x, out=x), "communicators on the CPU"),
    ],
)
def test_a_sentence_each(ranks: Ranks, call: Callable[..., Any], sentence: str) -> None:
    def body(comm: sk.Comm) -> None:
        x = torch.ones(6, 4, device=DEVICE)
        before = x.clone()
        with pytest.raises(sk.Error, match=sentence):
            call(comm, x)
        assert torch.equal(x, before)
        usable(comm)

    ranks(2, body)


def test_other_calls_of_other_ranks(ranks: Ranks) -> None:
    """Told to both, with both calls named."""

    def body(comm: sk.Comm) -> str:
        with pytest.raises(sk.Error) as caught:
            comm.allreduce(torch.ones(5 + comm.rank, device=DEVICE))
            comm.synchronize()
        return str(caught.value)

    for text in ranks(2, body):
        assert "5" in text and "6" in text


def test_a_rank_that_does_not_come(ranks: Ranks) -> None:
    late = threading.Event()

    def body(comm: sk.Comm) -> str:
        if comm.rank == 1:
            late.wait(30)
            return ""
        began = time.monotonic()
        try:
            with pytest.raises(sk.TimeoutError) as caught:
                comm.allreduce(torch.ones(5, device=DEVICE), timeout=0.5)
        finally:
            late.set()
        assert time.monotonic() - began < 10
        return str(caught.value)

    text = ranks(2, body)[0]
    assert "rank 1" in text


def test_an_abort_ends_calls_that_wait(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> str:
        if comm.rank == 1:
            threading.Event().wait(0.3)  # The other waits in its call by then.
            comm.abort("enough")
            return ""
        with pytest.raises(sk.AbortedError) as caught:
            comm.allreduce(torch.ones(5, device=DEVICE))
        return str(caught.value)

    assert "enough" in ranks(2, body)[0]


def test_an_end_with_work_under_way(ranks: Ranks) -> None:
    """It waits for the GPU; results are whole."""

    def body(comm: sk.Comm) -> Any:
        sleep(50_000_000)
        out = comm.allreduce(torch.ones(1 << 20, device=DEVICE))
        comm.free()
        return out

    for got in ranks(2, body):
        assert torch.all(got == 2)
