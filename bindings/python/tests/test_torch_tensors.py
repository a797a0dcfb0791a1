"""Tensors as arguments: their pending bits, autograd's versions, torch's defaults, their memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")

Ranks = Callable[..., list[Any]]


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    """A world of one."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="torch tensors") as comm:
        yield comm


def negated() -> Any:
    """A 2 x 2 tensor whose memory holds other signs than it has."""
    z = torch.complex(torch.randn(2, 2), torch.randn(2, 2))
    x = z.conj().imag
    assert x.is_neg() and torch.equal(x, -z.imag)
    return x


CALLS: dict[str, Callable[[sk.Comm, Any], tuple[Any, Any]]] = {
    "allreduce": lambda c, x: (c.allreduce(x), x),
    "allgather": lambda c, x: (c.allgather(x)[0], x),
    "reduce_scatter": lambda c, x: (c.reduce_scatter(x), x),
    "broadcast": lambda c, x: (c.broadcast(x), x),
    "gemm a": lambda c, x: (c.allreduce_gemm(x, torch.eye(2)), x),
    "gemm b": lambda c, x: (c.allreduce_gemm(torch.eye(2), x), x),
    "gemm transposed": lambda c, x: (c.allreduce_gemm(x.T, torch.eye(2)), x.T),
    "pack": lambda c, x: (c.allreduce_gemm(torch.eye(2), c.pack(x)), x),
    "a plan": lambda c, x: (c.plan("allreduce", count=4).run(x), x),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_negative_bit_is_applied(alone: sk.Comm, call: str) -> None:
    got, wanted = CALLS[call](alone, negated())
    assert torch.equal(torch.as_tensor(got), wanted)


def test_a_result_does_not_go_where_a_bit_is_pending(alone: sk.Comm) -> None:
    x = negated()
    before = x.clone()
    for call in (
        lambda: alone.allreduce(x, out=x),
        lambda: alone.broadcast(torch.ones(2, 2), out=x),
        lambda: alone.allreduce_gemm(torch.eye(2), torch.eye(2), out=x),
        lambda: alone.plan("allreduce", count=4).run(torch.ones(2, 2), out=x),
    ):
        with pytest.raises(sk.InvalidArgumentError, match=r"out is a torch tensor .*is_neg\(\)"):
            call()
    assert torch.equal(x, before)


def test_conjugates_have_the_sentence_of_complex_numbers(alone: sk.Comm) -> None:
    with pytest.raises(sk.InvalidArgumentError, match="type code 5 with 64 bits"):
        alone.allreduce(torch.complex(torch.ones(2), torch.ones(2)).conj())


WRITES: dict[str, Callable[[sk.Comm, Any], Any]] = {
    "allreduce": lambda c, out: c.allreduce(torch.full((2, 2), 100.0), out=out),
    "in place": lambda c, out: c.allreduce(out, out=out),
    "reduce_scatter": lambda c, out: c.reduce_scatter(torch.ones(2, 2), out=out),
    "broadcast": lambda c, out: c.broadcast(torch.ones(2, 2), out=out),
    "allgather": lambda c, out: c.allgather(torch.ones(2), out=out[:1]),
    "gemm": lambda c, out: c.allreduce_gemm(torch.eye(2), torch.eye(2), out=out),
    "a transpose": lambda c, out: c.allreduce(torch.ones(2, 2), out=out.T),
    "a plan": lambda c, out: c.plan("allreduce", count=4).run(torch.ones(2, 2), out=out),
}


@pytest.mark.parametrize("write", WRITES)
def test_autograd_sees_what_is_overwritten(alone: sk.Comm, write: str) -> None:
    w = torch.ones(2, 2, requires_grad=True)
    y = w * w.exp()
    loss = (y * y).sum()
    WRITES[write](alone, y.detach())  # The same memory and the same version.
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def partly(x: Any) -> Any:
    """Overlaps it."""
    return torch.as_strided(x, (2, 2), (2, 1), 1)


REFUSED: dict[str, Callable[[sk.Comm, Any], Any]] = {
    "rmsnorm": lambda c, out: sk.rmsnorm(torch.ones(2, 2), eps=-1.0, out=out),
    "add_rmsnorm": lambda c, out: sk.add_rmsnorm(*torch.ones(2, 2, 2), out=out, out_total=out),
    "allreduce": lambda c, out: c.allreduce(torch.ones(2, 2), "no", out=out),
    "a limit": lambda c, out: c.allreduce(torch.ones(2, 2), out=out, timeout=-1),
    "broadcast": lambda c, out: c.broadcast(torch.ones(2, 2), 7, out=out),
    "gemm": lambda c, out: c.allreduce_gemm(partly(out), torch.eye(2), out=out),
    "a plan": lambda c, out: c.plan("allreduce", count=4).run(out, out=out),
    "a tile": lambda c, out: run_tile(out, partly(out), 1),
}


def run_tile(x: Any, z: Any, divisor: int) -> None:
    """Of Python's."""

    @sk.tile(reads={"x": ("f32", "m, n")}, writes={"z": ("x", "m, n")})
    def divided(x: np.ndarray, z: np.ndarray) -> None:
        z[:] = x * (2 // divisor)

    try:
        divided(x, z=z)
    finally:
        divided.close()


@pytest.mark.parametrize("call", REFUSED)
def test_a_refused_call_is_no_write(alone: sk.Comm, call: str) -> None:
    memory = torch.full((5,), 3.0)
    out = memory[:4].view(2, 2)
    version = out._version
    with pytest.raises(sk.Error):
        REFUSED[call](alone, out)
    assert out._version == version
    assert torch.equal(memory, torch.full((5,), 3.0))


def test_a_call_that_failed_on_its_way_is_a_write() -> None:
    out = torch.full((2, 2), 3.0)
    version = out._version
    with pytest.raises(ZeroDivisionError):
        run_tile(torch.ones(2, 2), out, 0)
    assert out._version > version


def test_rows_are_a_write() -> None:
    out = torch.zeros(2, 2)
    version = out._version
    assert sk.rmsnorm(torch.ones(2, 2), out=out) is out
    assert out._version > version
    assert sk.rmsnorm(torch.ones(2, 2))._version == torch.empty(2, 2)._version


@pytest.mark.parametrize("has_out", [False, True])
def test_a_call_kept_ready_is_a_write_each_time(alone: sk.Comm, has_out: bool) -> None:
    given_out = torch.zeros(2) if has_out else None
    before = torch.zeros(2)._version
    with alone.prepare("allreduce", torch.ones(2), out=given_out) as call:
        assert given_out is None or given_out._version == before
        out = call.run()
        version = out._version
        for _ in range(2):
            call.run()
            assert out._version > version
            version = out._version
        with pytest.raises(sk.InvalidArgumentError):
            call.run(timeout=-1)
        assert out._version == version


def test_what_was_received_is_overwritten_too(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        if comm.rank == 1:
            comm.send(torch.ones(2), 0)
            return
        x = torch.zeros(2)
        version = x._version
        comm.recv(x, 1)
        assert torch.equal(x, torch.ones(2)) and x._version > version

    ranks(2, body)


def test_tensors_with_a_gradient_are_refused(alone: sk.Comm) -> None:
    w = torch.ones(2, requires_grad=True)
    for call in (lambda: alone.allreduce(w), lambda: alone.allreduce(torch.ones(2), out=w)):
        with pytest.raises(sk.InvalidArgumentError, match=r"detach\(\)"):
            call()
    with torch.inference_mode():  # Which has no versions to count.
        x = torch.ones(2)
        assert torch.equal(alone.allreduce(x, out=x), torch.ones(2))


@pytest.mark.parametrize("call", CALLS)
def test_parameters_are_taken_where_no_gradients_are_kept(alone: sk.Comm, call: str) -> None:
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        got, wanted = CALLS[call](alone, layer.weight)
        assert torch.equal(torch.as_tensor(got), wanted)
        assert not getattr(got, "requires_grad", False)
    with pytest.raises(sk.InvalidArgumentError, match=r"^[abx] requires a gradient.*no_grad"):
        CALLS[call](alone, layer.weight)


@pytest.mark.parametrize("write", WRITES)
def test_parameters_are_overwritten_where_no_gradients_are_kept(alone: sk.Comm, write: str) -> None:
    w = torch.nn.Parameter(torch.full((2, 2), 3.0))
    loss = (w * w).sum()
    with torch.no_grad():
        WRITES[write](alone, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(sk.InvalidArgumentError, match=r"^(out|x) requires a gradient"):
        WRITES[write](alone, w)


@pytest.fixture
def _on_meta() -> Iterator[None]:
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("_on_meta")
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_torchs_defaults_change_no_result(alone: sk.Comm, dtype: str) -> None:
    x = torch.ones(2, 2, dtype=getattr(torch, dtype), device="cpu")
    results = [alone.allreduce(x), alone.allgather(x)[0], alone.broadcast(x)]
    if dtype != "int32":
        results.append(alone.allreduce_gemm(x, alone.pack(x)) - 1)
    for result in results:
        assert result.device.type == "cpu" and result.dtype == x.dtype
        assert torch.equal(result, x)


TENSORS: dict[str, Callable[[np.ndarray], Any]] = {
    "from_numpy": torch.from_numpy,
    "from_dlpack": torch.from_dlpack,
    "as_tensor": torch.as_tensor,
    "frombuffer": lambda x: torch.frombuffer(x, dtype=torch.float32),
    "a storage": lambda x: torch.from_numpy(x).untyped_storage(),
    "a view of one": lambda x: torch.from_numpy(x)[5:],
}


@pytest.mark.parametrize("make", TENSORS)
def test_memory_under_a_tensor_is_not_given_back(alone: sk.Comm, make: str) -> None:
    x = alone.empty(1 << 12)
    tensor = TENSORS[make](x)
    with pytest.raises(sk.BusyError, match="may still reach"):
        alone.free(x)
    del tensor
    alone.free(x)
    assert x.size == 0


def test_torchs_operations_have_operands_of_one_device(alone: sk.Comm) -> None:
    name = pytest.importorskip("libsk.torch").register(alone)
    x, elsewhere = torch.ones(3, 3), torch.ones(3, device="meta")
    with pytest.raises(RuntimeError, match="weight is on meta, and x on cpu; give all on one"):
        torch.ops.sk.rmsnorm(x, elsewhere)
    for product in (torch.ops.sk.allreduce_gemm, torch.ops.sk.allgather_gemm):
        with pytest.raises(RuntimeError, match="b is on meta, and a on cpu; give all on one"):
            product(x, elsewhere.expand(3, 3), name)
