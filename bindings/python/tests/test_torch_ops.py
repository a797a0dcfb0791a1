"""Operations of torch: against sums in f64, under torch's own checks, compiled, with gradients."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from fake_gpu import FakeGpus, page_examples

# Graphs that another build of libsk left in the usual place call its operations as they were then.
_graphs = tempfile.TemporaryDirectory(prefix="sk-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _graphs.name
torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
import libsk.torch  # noqa: E402 - needs torch.
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

Ranks = Callable[..., list[Any]]
RANKS = 2
_ROUNDING = {torch.float32: 2.0**-23, torch.float64: 2.0**-52, torch.bfloat16: 2.0**-8}
SHAPES = [(1, 1, 1), (33, 17, 65), (128, 96, 64)]
CONFIG = {"bootstrap": "threads", "rank": 0, "world_size": 1}


@pytest.fixture
def alone() -> Iterator[str]:
    """The name of a world of one."""
    with sk.Comm(name="torch operations", **CONFIG) as comm:
        yield libsk.torch.register(comm)


def matrices(seed: int, m: int, n: int, k: int, dtype: Any) -> list[tuple[Any, Any]]:
    """Each rank's A and B, the same in every thread."""
    draw = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(m, k, generator=draw, dtype=torch.float64).to(dtype),
            torch.randn(k, n, generator=draw, dtype=torch.float64).to(dtype),
        )
        for _ in range(RANKS)
    ]


def check(got: Any, pairs: list[tuple[Any, Any]]) -> None:
    """Within a few roundings of the sum in f64."""
    exact = sum(a.double() @ b.double() for a, b in pairs)
    magnitude = sum(a.double().abs() @ b.double().abs() for a, b in pairs)
    inner = _ROUNDING[torch.float64 if got.dtype == torch.float64 else torch.float32]
    allowed = 8 * inner * magnitude + 1.01 * _ROUNDING[got.dtype] * exact.abs()
    assert torch.all((got.double() - exact).abs() <= allowed)


