"""A step of AdamW over lists of tensors, by libsk and by torch's fused one, in turn in one process.

usage: adamw_torch.py THREADS ROUNDS [CALLS]

One JSON line per list and candidate, with the microseconds of every call, by the clock and of the
processor: CALLS of a visit behind one that counts for nothing, two visits a round, in an order that
reads the same backwards. ``read in Python`` is libsk without DLPack's exchange API, as with
releases of torch that have none. On a machine that others use compare the processor's, of one
thread.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import libsk as sk
import libsk.torch  # Its operations of torch.
import torch
from libsk import _core, _exchange, _tensors

NUMBERS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


def resnet_50() -> list[tuple[int, ...]]:
    """Shapes of its 161 parameters, 25.6 million in all."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            wide = 4 * width
            for out, into, side in ((width, before, 1), (width, width, 3), (wide, width, 1)):
                shapes += [(out, into, side, side), (out,), (out,)]
            if block == 0:
                shapes += [(wide, before, 1, 1), (wide,), (wide,)]
            before = wide
    return [*shapes, (1000, 2048), (1000,)]


LISTS = {"300 x 1024": [(1024,)] * 300, "ResNet-50": resnet_50()}


@contextmanager
def read_in_python() -> Iterator[None]:
    """Libsk does not know the API meanwhile."""
    know = _exchange.know_torch
    _exchange.know_torch = _tensors.know_torch = lambda: None
    _core.forget_torch()
    try:
        yield
    finally:
        _exchange.know_torch = _tensors.know_torch = know
        _exchange._seen = None
        know()


def lists(shapes: list[tuple[int, ...]]) -> list[list[torch.Tensor]]:
    """params, grads, ms, vs."""
    return [[torch.rand(shape) for shape in shapes] for _ in range(4)]


def candidates(shapes: list[tuple[int, ...]]) -> dict[str, Callable[[], object]]:
    """Each has tensors of its own."""
    p, g, m, v = lists(shapes)
    steps = [torch.tensor(1.0) for _ in shapes]
    names = {"lr": 1e-3, "amsgrad": False, "maximize": False, **NUMBERS}

    def fused() -> object:
        return torch._fused_adamw_(p, g, m, v, [], steps, **names)

    model = [torch.nn.Parameter(x) for x in lists(shapes)[0]]
    for parameter in model:
        parameter.grad = torch.rand_like(parameter)
    optimizer = torch.optim.AdamW(model, fused=True)
    ours = lists(shapes)
    arrays = [[x.numpy() for x in one] for one in lists(shapes)]
    operation = torch.ops.sk.adamw
    return {
        "torch._fused_adamw_": fused,
        "torch.optim.AdamW(fused=True).step": optimizer.step,
        "torch.ops.sk.adamw": lambda: operation(*ours, 1e-3, 1, **NUMBERS),
        "torch.ops.sk.adamw.default": lambda: operation.default(*ours, 1e-3, 1, **NUMBERS),
        "sk.adamw": lambda: sk.adamw(*ours, 1e-3, 1, **NUMBERS),
        "sk.adamw of NumPy's arrays": lambda: sk.adamw(*arrays, 1e-3, 1, **NUMBERS),
        "torch.ops.sk.adamw, read in Python": lambda: operation(*ours, 1e-3, 1, **NUMBERS),
    }


def visit(name: str, call: Callable[[], object], calls: int) -> list[tuple[float, float]]:
    """Microseconds of each call, by the clock and of the processor."""
    found = []
    with read_in_python() if name.endswith("read in Python") else nullcontext():
        call()
        for _ in range(calls):
            start, busy = time.perf_counter_ns(), time.process_time_ns()
            call()
            end, idle = time.perf_counter_ns(), time.process_time_ns()
            found.append(((end - start) / 1000, (idle - busy) / 1000))
    return found


def medians(found: list[tuple[float, float]]) -> list[float]:
    """By the clock and of the processor."""
    return [statistics.median(of) for of in zip(*found, strict=True)]


def main() -> None:
    """Measures, and prints."""
    threads, rounds, calls = (int(x) for x in (*sys.argv[1:], "10")[:3])
    os.environ["SK_WORKERS"] = str(threads)  # Before the first call.
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    for label, shapes in LISTS.items():
        made = candidates(shapes)
        us: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
        with torch.no_grad():
            for _ in range(rounds):
                for name in (*made, *reversed(made)):
                    us[name] += visit(name, made[name], calls)
        bar = medians(us["torch._fused_adamw_"])
        for name, found in us.items():
            line: dict[str, Any] = {"case": label, "who": name, "threads": threads}
            ratios = zip(medians(found), bar, strict=True)
            line["of_fused"], line["of_fused_cpu"] = (round(a / b, 2) for a, b in ratios)
            line["us"], line["cpu_us"] = ([round(x) for x in of] for of in zip(*found, strict=True))
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
