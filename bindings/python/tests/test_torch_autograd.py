"""What torch's autograd hears of calls: writes that a gradient must not miss."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from typing import Any

import libsk as sk
import pytest

# Graphs that another build of libsk left in the usual place call its operations as they were then.
_graphs = tempfile.TemporaryDirectory(prefix="sk-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _graphs.name
torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
import libsk.torch  # noqa: E402 - needs torch, and registers the operations.
from libsk.torch import register  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

MODIFIED = "modified by an inplace operation"


def adamw(p: Any, lr: Any = 0.1, step: int = 1) -> None:
    """Overwrites it."""
    with torch.no_grad():
        others = [[torch.ones_like(p)] for _ in range(3)]
        torch.ops.sk.adamw([p], *others, lr, step)


RATES = {"a number": lambda: 0.1, "a tensor": lambda: torch.tensor(0.1)}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_compiled_loss_of_what_is_overwritten_has_no_gradient(backend: str, rate: str) -> None:
    def loss(p: Any, w: Any, lr: Any) -> Any:
        z = (p * w).sum()
        adamw(p, lr)
        return z

    w = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=MODIFIED):
        torch.compile(loss, backend=backend)(torch.ones(3), w, RATES[rate]()).backward()
    assert w.grad is None


@pytest.mark.parametrize("rate", RATES)
def test_a_function_of_what_is_overwritten_has_no_gradient(rate: str) -> None:
    def loss(x: Any) -> Any:
        y = x * 1.0
        z = y * y
        adamw(y, RATES[rate]())
        return z.sum()

    with pytest.raises(RuntimeError, match=MODIFIED):
        torch.func.grad(loss)(torch.ones(3))


def test_a_wrapped_tensor_is_written() -> None:
    two_tensor = pytest.importorskip("torch.testing._internal.two_tensor")
    p = two_tensor.TwoTensor(torch.ones(3), torch.ones(3))
    w = torch.ones(3, requires_grad=True)
    loss = (p * w).sum()
    adamw(p)
    assert not torch.equal(p.a, torch.ones(3)) and not torch.equal(p.b, torch.ones(3))
    with pytest.raises(RuntimeError, match=MODIFIED):
        loss.backward()


@pytest.mark.parametrize("rate", RATES)
def test_a_call_is_one_write_and_a_refused_one_none(rate: str) -> None:
    lists = [[torch.ones(3), torch.ones(2)] for _ in range(4)]
    fake = FakeTensorMode(allow_non_fake_inputs=True)  # The rate.
    for given in (lists, [[fake.from_tensor(x) for x in one] for one in lists]):
        torch.ops.sk.adamw(*given, RATES[rate](), 1)
        assert [[x._version for x in one] for one in given] == [[1, 1], [0, 0], [1, 1], [1, 1]]
        with pytest.raises((sk.InvalidArgumentError, RuntimeError), match="grads has 1 "):
            torch.ops.sk.adamw(given[0], given[1][:1], *given[2:], RATES[rate](), 1)
        assert [[x._version for x in one] for one in given] == [[1, 1], [0, 0], [1, 1], [1, 1]]


TANGENTS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "params": ("params[0]", lambda x, _: torch.ops.sk.adamw([x], *ones(3), 0.1, 1)),
    "grads": ("grads[0]", lambda x, _: torch.ops.sk.adamw(*ones(1), [x], *ones(2), 0.1, 1)),
    "lr": ("lr", lambda x, _: torch.ops.sk.adamw(*ones(4), x[0, 0], 1)),
    "sk.adamw": ("vs[0]", lambda x, _: sk.adamw(*ones(3), [x], 0.1, 1)),
    "rmsnorm": ("x", lambda x, _: torch.ops.sk.rmsnorm(x)),
    "weight": ("weight", lambda x, _: torch.ops.sk.rmsnorm(torch.ones(2, 2), x[0])),
    "gradient": ("dy", lambda x, _: torch.ops.sk.rmsnorm_backward(*ones(1)[0], x, x[0])),
    "add_rmsnorm": ("residual", lambda x, _: torch.ops.sk.add_rmsnorm(torch.ones(2, 2), x)),
    "sk.rmsnorm": ("x", lambda x, _: sk.rmsnorm(x)),
    "out": ("out", lambda x, _: sk.rmsnorm(torch.ones(2, 2), out=x)),
    "allreduce": ("x", lambda x, comm: torch.ops.sk.allreduce(x, register(comm))),
    "allgather": ("x", lambda x, comm: torch.ops.sk.allgather(x, register(comm))),
    "reduce_scatter": ("x", lambda x, comm: torch.ops.sk.reduce_scatter(x, register(comm))),
    "gemm": ("b", lambda x, comm: torch.ops.sk.allreduce_gemm(x.detach(), x, register(comm))),
    "gathered": ("a", lambda x, comm: torch.ops.sk.allgather_gemm(x, x, register(comm))),
    "comm.allreduce": ("x", lambda x, comm: comm.allreduce(x)),
    "comm.allreduce_gemm": ("b", lambda x, comm: comm.allreduce_gemm(torch.ones(2, 2), x)),
}


def ones(count: int) -> list[list[Any]]:
    """Lists of one."""
    return [[torch.ones(2, 2)] for _ in range(count)]


@pytest.mark.parametrize("call", TANGENTS)
def test_what_has_a_tangent_is_refused(call: str) -> None:
    what, function = TANGENTS[call]
    sentence = re.escape(f"{what} has a tangent, and no derivative goes through this call")
    x = torch.ones(2, 2)
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="tangents") as comm:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones(2, 2))
            with pytest.raises(sk.InvalidArgumentError, match=sentence):
                function(dual, comm)
            with torch.no_grad(), pytest.raises(sk.InvalidArgumentError, match=sentence):
                function(dual, comm)
            if call != "lr":
                function(dual.detach(), comm)
        x = torch.ones(2, 2)
        refusals = (sk.InvalidArgumentError, RuntimeError)
        with pytest.raises(refusals, match=f"{sentence}|memory of its own|without memory"):
            torch.func.jvp(lambda y: function(y, comm), (x,), (x,))
        assert torch.equal(x, torch.ones(2, 2))


def in_a_transform(call: Callable[[Any], Any]) -> Any:
    return torch.func.grad(lambda x: (call(x), x.sum())[1])(torch.ones(2, 4))


def under_vmap(call: Callable[[Any], Any]) -> Any:
    return torch.func.vmap(lambda x: (call(x), x)[1])(torch.ones(3, 2, 4))


def functionalized(call: Callable[[Any], Any]) -> Any:
    return torch.func.functionalize(lambda x: (call(x), x)[1])(torch.ones(2, 4))


def with_fakes(call: Callable[[Any], Any]) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True):
        return call(torch.ones(2, 4))


PLACES = {
    "grad": (in_a_transform, "torch.func's transforms"),
    "vmap": (under_vmap, "torch.func's transforms"),
    "functionalize": (functionalized, "(torch.func's transforms|functionalization)"),
    "fakes": (with_fakes, "FakeTensorMode"),
}
PLAIN = torch.ones(2, 4)
ON_TENSORS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "rmsnorm": ("x", lambda x: sk.rmsnorm(x)),
    "a weight": ("weight", lambda x: sk.rmsnorm(PLAIN, x[0])),
    "lists": (r"params\[0\]", lambda x: sk.adamw([x], [PLAIN], [PLAIN], [PLAIN], 0.1, 1)),
}


@pytest.mark.parametrize("name", ON_TENSORS)
@pytest.mark.parametrize("place", PLACES)
def test_what_has_no_memory_of_its_own_is_told_by_its_name(place: str, name: str) -> None:
    (what, call), (within, told) = ON_TENSORS[name], PLACES[place]
    said = rf"^{what} is a tensor of {told}.*call the operation of torch\.ops\.sk there"
    with pytest.raises(sk.InvalidArgumentError, match=said):
        within(call)


def test_a_result_without_memory_is_told_where_it_is_made() -> None:
    for place in (in_a_transform, with_fakes):
        out = torch.empty(2, 4)
        place(lambda _, out=out: sk.rmsnorm(PLAIN, out=out))
        assert torch.equal(out, sk.rmsnorm(PLAIN))
        with pytest.raises(
            sk.InvalidArgumentError, match="^inside of .* give an array of your own"
        ):
            place(lambda _: sk.rmsnorm(PLAIN))
