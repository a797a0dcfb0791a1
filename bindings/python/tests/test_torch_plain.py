"""Tensors that calls on single arrays read by DLPack's exchange API: what comes out is what the
long way gives, or the call is left to that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import libsk as sk
import pytest
from libsk import _exchange
from libsk._local import LocalFunction
from plain_tensors import FLOATS, KINDS, PLAIN, hidden, outcome, refuse, torch

Ranks = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def _known() -> None:
    _exchange.know_torch()


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    """A world of one."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="plain tensors") as comm:
        yield comm


SINGLE: dict[str, Callable[..., Any]] = {
    "rmsnorm": lambda c, x, out: sk.rmsnorm(x, out=out),
    "rmsnorm, weight": lambda c, x, out: sk.rmsnorm(torch.full((2, 5), 3.0), x, out=out),
    "rmsnorm, rstd": lambda c, x, out: sk.rmsnorm(x, out=out, return_rstd=True),
    "add_rmsnorm": lambda c, x, out: sk.add_rmsnorm(torch.ones(2, 5), x, out=out),
    "allreduce": lambda c, x, out: c.allreduce(x, out=out),
    "in place": lambda c, x, out: c.allreduce(x, out=x),
    "allgather": lambda c, x, out: c.allgather(x, out=out),
    "reduce_scatter": lambda c, x, out: c.reduce_scatter(x, "max", out=out),
    "broadcast": lambda c, x, out: c.broadcast(x, out=out),
    "a plan": lambda c, x, out: c.plan("allreduce", count=10).run(x, out=out),
}


def in_and_out(kind: str, place: int) -> tuple[Any, Any]:
    x, out = torch.arange(1.0, 11.0).reshape(2, 5), torch.full((2, 5), 7.0)
    return (KINDS[kind](x), out) if place == 0 else (x, KINDS[kind](out))


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("kind", KINDS)
def test_single_arrays_by_both_ways(alone: sk.Comm, name: str, kind: str) -> None:
    for mode in (nullcontext, torch.no_grad, torch.inference_mode):
        for place in range(2):

            def call(x: Any, out: Any) -> Any:
                return SINGLE[name](alone, x, out)

            with mode():
                got = outcome(call, *in_and_out(kind, place))
                new = outcome(call, in_and_out(kind, place)[0], None)
                with hidden():
                    assert got == outcome(call, *in_and_out(kind, place))
                    assert new == outcome(call, in_and_out(kind, place)[0], None)


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_single_arrays_that_are_plain_go_the_short_way(
    alone: sk.Comm, kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalFunction, "long_way", refuse)
    monkeypatch.setattr("libsk._arrays._of_dlpack", refuse)
    x = PLAIN[kind](torch.rand(2, 5).to(dtype))
    out = PLAIN[kind](torch.empty(2, 5, dtype=dtype))
    before = out._version
    plan = alone.plan("allreduce", count=10, dtype=str(dtype).split(".")[1])
    calls = [
        lambda out: sk.rmsnorm(x, out=out),
        lambda out: alone.allreduce(x, out=out),
        lambda out: alone.broadcast(x, out=out),
        lambda out: alone.reduce_scatter(x, out=out),
        lambda out: plan.run(x, out=out),
    ]
    for number, call in enumerate(calls, 1):
        assert call(out) is out
        assert out._version == before + number
        new = call(None)
        assert type(new) is torch.Tensor and new.dtype == dtype and torch.equal(new, out)
    assert torch.equal(alone.allgather(x)[0], x)


def test_parameters_go_the_short_way_where_no_gradients_are_kept(
    alone: sk.Comm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libsk._arrays._of_dlpack", refuse)
    norm = torch.nn.RMSNorm(5, eps=1e-5)
    x, out = torch.rand(2, 5), torch.nn.Parameter(torch.empty(2, 5))
    with torch.no_grad():
        wanted = norm(x)
        torch.testing.assert_close(sk.rmsnorm(x, norm.weight), wanted)
        assert sk.rmsnorm(x, norm.weight, out=out) is out and out._version == 1
        torch.testing.assert_close(out.detach(), wanted)
        torch.testing.assert_close(alone.allreduce(out), wanted)


def test_what_is_received_is_a_write(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libsk._arrays._of_dlpack", refuse)

    def body(comm: sk.Comm) -> None:
        x = torch.full((3,), 5.0)
        version = x._version
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            got = torch.zeros(3)
            comm.recv(got, 0)
            assert torch.equal(got, x) and got._version == 1
        assert x._version == version

    ranks(2, body)


def test_a_refused_call_of_plain_tensors_is_no_write() -> None:
    out = torch.full((2, 2), 3.0)
    version = out._version
    with pytest.raises(sk.InvalidArgumentError, match="eps is -1"):
        sk.rmsnorm(torch.ones(2, 2), eps=-1.0, out=out)
    given = [[torch.ones(2)] for _ in range(4)]
    with pytest.raises(sk.InvalidArgumentError, match="step is 0"):
        sk.adamw(*given, 0.1, 0)
    assert out._version == version and given[0][0]._version == 0
