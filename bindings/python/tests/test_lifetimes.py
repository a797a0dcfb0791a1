"""Nothing here is in a cycle: what is let go of goes at once, with the collector off.

Arrays may be large, and symmetric memory is not given back while anything refers to it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest


class Mine(np.ndarray):
    """One that can be watched."""


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32).view(Mine)


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="lifetimes") as comm:
        yield comm


def closed(comm: sk.Comm, x: Any) -> None:
    with comm.prepare("allreduce", x, out=x) as made:
        made.run()


def traced(comm: sk.Comm, x: Any) -> None:
    with comm.trace() as trace:
        comm.allreduce(x)
    assert trace.events and trace.gather()


def raising(*arrays: Any) -> None:
    raise ArithmeticError("as a function may")


def tile_of(function: Callable[..., Any], name: str) -> sk.Tile:
    return sk.tile(
        function,
        name=name,
        reads={"x": ("f32", "m, n")},
        writes={"y": ("x", "m, n")},
        effect="y[i, j] = f(x[i, j])",
    )


def tile_raises(comm: sk.Comm, x: Any) -> None:
    tile_of(raising, "lifetimes_raising")(x)


def tile_runs(comm: sk.Comm, x: Any) -> None:
    def copy(x: Any, y: Any) -> None:
        y[:] = x

    made = tile_of(copy, "lifetimes_copy")
    made(x)
    made.check(x)


CALLS: dict[str, Callable[[sk.Comm, Any], Any]] = {
    "a call": lambda c, x: c.allreduce(x),
    "a call that copies": lambda c, x: c.allreduce(x.T[::2], out=x.T[::2]),
    "a product": lambda c, x: c.allreduce_gemm(x, x),
    "weights": lambda c, x: c.pack(x),
    "a plan": lambda c, x: c.plan("allreduce", count=16).run(x),
    "a plan of text": lambda c, x: c.parse_plan(c.plan("allreduce", count=16).dump()).run(x),
    "prepared": lambda c, x: c.prepare("allreduce", x, out=x).run(),
    "a product prepared": lambda c, x: c.prepare("allreduce_gemm", x, x).run(),
    "prepared, closed": closed,
    "a trace": traced,
    "of itself": lambda c, x: sk.rmsnorm(x, x[0]),
    "a tile": tile_runs,
    "a tile that raises": tile_raises,
    "a wrong name": lambda c, x: c.allreduce(x, "no"),
    "a wrong out": lambda c, x: c.allreduce(x, out=np.ones(3)),
    "not prepared": lambda c, x: c.prepare("allreduce", x, "no"),
    "a wrong plan": lambda c, x: c.plan("allreduce", count=4).run(x),
    "not freed": lambda c, x: c.free(x),
}
RAISES = {"a tile that raises": ArithmeticError} | dict.fromkeys(
    ("a wrong name", "a wrong out", "not prepared", "a wrong plan", "not freed"), sk.Error
)


@pytest.mark.parametrize("what", CALLS)
def test_arrays_go_with_their_last_name(alone: sk.Comm, what: str) -> None:
    x = ones(4, 4)
    seen = weakref.ref(x)
    if what in RAISES:
        with pytest.raises(RAISES[what]) as raised:
            CALLS[what](alone, x)
        del raised
    else:
        CALLS[what](alone, x)
    del x
    assert seen() is None


MADE: dict[str, Callable[[sk.Comm], Any]] = {
    "Plan": lambda c: c.plan("allreduce", count=4),
    "Plan of text": lambda c: c.parse_plan(c.plan("allreduce", count=4).dump()),
    "Prepared": lambda c: c.prepare("allreduce", ones(4)),
    "Packed": lambda c: c.pack(ones(4, 4)),
    "Trace": lambda c: c.trace(),
    "an array": lambda c: c.empty(16),
    "Tile": lambda c: tile_of(raising, "lifetimes_tile"),
    "Topo": lambda c: sk.topo(),
    "Context": lambda c: sk.Context(),
}


@pytest.mark.parametrize("what", MADE)
def test_objects_go_with_their_last_name(alone: sk.Comm, what: str) -> None:
    made = MADE[what](alone)
    seen = weakref.ref(made)
    del made
    assert seen() is None


@pytest.mark.parametrize("end", ["freed", "dropped"])
def test_a_communicator_goes_with_its_context(end: str) -> None:
    """Also where it goes as soon as it is there. Its log function goes with the context."""
    for _ in range(30):

        def log(level: int, component: str, message: str) -> None:
            pass

        context = sk.Context(log=log)
        comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="goes", context=context)
        if end == "freed":
            comm.allreduce(comm.empty(4))
            comm.free()
        seen = [weakref.ref(each) for each in (comm, context, log)]
        del comm, context, log
        assert [each() for each in seen] == [None] * 3


def test_symmetric_memory_is_free_behind_a_prepared_call(alone: sk.Comm) -> None:
    x = alone.empty(16)
    made = alone.prepare("allreduce", x, out=x)
    made.run()
    with pytest.raises(sk.BusyError, match="reference"):
        alone.free(x)
    made.close()
    alone.free(x)
    assert x.size == 0
