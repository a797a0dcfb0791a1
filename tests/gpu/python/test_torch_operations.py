"""torch.ops.sk on a GPU: torch's own checks, compiled functions, gradients; the pages' examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_graphs = tempfile.TemporaryDirectory(prefix="sk-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _graphs.name
import libsk as sk  # noqa: E402
import libsk.torch  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from conftest import DEVICE, Ranks, make_comm  # noqa: E402

RANKS = 2
ROOT = Path(__file__).resolve().parents[3]


def matrices(seed: int, m: int, n: int, k: int) -> list[tuple[Any, Any]]:
    """Each rank's A and B, the same in every thread."""
    draw = torch.Generator().manual_seed(seed)
    drawn = [
        (torch.randn(m, k, generator=draw), torch.randn(k, n, generator=draw)) for _ in range(RANKS)
    ]
    return [tuple(x.to(DEVICE) for x in pair) for pair in drawn]


@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("name", ["allreduce_gemm", "allgather_gemm"])
def test_torchs_checks_of_products(name: str, needs_grad: bool) -> None:
    with make_comm(0, 1, f"checks {name} {needs_grad}") as comm:
        alone = libsk.torch.register(comm)
        a = torch.randn(5, 7, device=DEVICE).requires_grad_(needs_grad)
        b = torch.randn(7, 3, device=DEVICE).requires_grad_(needs_grad)
        operation = getattr(torch.ops.sk, name).default
        with torch.autograd.set_multithreading_enabled(False):
            torch.library.opcheck(operation, (a, b, alone))
            wide = (a.detach().bfloat16(), b.detach().bfloat16())
            torch.library.opcheck(operation, (*wide, alone), {"out_dtype": torch.float32})


@pytest.mark.parametrize("name", ["allreduce", "allgather", "reduce_scatter"])
def test_torchs_checks_of_collectives(name: str) -> None:
    with make_comm(0, 1, f"checks {name}") as comm:
        alone = libsk.torch.register(comm)
        x = torch.randn(4, 3, device=DEVICE).requires_grad_()
        with torch.autograd.set_multithreading_enabled(False):
            torch.library.opcheck(getattr(torch.ops.sk, name).default, (x, alone))


def layer(a: Any, b: Any, bias: Any, name: str) -> Any:
    """Something before and behind the product that a compiler takes in."""
    hidden = torch.relu(torch.ops.sk.allreduce_gemm(a * 2, b, name) + bias)
    return torch.ops.sk.allreduce(hidden.sum(dim=1), name, "avg")


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.gpu)])
def test_a_compiled_function(ranks: Ranks, backend: str) -> None:
    pairs = matrices(2, 160, 240, 320)
    bias = torch.linspace(-1, 1, 240, device=DEVICE)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    exact = torch.relu(sum(2 * a.double() @ b.double() for a, b in pairs) + bias.double()).sum(1)

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        a, b = pairs[comm.rank]
        for _ in range(3):
            torch.testing.assert_close(
                compiled(a, b, bias, name).double(), exact, rtol=1e-4, atol=1e-3
            )

    ranks(RANKS, body)


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("is_gathered", [False, True])
def test_gradients(ranks: Ranks, is_gathered: bool, is_compiled: bool) -> None:
    """Those that one process has in f64, which holds all ranks' operands and losses."""
    pairs = matrices(3, 48, 40, 56)
    whole = [tuple(x.double().clone().requires_grad_() for x in pair) for pair in pairs]
    if is_gathered:
        rows = torch.cat([a for a, _ in whole])
        loss = sum(torch.tanh(rows @ b).square().sum() for _, b in whole)
    else:
        loss = torch.tanh(sum(a @ b for a, b in whole)).square().sum()
    loss.backward()
    operation = torch.ops.sk.allgather_gemm if is_gathered else torch.ops.sk.allreduce_gemm

    def plain(a: Any, b: Any, name: str) -> Any:
        return torch.tanh(operation(a, b, name)).square().sum()

    torch._dynamo.reset()
    function = torch.compile(plain, fullgraph=True, backend="aot_eager") if is_compiled else plain

    def body(comm: sk.Comm) -> None:
        name = libsk.torch.register(comm)
        a, b = (x.clone().requires_grad_() for x in pairs[comm.rank])
        with torch.autograd.set_multithreading_enabled(False):
            function(a, b, name).backward()
        for got, wanted in zip((a.grad, b.grad), whole[comm.rank], strict=True):
            torch.testing.assert_close(got.double(), wanted.grad, rtol=1e-3, atol=1e-3)

    ranks(RANKS, body)


def test_training_by_rows_of_two_ranks(ranks: Ranks) -> None:
    """A layer whose rows are spread learns what the whole one learns."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(64, 32, generator=draw).to(DEVICE)
    y = torch.randn(64, 8, generator=draw).to(DEVICE)
    start = torch.randn(32, 8, generator=draw).to(DEVICE) * 0.1
    whole = start.clone().requires_grad_()
    for _ in range(20):
        loss = (x @ whole - y).square().mean()
        (grad,) = torch.autograd.grad(loss, whole)
        whole = (whole - 0.5 * grad).detach().requires_grad_()

    def body(comm: sk.Comm) -> Any:
        name = libsk.torch.register(comm)
        mine = slice(16 * comm.rank, 16 * comm.rank + 16)
        part, w = x[:, mine].contiguous(), start[mine].clone().requires_grad_()
        with torch.autograd.set_multithreading_enabled(False):
            for _ in range(20):
                loss = (torch.ops.sk.allreduce_gemm(part, w, name) - y).square().mean()
                (grad,) = torch.autograd.grad(loss, w)
                w = (w - 0.5 * grad).detach().requires_grad_()
        return w.detach()

    together = torch.cat(ranks(RANKS, body))
    torch.testing.assert_close(together, whole.detach(), rtol=1e-3, atol=1e-4)


def page_examples() -> list[str]:
    """The Python of docs/gpu-python.md, in order."""
    page = (ROOT / "docs" / "gpu-python.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.gpu
def test_the_pages_examples(tmp_path: Path) -> None:
    """As a reader would run them: in one program."""
    program = tmp_path / "examples.py"
    program.write_text("\n".join(page_examples()))
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    errors = [float(text) for text in re.findall(r"rank \d: (\S+)", done.stdout)]
    assert len(errors) == 2 and max(errors) < 1e-3
    assert "tensor([[3., 3.]" in done.stdout