@pytest.mark.parametrize("dtype", list(_ROUNDING), ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_product(ranks: Ranks, shape: tuple[int, int, int], dtype: Any) -> None:
    pairs = matrices(1, *shape, dtype)

    def body(comm: sk.Comm) -> list[Any]:
        name = libsk.torch.register(comm)
        a, b = pairs[comm.rank]
        gemm = torch.ops.sk.allreduce_gemm
        spread = torch.stack([a, a], dim=2)[:, :, 0]  # Neither rows nor columns.
        return [
            gemm(a, b, name),
            gemm(a.T.contiguous(), b.T.contiguous(), name, True, True),
            gemm(a.T.contiguous().T, b.T.contiguous().T, name),
            gemm(spread, b, name),
            gemm(a, b, name, out_dtype=torch.float32 if dtype == torch.bfloat16 else dtype),
        ]

    for results in ranks(RANKS, body):
        for got in results:
            check(got, pairs)
        assert results[-1].dtype == (torch.float32 if dtype == torch.bfloat16 else dtype)


def test_the_sum(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        x = torch.arange(12.0).reshape(3, 4) * (comm.rank + 1)
        total = torch.arange(12.0).reshape(3, 4) * 3
        assert torch.equal(torch.ops.sk.allreduce(x, name), total)
        assert torch.equal(torch.ops.sk.allreduce(x.T, name), total.T)
        assert torch.equal(torch.ops.sk.allreduce(x, name, "avg"), total / 2)
        assert torch.equal(torch.ops.sk.allreduce(x, name, "max"), total * 2 / 3)

    ranks(RANKS, body)


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_torchs_checks_of_the_product(alone: str, transposed: bool, needs_grad: bool) -> None:
    a = torch.randn(5, 7).requires_grad_(needs_grad)
    b = torch.randn(7, 3).requires_grad_(needs_grad)
    operands = (a.mT, b.mT) if transposed else (a, b)
    operands = tuple(x.detach().contiguous().requires_grad_(needs_grad) for x in operands)
    torch.library.opcheck(
        torch.ops.sk.allreduce_gemm.default, (*operands, alone, transposed, transposed)
    )
    wide = (x.detach().bfloat16() for x in operands)
    torch.library.opcheck(
        torch.ops.sk.allreduce_gemm.default,
        (*wide, alone, transposed, transposed),
        {"out_dtype": torch.float32},
    )


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("op", ["sum", "avg"])
def test_torchs_checks_of_the_sum(alone: str, op: str, needs_grad: bool) -> None:
    x = torch.randn(4, 3).requires_grad_(needs_grad)
    torch.library.opcheck(torch.ops.sk.allreduce.default, (x, alone, op))


@pytest.mark.parametrize("device", ["cpu", "meta", "cuda"])
def test_fake_tensors(device: str) -> None:
    """Shapes and types are known without ranks, and without the device."""
    with FakeTensorMode():
        a = torch.empty(6, 4, device=device, dtype=torch.bfloat16)
        b = torch.empty(9, 4, device=device, dtype=torch.bfloat16)
        c = torch.ops.sk.allreduce_gemm(a, b, "nobody", transpose_b=True, out_dtype=torch.float32)
        assert (c.shape, c.dtype, c.device.type) == ((6, 9), torch.float32, device)
        assert torch.ops.sk.allreduce(a, "nobody").shape == (6, 4)
        for wrong in ((a, b), (a[0], b), (a, b.float())):
            with pytest.raises(RuntimeError, match="a has|b has"):
                torch.ops.sk.allreduce_gemm(*wrong, "nobody")


def layer(a: Any, b: Any, bias: Any, name: str) -> Any:
    """Rows over ranks, and something before and behind that a compiler would take in."""
    hidden = torch.relu(torch.ops.sk.allreduce_gemm(a * 2, b, name) + bias)
    return torch.ops.sk.allreduce(hidden.sum(dim=1), name, "avg")


def test_a_compiled_function(ranks: Ranks) -> None:
    pairs = matrices(2, 16, 24, 32, torch.float32)
    bias = torch.linspace(-1, 1, 24)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        a, b = pairs[comm.rank]
        expected = layer(a, b, bias, name)
        for _ in range(2):
            torch.testing.assert_close(compiled(a, b, bias, name), expected)

    ranks(RANKS, body)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_the_product(ranks: Ranks, transposed: bool) -> None:
    """Those that one process has, which holds all ranks' operands and the one loss."""
    pairs = matrices(3, 6, 5, 7, torch.float64)
    weights = torch.linspace(-2, 2, 30, dtype=torch.float64).reshape(6, 5)
    whole = [tuple(x.clone().requires_grad_() for x in pair) for pair in pairs]
    (torch.tanh(sum(a @ b for a, b in whole)) * weights).sum().backward()

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        mine = [x.T.contiguous() if transposed else x.clone() for x in pairs[comm.rank]]
        a, b = (x.requires_grad_() for x in mine)
        c = torch.ops.sk.allreduce_gemm(a, b, name, transposed, transposed)
        (torch.tanh(c) * weights).sum().backward()
        for got, wanted in zip((a.grad, b.grad), whole[comm.rank], strict=True):
            torch.testing.assert_close(got.T if transposed else got, wanted.grad)

    ranks(RANKS, body)


@pytest.mark.parametrize("dtype", list(_ROUNDING), ids=str)
def test_the_product_of_what_is_gathered(ranks: Ranks, dtype: Any) -> None:
    pairs = matrices(5, 33, 17, 65, dtype)

    def body(comm: sk.Comm) -> list[Any]:
        name = libsk.torch.register(comm)
        a, b = pairs[comm.rank]
        gemm = torch.ops.sk.allgather_gemm
        return [
            gemm(a, b, name),
            gemm(a.T.contiguous(), b.T.contiguous(), name, True, True),
            gemm(a.T.contiguous().T, b, name),
        ]

    rows = torch.cat([a for a, _ in pairs])
    for rank, results in enumerate(ranks(RANKS, body)):
        for got in results:
            check(got, [(rows, pairs[rank][1])])


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_torchs_checks_of_what_gathers(alone: str, transposed: bool, needs_grad: bool) -> None:
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    operands = (a.mT, b.mT) if transposed else (a, b)
    operands = tuple(x.contiguous().requires_grad_(needs_grad) for x in operands)
    torch.library.opcheck(
        torch.ops.sk.allgather_gemm.default, (*operands, alone, transposed, transposed)
    )
    for half in (torch.ops.sk.allgather, torch.ops.sk.reduce_scatter):
        torch.library.opcheck(half.default, (operands[0], alone))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_what_is_gathered(ranks: Ranks, transposed: bool, compiled: bool) -> None:
    """Those that one process has, which holds all ranks' operands and the sum of their losses."""
    pairs = matrices(3, 6, 5, 7, torch.float64)
    weights = [torch.linspace(-2, 2 + rank, 60, dtype=torch.float64) for rank in range(RANKS)]
    whole = [tuple(x.clone().requires_grad_() for x in pair) for pair in pairs]
    rows = torch.cat([a for a, _ in whole])
    losses = [torch.tanh(rows @ b).flatten() @ w for (_, b), w in zip(whole, weights, strict=True)]
    sum(losses).backward()

    def gathered_layer(a: Any, b: Any, name: str) -> Any:
        return torch.tanh(torch.ops.sk.allgather_gemm(a, b, name, transposed, transposed))

    layer = gathered_layer
    if compiled:
        layer = torch.compile(gathered_layer, fullgraph=True, backend="aot_eager")

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        mine = [x.T.contiguous() if transposed else x.clone() for x in pairs[comm.rank]]
        a, b = (x.requires_grad_() for x in mine)
        (layer(a, b, name).flatten() @ weights[comm.rank]).backward()
        for got, wanted in zip((a.grad, b.grad), whole[comm.rank], strict=True):
            torch.testing.assert_close(got.T if transposed else got, wanted.grad)

    ranks(RANKS, body)


def test_gradients_of_the_halves(ranks: Ranks) -> None:
    parts = [x.requires_grad_() for x in torch.randn(RANKS, 4, 3, dtype=torch.float64)]
    factors = torch.randn(RANKS, RANKS, 4, 3, dtype=torch.float64)
    sum((torch.stack(parts) * factor).square().sum() for factor in factors).backward()

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        x = parts[comm.rank].detach().clone().requires_grad_()
        gathered = torch.ops.sk.allgather(x, name)
        (gathered * factors[comm.rank]).square().sum().backward()
        torch.testing.assert_close(x.grad, parts[comm.rank].grad)
        y = parts[comm.rank].detach().clone().requires_grad_()
        torch.ops.sk.reduce_scatter(y, name).square().sum().backward()
        total = torch.stack([part.detach() for part in parts]).sum(0)
        torch.testing.assert_close(y.grad, 2 * total)

    ranks(RANKS, body)


@pytest.mark.parametrize("op", ["sum", "avg"])
def test_gradients_of_the_sum(ranks: Ranks, op: str) -> None:
    parts = [x.requires_grad_() for x in torch.randn(RANKS, 3, 4, dtype=torch.float64)]
    total = sum(parts) / (RANKS if op == "avg" else 1)
    total.square().sum().backward()

    def body(comm: sk.Comm) -> None:
        x = parts[comm.rank].detach().clone().requires_grad_()
        torch.ops.sk.allreduce(x, libsk.torch.register(comm), op).square().sum().backward()
        torch.testing.assert_close(x.grad, parts[comm.rank].grad)

    ranks(RANKS, body)


def test_what_has_no_gradient(alone: str) -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match='"sum" and "avg", not \'max\''):
        torch.ops.sk.allreduce(x, alone, "max").sum().backward()


def test_names() -> None:
    with sk.Comm(name="named", **CONFIG) as comm, sk.Comm(name="other", **CONFIG) as other:
        name = libsk.torch.register(comm)
        assert libsk.torch.register(comm) == libsk.torch.register(comm, name) == name
        assert libsk.torch.register(other) != name
        with pytest.raises(sk.InvalidArgumentError, match="registered already, as"):
            libsk.torch.register(comm, "another")
        with sk.Comm(name="third", **CONFIG) as third:
            with pytest.raises(sk.InvalidArgumentError, match="is another communicator's"):
                libsk.torch.register(third, name)
            with pytest.raises(sk.InvalidArgumentError, match="name is ''; give a text"):
                libsk.torch.register(third, "")
            assert libsk.torch.register(third, "tensor parallel") == "tensor parallel"
    with pytest.raises(sk.InvalidArgumentError, match="comm is a str"):
        libsk.torch.register("sk0")  # type: ignore[arg-type]
    x = torch.ones(3)
    with pytest.raises(sk.BadHandleError, match="freed"):
        torch.ops.sk.allreduce(x, name)
    del comm, third
    with pytest.raises(sk.InvalidArgumentError, match="no communicator is registered as"):
        torch.ops.sk.allreduce(x, name)


def test_tensors_of_the_cpu_on_a_gpus_communicator(gpus: FakeGpus) -> None:
    with sk.Comm(name="torch on a GPU", device="cuda:0", **CONFIG) as comm:
        name = libsk.torch.register(comm)
        with pytest.raises(sk.InvalidArgumentError, match=r"a lies in memory of the CPU.*\.to\("):
            torch.ops.sk.allreduce_gemm(torch.ones(2, 2), torch.ones(2, 2), name)
        with pytest.raises(sk.InvalidArgumentError, match="x lies in memory of the CPU"):
            torch.ops.sk.allreduce(torch.ones(2), name)


@pytest.mark.parametrize("world_size", [1, 2])
def test_one_thread_has_the_backward_work_of_all_ranks(gpu_ranks: Ranks, world_size: int) -> None:
    """On a GPU; here each has its own, so what is allowed works too."""

    def body(comm: sk.Comm) -> int:
        class Meet(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x.clone()

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                comm.barrier()
                return grad

        x = torch.ones(3, requires_grad=True)
        if comm.world_size == 1:
            Meet.apply(x).sum().backward()
            return 1
        with pytest.raises(sk.UnsupportedError, match=r"set_multithreading_enabled\(False\)"):
            Meet.apply(x).sum().backward()
        comm.barrier()
        with torch.autograd.set_multithreading_enabled(False):
            Meet.apply(x).sum().backward()
        return comm.info()["calls"]

    assert gpu_ranks(world_size, body) == [world_size] * world_size


def test_torch_is_imported_by_who_asks_for_it() -> None:
    code = """
import sys, numpy, libsk as sk
with sk.Comm() as comm:
    comm.allreduce_gemm(numpy.ones((2, 2)), numpy.ones((2, 2)))
assert "torch" not in sys.modules
import libsk.torch
assert sys.modules["torch"] is libsk.torch.torch
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_results_are_new(alone: str) -> None:
    """Nothing that is returned lies in what was given, also in a world of one."""
    x = torch.ones(4)
    y = torch.ops.sk.allreduce(x, alone)
    y += 1
    assert torch.equal(x, torch.ones(4)) and np.all(y.numpy() == 2)


def test_the_pages_examples(capfd: pytest.CaptureFixture[str]) -> None:
    """Those of docs/gpu-python.md with torch, in order; but on the CPU."""
    names: dict[str, Any] = {}
    for example in page_examples():
        if "torch" in example:
            example = example.replace('device = "cuda:0"', 'device = "cpu"')
            exec(compile(example, "docs/gpu-python.md", "exec"), names)
    # By pattern, not by line: a print of one thread may come between the other's text and its end.
    told = re.findall(r"rank \d: (\d\.\de[+-]\d\d)", capfd.readouterr().out)
    assert len(told) == 2 and max(map(float, told)) < 1e-3
    assert torch.equal(names["w"].grad, torch.full((5, 2), 3.0))


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torchs_checks_of_rows(dtype: Any, weighted: bool, needs_grad: bool) -> None:
    x = torch.randn(5, 7, dtype=dtype).requires_grad_(needs_grad)
    weight = torch.randn(7, dtype=dtype).requires_grad_(needs_grad) if weighted else None
    torch.library.opcheck(torch.ops.sk.rmsnorm.default, (x, weight, 1e-5))
    rstd = torch.rand(5)
    operands = (x.detach(), x.detach(), rstd, None if weight is None else weight.detach())
    torch.library.opcheck(torch.ops.sk.rmsnorm_backward.default, operands)
    added = (x.detach(), x.detach(), operands[3])
    torch.library.opcheck(torch.ops.sk.add_rmsnorm.default, added)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("shape", [(9,), (4, 33), (2, 3, 64)])
def test_gradients_of_rows_are_torchs(shape: tuple[int, ...], compiled: bool) -> None:
    def layer(x: Any, weight: Any) -> Any:
        return torch.ops.sk.rmsnorm(x, weight, 1e-5)[0] * 2

    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(shape[-1], dtype=torch.float64, requires_grad=True)
    y = (torch.compile(layer) if compiled else layer)(x, weight)
    want = torch.nn.functional.rms_norm(x, (shape[-1],), weight, 1e-5) * 2
    torch.testing.assert_close(y, want)
    slope = torch.randn_like(y)
    got = torch.autograd.grad(y, (x, weight), slope)
    for is_, must in zip(got, torch.autograd.grad(want, (x, weight), slope), strict=True):
        torch.testing.assert_close(is_, must)
