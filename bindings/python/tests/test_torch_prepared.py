"""Tensors of calls kept ready, whose memory torch moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
mp = pytest.importorskip("torch.multiprocessing")

COUNT = 1000


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    """A world of one."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="torch prepared") as comm:
        yield comm


class Sub(torch.Tensor):
    """A class of its own."""


def put_into_a_queue(x: Any) -> None:
    mp.SimpleQueue().put(x[:1])


def free_for_a_while(x: Any) -> None:
    storage = x.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    kept.extend(torch.zeros(COUNT) for _ in range(64))  # One of them where it lay.
    storage.resize_(size)


def set_data(x: Any) -> None:
    x.data = x.clone()


def to_double(x: Any) -> None:
    module = torch.nn.Module()
    module.x = torch.nn.Parameter(x, requires_grad=False)
    x.data = module.double().x.data


kept: list[Any] = []
MOVES: dict[str, Callable[[Any], Any]] = {
    "share_memory_()": lambda x: x.share_memory_(),
    "a queue": put_into_a_queue,
    "resize_()": lambda x: x.resize_(4 * COUNT),
    "less": lambda x: x.resize_(COUNT // 2),
    "freed": lambda x: x.untyped_storage().resize_(0),
    "freed for a while": free_for_a_while,
    ".data": set_data,
    "set_()": lambda x: x.set_(),
    "another type": to_double,
}
KINDS: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda x: x,
    "a parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "a class": lambda x: x.as_subclass(Sub),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["x", "out", "a new one"])
@pytest.mark.parametrize("move", MOVES)
def test_memory_that_torch_has_moved_is_not_touched(
    alone: sk.Comm, move: str, what: str, kind: str
) -> None:
    x, out = (KINDS[kind](torch.full((COUNT,), value)) for value in (7.0, 0.0))
    call = alone.prepare("allreduce", x, out=None if what == "a new one" else out)
    result = call.run()
    assert torch.equal(result, torch.full((COUNT,), 7.0))
    moved, name = (x, "x") if what == "x" else (result, "out")
    before, before_calls = moved.data_ptr(), alone.info()["calls"]
    MOVES[move](moved)
    if moved.data_ptr() == before and moved.shape == (COUNT,):
        pytest.skip("torch has given the tensor the same memory again")
    with pytest.raises(sk.InvalidArgumentError, match=f"^{name} (has other memory|exports no mem)"):
        call.run()
    assert alone.info()["calls"] == before_calls
    call.close()


def test_what_stays_is_taken(alone: sk.Comm) -> None:
    """Views, versions and other owners move nothing; nor do matrices whose rows lie apart."""
    a, b = torch.rand(6, 8)[:, 2:5], torch.rand(4, 3).T
    call = alone.prepare("allreduce_gemm", a, b)
    for _ in range(3):
        torch.testing.assert_close(call.run(), a @ b)
        a.mul_(2).resize_as_(a)
        _ = a.numpy(), b.view_as(b), b.detach().add_(1)
    a.t_()
    with pytest.raises(sk.InvalidArgumentError, match="^a has other memory, or another shape"):
        call.run()
    empty = torch.empty(0, 3)
    assert alone.prepare("allreduce", empty).run().shape == (0, 3)


def test_messages_and_mixed_kinds(alone: sk.Comm) -> None:
    x, out = torch.ones(5), np.zeros(5, np.float32)
    call = alone.prepare("allreduce", x, out=out)
    assert call.run() is out and out.tolist() == [1.0] * 5
    out.flags.writeable = False
    with pytest.raises(sk.InvalidArgumentError, match="out is read-only"):
        call.run()
    out.flags.writeable = True
    x.resize_(500)
    with pytest.raises(sk.InvalidArgumentError, match="^x has other memory"):
        call.run()


def test_a_gradient_that_came_later_is_refused(alone: sk.Comm) -> None:
    x = torch.ones(5)
    call = alone.prepare("allreduce", x)
    x.requires_grad_()
    with pytest.raises(sk.InvalidArgumentError, match="^x requires a gradient"):
        call.run()
    with torch.no_grad():
        assert call.run().tolist() == [1.0] * 5
