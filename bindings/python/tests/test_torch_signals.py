"""Handlers of signals that raise while calls have tensors: what they raise arrives, and torch hears
of what was written."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
pytest.importorskip("libsk.torch")

ROUNDS = 300
CALLS_MAX = 1_000_000
"""Far more than an alarm's time has room for."""


class Alarm(Exception):
    """What the handler raises."""


@pytest.fixture
def raised() -> Iterator[list[Any]]:
    """As many as there were alarms."""
    found: list[Any] = []

    def handler(*_: Any) -> None:
        found.append(None)
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    yield found
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    """A world of one."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="torch signals") as comm:
        yield comm


def until_an_alarm(raised: list[Any], draw: random.Random, call: Callable[[], Any]) -> None:
    """Calls until the handler has run, which then raises out of here."""
    before = len(raised)
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(2e-4, 6e-4))
    for _ in range(CALLS_MAX):
        call()
        if len(raised) > before:
            return
    raise AssertionError("no alarm came")


X, OUT = torch.randn(4, 8), torch.empty(4, 8)
LISTS = [[torch.rand(8) for _ in range(20)] for _ in range(4)]
CALLS: dict[str, Callable[[sk.Comm], Any]] = {
    "a new result": lambda c: sk.rmsnorm(X),
    "out": lambda c: sk.rmsnorm(X, out=OUT),
    "ops.rmsnorm": lambda c: torch.ops.sk.rmsnorm(X),
    "lists": lambda c: sk.adamw(*LISTS, 1e-3, 1),
    "ops.adamw": lambda c: torch.ops.sk.adamw.default(*LISTS, 1e-3, 1),
    "allreduce": lambda c: c.allreduce(X),
    "the long way": lambda c: c.allreduce(X, timeout=60),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_handler_raises_arrives(raised: list[Any], alone: sk.Comm, name: str) -> None:
    draw, call = random.Random(7), CALLS[name]
    call(alone)
    arrived = 0
    for _ in range(ROUNDS):
        try:
            until_an_alarm(raised, draw, lambda: call(alone))
        except Alarm:
            arrived += 1
    assert arrived == len(raised) == ROUNDS


WRITES: dict[str, Callable[[sk.Comm, Any], Any]] = {
    "lists": lambda c, w: sk.adamw([w], [LISTS[1][0]], [LISTS[2][0]], [LISTS[3][0]], 0.1, 1),
    "ops.adamw": lambda c, w: torch.ops.sk.adamw([w], *([one[0]] for one in LISTS[1:]), 0.1, 1),
    "rmsnorm": lambda c, w: sk.rmsnorm(LISTS[0][0], out=w),
    "allreduce": lambda c, w: c.allreduce(LISTS[0][0], out=w),
    "the long way": lambda c, w: c.allreduce(LISTS[0][0], out=w, timeout=60),
    "lists, the long way": lambda c, w: sk.adamw(
        iter([w]), [LISTS[1][0]], [LISTS[2][0]], [LISTS[3][0]], 0.1, 1
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_torch_hears_of_a_write_that_a_handler_interrupts(
    raised: list[Any], alone: sk.Comm, name: str
) -> None:
    draw, write = random.Random(7), WRITES[name]
    w = torch.zeros(8)
    write(alone, w)
    before = w._version

    def call() -> None:
        nonlocal before
        w.fill_(-5.0)
        before = w._version
        write(alone, w)

    for _ in range(2 * ROUNDS):
        with contextlib.suppress(Alarm):
            until_an_alarm(raised, draw, call)
        assert w._version > before or bool((w == -5.0).all())
