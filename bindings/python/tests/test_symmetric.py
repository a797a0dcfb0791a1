"""Symmetric memory is given back only while nothing can reach it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from conftest import run_ranks


class _Subclass(np.ndarray):
    pass


HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "a memoryview": memoryview,
    "a cast memoryview": lambda x: memoryview(x).cast("B"),
    "an array through DLPack": np.from_dlpack,
    "an array of a memoryview": lambda x: np.frombuffer(memoryview(x).cast("B"), np.float32),
    "an array of ctypes": np.ctypeslib.as_ctypes,
    "an iterator": np.nditer,
    "a flat iterator": lambda x: x.flat,
    "a capsule": lambda x: x.__dlpack__(),
    "a subclass": lambda x: x.view(_Subclass),
    "a slice's memoryview": lambda x: memoryview(x[1:]),
    "a slice": lambda x: x[1:],
    "a transpose": lambda x: x.T,
    "a second name": lambda x: x,
}


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    """A world of one."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="symmetric") as comm:
        yield comm


@pytest.mark.parametrize("holder", HOLDERS)
def test_memory_that_something_reaches_is_not_given_back(alone: sk.Comm, holder: str) -> None:
    x = alone.empty(1 << 12)
    x[:] = 7
    held = HOLDERS[holder](x)
    with pytest.raises(sk.BusyError, match="delete them first"):
        alone.free(x)
    other = alone.empty(1 << 12)
    assert not np.shares_memory(x, other)
    assert (x == 7).all()  # It is as it was, and may be freed once that is gone.
    del held
    alone.free(x)
    assert x.size == 0


def test_a_call_under_way_holds_the_memory(alone: sk.Comm) -> None:
    x = alone.empty(1 << 12)
    inside, go_on = threading.Event(), threading.Event()

    def wait(_: Any) -> float:
        inside.set()
        assert go_on.wait(30)
        return 1.0

    call = threading.Thread(target=np.frompyfunc(wait, 1, 1), args=(x,))
    call.start()
    assert inside.wait(30)
    try:
        with pytest.raises(sk.BusyError):
            alone.free(x)
    finally:
        go_on.set()
        call.join()
    del call
    alone.free(x)


def test_however_the_array_is_handed_in(alone: sk.Comm) -> None:
    kept = {"x": alone.empty(4), "y": alone.empty((2, 2)).reshape(4)}
    alone.free(kept["x"])
    alone.free(array=kept["y"])
    alone.free(alone.empty(3))
    assert [x.size for x in kept.values()] == [0, 0]


def test_nobody_reaches_memory_that_is_on_its_way_back() -> None:
    """Rank 0 waits for rank 1 in its free(), while another thread looks for the array."""
    array, comms, seen = [], [], []
    made, looked = threading.Event(), threading.Event()

    def body(comm: sk.Comm) -> None:
        x = comm.empty(1 << 12)
        x[:] = 7
        if comm.rank == 0:
            array.append(weakref.ref(x))
            comms.append(comm)
            made.set()
        else:
            assert looked.wait(30)
        comm.free(x)
        assert x.size == 0

    def look() -> None:
        assert made.wait(30)
        while True:
            try:
                comms[0].info()
            except sk.BusyError as error:
                if "inside comm.free()" in str(error):
                    break
            except sk.BadHandleError:
                break
        seen.append(array[0]().size)
        looked.set()

    looker = threading.Thread(target=look)
    looker.start()
    assert run_ranks(2, body) == [None, None]
    looker.join(30)
    assert seen == [0]
