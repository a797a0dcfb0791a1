"""Ranks that share a real GPU, through the package as it is installed, with torch's tensors.

Needs torch with CUDA. SK_GPU_DEVICE=cpu tries the tests themselves on a machine without a GPU: all
but those whose matter is a GPU, which are then skipped.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import libsk as sk
import pytest
import torch

DEVICE = os.environ.get("SK_GPU_DEVICE", "cuda:0")
ON_GPU = DEVICE != "cpu"
# Of one wait in a kernel, or for a rank: a visit gives it a part of a step's time, so that a rank
# says for whom it waited before the step is ended.
PATIENCE_S = float(os.environ.get("SK_GPU_WAIT_S", "60"))
_numbers = itertools.count()

Ranks = Callable[..., list[Any]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what only a GPU can show."""
    if ON_GPU:
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="SK_GPU_DEVICE=cpu"))


def pytest_configure(config: pytest.Config) -> None:
    """Our mark."""
    config.addinivalue_line("markers", "gpu: means nothing on the CPU")


def settle() -> None:
    """Waits for all work of the GPU, so that any thread may look at results."""
    if ON_GPU:
        torch.cuda.synchronize(DEVICE)


def sleep(cycles: int) -> None:
    """Keeps this GPU's current stream busy; which GPU is current in a thread is no matter."""
    with torch.cuda.device(DEVICE):
        torch.cuda._sleep(cycles)


def make_comm(rank: int, world_size: int, name: str, **config: Any) -> sk.Comm:
    """One rank of a communicator of threads."""
    place = {"device": DEVICE} if ON_GPU else {}
    given = {"timeout": PATIENCE_S, **place, **config}
    return sk.Comm(bootstrap="threads", rank=rank, world_size=world_size, name=name, **given)


@pytest.fixture
def ranks() -> Ranks:
    """``ranks(n, body)``: what ``body(comm)`` gives in each of n threads, in order."""

    def run(world_size: int, body: Callable[[sk.Comm], Any], **config: Any) -> list[Any]:
        name = f"silicon {next(_numbers)}"
        results: list[Any] = [None] * world_size
        failures: list[BaseException] = []

        def rank_main(rank: int) -> None:
            try:
                with make_comm(rank, world_size, name, **config) as comm:
                    try:
                        results[rank] = body(comm)
                        settle()
                    except BaseException as problem:  # noqa: BLE001 - raised by the test's thread.
                        failures.append(problem)
                        comm.abort(f"rank {rank}: {problem}"[:200])
            except BaseException as problem:  # noqa: BLE001 - raised by the test's thread.
                failures.append(problem)

        threads = [
            threading.Thread(target=rank_main, args=(rank,), daemon=True)
            for rank in range(world_size)
        ]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 2 * PATIENCE_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        if failures:
            raise failures[0]
        hung = [rank for rank, thread in enumerate(threads) if thread.is_alive()]
        assert not hung, f"ranks {hung} hang"
        return results

    return run


@pytest.fixture
def seed() -> int:
    """Fresh in each run, and told by a test that fails."""
    number = int.from_bytes(os.urandom(4), "little")
    print(f"seed {number}")
    return number


@pytest.fixture
def draw(seed: int) -> Callable[..., Any]:
    """``draw(low, high, shape, dtype)``: whole numbers of low to high - 1, on the device."""
    generator = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Any:
        numbers = torch.randint(low, high, shape, generator=generator)
        return numbers.to(dtype).to(DEVICE)

    return whole


def poisoned(shape: tuple[int, ...], dtype: Any) -> Any:
    """What no result is: an element that nobody writes is seen."""
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype, device=DEVICE)
    return torch.full(shape, -77, dtype=dtype, device=DEVICE)
