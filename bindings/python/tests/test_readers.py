"""Readers of plain arguments: what a handler of a signal raises in one is no word about the
argument, and what the argument itself raises is told."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk._device import stream_of

X = np.ones(4, np.float32)


class Alarm(Exception):
    """Of a handler."""


class Broken(Exception):
    """Of an argument."""


class Argument:
    """Whose every method does the same."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self._does = does

    def _do(self, *_: Any, **__: Any) -> Any:
        return self._does()

    __index__ = __float__ = __repr__ = __iter__ = __array__ = __dlpack__ = __dlpack_device__ = _do
    dtype = property(_do)


class Streamed:
    """Of an array library that speaks CUDA's protocol."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self.__cuda_stream__ = does


def _tile(**given: Any) -> sk.Tile:
    fixed = {"reads": {"x": ("f32", "m")}, "writes": {"y": ("x", "m")}, "name": "read"}
    return sk.tile(lambda x, y: None, context=sk.Context(), **{**fixed, **given})


READERS: dict[str, Callable[[sk.Comm, Any], Any]] = {
    "seconds": lambda comm, value: comm.allreduce(X, timeout=value),
    "a rank": lambda comm, value: comm.broadcast(X, root=value),
    "a flag": lambda comm, value: comm.pack(np.ones((2, 2), np.float32), transpose=value),
    "a shape": lambda comm, value: comm.empty(value),
    "a size": lambda comm, value: comm.empty((2, value)),
    "a type": lambda comm, value: comm.empty(2, value),
    "a stream": lambda comm, value: stream_of(value),
    "a number": lambda comm, value: sk.rmsnorm(X, X, eps=value),
    "a count": lambda comm, value: comm.plan("allreduce", count=value),
    "a version": lambda comm, value: _tile(version=value),
    "a limit": lambda comm, value: _tile().check(X, timeout=value),
    "an array": lambda comm, value: comm.allreduce(value),
    "a result": lambda comm, value: comm.allreduce(X, out=value),
    "a name": lambda comm, value: comm.plan(value),
}


@pytest.fixture
def comm() -> Iterator[sk.Comm]:
    with sk.Comm() as made:
        yield made


@pytest.fixture(params=["function", "method", "partial", "object"])
def raising(request: pytest.FixtureRequest) -> Iterator[None]:
    """A handler of SIGUSR1 that raises."""

    def function(*_: Any) -> None:
        raise Alarm

    class Handler:
        def __call__(self, *_: Any) -> None:
            raise Alarm

        def method(self, *_: Any) -> None:
            raise Alarm

    kinds = {
        "function": function,
        "method": Handler().method,
        "partial": functools.partial(function, 1),
        "object": Handler(),
    }
    before = signal.signal(signal.SIGUSR1, kinds[request.param])
    yield
    signal.signal(signal.SIGUSR1, before)


def is_hit() -> Any:
    """As an argument that is slow, whose reading a signal interrupts."""
    os.kill(os.getpid(), signal.SIGUSR1)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass
    raise AssertionError("no signal came")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.usefixtures("raising")
def test_what_a_handler_raises_goes_on(comm: sk.Comm, reader: str) -> None:
    with pytest.raises(Alarm):
        READERS[reader](comm, Argument(is_hit))
    np.testing.assert_array_equal(comm.allreduce(X), X)


@pytest.mark.parametrize("reader", READERS)
def test_no_memory_goes_on(comm: sk.Comm, reader: str) -> None:
    def has_none() -> Any:
        raise MemoryError

    with pytest.raises(MemoryError):
        READERS[reader](comm, Argument(has_none))


@pytest.mark.parametrize("reader", sorted(READERS.keys() - {"a name"}))
def test_what_an_argument_raises_is_told(comm: sk.Comm, reader: str) -> None:
    def breaks() -> Any:
        raise Broken("by hand")

    with pytest.raises(sk.InvalidArgumentError) as raised:
        READERS[reader](comm, Argument(breaks))
    assert isinstance(raised.value.__cause__, Broken)


def test_what_a_pair_of_cudas_raises_is_told() -> None:
    def breaks() -> Any:
        raise Broken("by hand")

    with pytest.raises(sk.InvalidArgumentError, match="by hand") as raised:
        stream_of(Streamed(breaks))
    assert isinstance(raised.value.__cause__, Broken)


def test_what_was_refused_is_let_go(comm: sk.Comm) -> None:
    """At once, and not when garbage is collected: a refusal that is dropped holds nothing."""

    def breaks() -> Any:
        raise Broken("by hand")

    gc.disable()
    try:
        for reader, read in READERS.items():
            for value in (Argument(breaks), object()):
                if reader in ("a name", "an array", "a result"):
                    continue
                argument = type("Mine", (type(value),), {})(*[breaks] * isinstance(value, Argument))
                gone = weakref.ref(argument)
                with contextlib.suppress(sk.Error):
                    read(comm, argument)
                del argument
                assert gone() is None, reader
    finally:
        gc.enable()
