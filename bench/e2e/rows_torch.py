"""rmsnorm and its gradients by torch, eager and compiled: the peer of rows_bench.

usage: rows_torch.py COLUMNS,... MIB THREADS VISITS

One JSON line per type, length of rows, case and visit (microseconds per call).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch

EPS = 1e-5
CALLS = 2  # A visit's figures, behind one call that counts for nothing.


def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """y."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


def timed(call: Callable[[], object]) -> list[float]:
    """Microseconds of some calls."""
    call()
    found = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        found.append(round(1e6 * (time.perf_counter() - start), 2))
    return found


def measure(dtype: torch.dtype, name: str, rows: int, columns: int, visits: int) -> None:
    """Both cases by both ways, in turn."""
    x = torch.linspace(-1, 1, rows * columns).to(dtype).reshape(rows, columns)
    dy = x.flip(0).contiguous()
    weight = torch.linspace(0.5, 1.5, columns).to(dtype)
    with_grad = x.detach().requires_grad_(), weight.detach().requires_grad_()
    calls: dict[str, Callable[[], object]] = {}
    for how, f in (("eager", norm), ("compiled", torch.compile(norm, dynamic=False))):
        y = f(*with_grad)  # Its graph is kept: the gradient alone is called again and again.

        def forward(f: Callable[..., torch.Tensor] = f) -> object:
            with torch.no_grad():
                return f(x, weight)

        def backward(y: torch.Tensor = y) -> object:
            return torch.autograd.grad(y, with_grad, dy, retain_graph=True)

        calls[f"forward {how}"] = forward
        calls[f"backward, dweight {how}"] = backward
    for _ in range(visits):
        for case, call in calls.items():
            us = timed(call)
            print(json.dumps({"case": f"{name} {rows}x{columns} {case}", "us": us}), flush=True)


def main() -> None:
    """Reads the arguments."""
    columns, mib, threads, visits = sys.argv[1:5]
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    for dtype, name, size in ((torch.float32, "f32", 4), (torch.bfloat16, "bf16", 2)):
        for each in map(int, columns.split(",")):
            torch.compiler.reset()
            measure(dtype, name, (int(mib) << 20) // size // each, each, int(visits))


if __name__ == "__main__":
    main()
