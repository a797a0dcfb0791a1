"""libsk's own functions in what torch compiles: called between its graphs, not compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
pytest.importorskip("libsk.torch")  # Which tells the compiler.


def adamw(x: Any) -> Any:
    """Of columns that lie apart, so that copies go back to them."""
    lists = [[(x * k).t()[:, ::2], x + k] for k in (1, 2, 3, 4)]
    sk.adamw(*lists, 0.1, 1)
    return torch.cat([y.flatten() for one in lists for y in one])


def written(x: Any) -> Any:
    """Seen behind the call."""
    out = torch.zeros_like(x)
    sk.rmsnorm(x * 2, out=out)
    return out + 1


CALLS: dict[str, Callable[[Any, sk.Comm], Any]] = {
    "adamw": lambda x, _: adamw(x),
    "rmsnorm": lambda x, _: sk.rmsnorm(x * 2) + 1,
    "out": lambda x, _: written(x),
    "add_rmsnorm": lambda x, _: sk.add_rmsnorm(x, x + 1)[1] * 2,
    "allreduce": lambda x, comm: comm.allreduce(x * 2) + 1,
    "allreduce_gemm": lambda x, comm: comm.allreduce_gemm(x, x.t().contiguous()) + 1,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("call", CALLS)
def test_they_do_what_they_do_elsewhere(call: str, backend: str) -> None:
    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(3))
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="compiled") as comm:
        wanted = CALLS[call](x, comm)
        torch._dynamo.reset()
        compiled = torch.compile(lambda y: CALLS[call](y, comm), backend=backend)
        for _ in range(2):
            assert torch.equal(compiled(x), wanted)
