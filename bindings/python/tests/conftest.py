"""What the binding's tests share: ranks as threads, seeded data, a recording worker."""

from __future__ import annotations

import atexit
import itertools
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import fake_gpu
import libsk as sk
import numpy as np
import pytest

_names = itertools.count()
_JOIN_TIMEOUT_S = 60.0


def run_ranks(world_size: int, body: Callable[[sk.Comm], Any], **config: Any) -> list[Any]:
    """Runs ``body(comm)`` on ranks that are threads; what each returned, or raised, by rank."""
    name = f"test-{next(_names)}"
    results: list[Any] = [None] * world_size

    def rank_main(rank: int) -> None:
        try:
            with sk.Comm(
                rank=rank,
                world_size=world_size,
                bootstrap="threads",
                name=name,
                timeout=limit,
                **config,
            ) as comm:
                results[rank] = body(comm)
        except BaseException as error:  # noqa: BLE001 - handed to the test.
            results[rank] = error

    limit = config.pop("timeout", 30.0)
    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_JOIN_TIMEOUT_S)
        assert not thread.is_alive(), "a rank hangs"
    return results


@pytest.fixture
def ranks() -> Callable[..., list[Any]]:
    """Runs a body on thread ranks and hands on the first failure."""

    def run(world_size: int, body: Callable[[sk.Comm], Any], **config: Any) -> list[Any]:
        results = run_ranks(world_size, body, **config)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    return run


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that each test has to itself; a failure prints the seed."""
    seed = zlib.crc32(request.node.nodeid.encode())
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def end_shell() -> None:
    """Ends this process's shell as if it had never been.

    IPython keeps each for the process's end and collects all garbage for it there: seconds each.
    """
    from libsk.kernel.shell import RankShell  # Needs IPython.

    if RankShell.initialized():
        atexit.unregister(RankShell.instance().atexit_operations)
    RankShell.clear_instance()


class RecordingWorker:
    """Stands for the C side of a rank: keeps what the shell sends."""

    def __init__(self) -> None:
        self.displays: list[tuple[int, dict[str, bytes], str | None]] = []
        self.errors: list[tuple[str, str, list[str], int]] = []
        self.statuses: list[int] = []
        self.replies: list[tuple[Any, ...]] = []
        self.code_ends = 0

    def code_ended(self) -> None:
        self.code_ends += 1

    def display(
        self,
        kind: int,
        bundle: list[tuple[str, bytes]],
        display_id: str | None,
        metadata: str | None = None,
    ) -> None:
        self.displays.append((kind, dict(bundle), display_id))

    def error(self, ename: str, evalue: str, traceback: list[str], flags: int) -> None:
        self.errors.append((ename, evalue, traceback, flags))

    def done(self, status: int) -> None:
        self.statuses.append(status)

    def reply(self, *fields: Any) -> None:
        self.replies.append(fields)


@pytest.fixture(scope="session")
def gpus() -> fake_gpu.FakeGpus:
    """Two GPUs whose kernels run on the CPU."""
    return fake_gpu.load()


@pytest.fixture(autouse=True)
def _streams_go_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """Else the process would not end after a test that failed."""
    yield
    if "gpus" in request.fixturenames:
        request.getfixturevalue("gpus").open_all()


@pytest.fixture
def gpu_ranks(ranks: Callable[..., list[Any]], gpus: fake_gpu.FakeGpus) -> Callable[..., list[Any]]:
    """Runs a body on ranks that share the first GPU."""

    def run(world_size: int, body: Callable[[sk.Comm], Any], **config: Any) -> list[Any]:
        return ranks(world_size, body, device="cuda:0", **config)

    return run
