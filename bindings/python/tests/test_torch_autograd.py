"""What torch's autograd hears of calls: writes that a gradient must not miss."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import libsk as sk
import pytest

# Graphs that another build of libsk left in the usual place call its operations as they were then.
_graphs = tempfile.TemporaryDirectory(prefix="sk-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _graphs.name
torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
import libsk.torch  # noqa: E402 - needs torch, and registers the operations.
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

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
