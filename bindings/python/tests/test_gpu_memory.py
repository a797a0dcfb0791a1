"""Memory of calls on a GPU: how long it lives, and what comm.empty() gives there.

The GPU is a fake (fake_gpu.py).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from fake_gpu import FakeGpus, host_view
from libsk import _gpu
from oracle import DTYPES

Ranks = Callable[..., list[Any]]
RANKS = 2
_WAIT_S = 0.2


def test_operands_live_until_the_gpu_is_done(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        handles = [gpus.stream(0), gpus.stream(0)]
        arrays = [gpus.array(np.ones(5, np.float32)) for _ in handles]
        for handle, x in zip(handles, arrays, strict=True):
            comm.allreduce(x, out=x, stream=handle)
        assert [x.released for x in arrays] == [0, 0]
        comm.synchronize(stream=handles[1])
        assert [x.released for x in arrays] == [0, 2]
        comm.synchronize()
        assert [x.released for x in arrays] == [2, 2]

    gpu_ranks(RANKS, body)


@pytest.mark.parametrize("way", ["free", "drop"])
def test_the_end_waits_for_the_gpu(gpus: FakeGpus, way: str) -> None:
    x = gpus.array(np.ones(5, np.float32))
    out = gpus.empty((5,), np.float32)
    comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="end", device="cuda")
    comm.allreduce(x, out=out)
    assert x.released == 0
    if way == "free":
        comm.free()
    del comm
    gc.collect()
    assert x.released == 1
    assert np.all(out.memory == 1)


def test_memory_that_is_still_in_use_is_given_up(
    gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that goes on too late must not find its operands reused."""
    monkeypatch.setattr(_gpu, "_left_behind", given_up := [])
    x = gpus.array(np.ones(5, np.float32))
    handle = gpus.stream(0)
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": _WAIT_S}
    comm = sk.Comm(name="given up", device="cuda:0", **config)
    hold = gpus.hold(handle)
    comm.allreduce(x, out=x, stream=handle)
    place = comm._place
    place.settle()
    assert x.released == 0 and len(place.batches) == 1
    place.end()
    assert x.released == 0 and not place.batches and len(given_up) == 1
    gpus.open(hold)
    comm.synchronize(stream=handle, timeout=30)
    comm.free()
    assert x.released == 0
    given_up.clear()


def test_held_operands_are_bounded(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gpu, "_HELD_MAX", 4)
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "bounded"}
    with sk.Comm(device="cuda:0", **config) as comm:
        x = gpus.array(np.ones(5, np.float32))
        for calls in range(1, 8):
            comm.allreduce(x, out=x)
            assert 2 * calls - x.released <= 4


# ---- symmetric memory ----


def test_symmetric_memory(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        x = comm.empty((3, 5))
        assert (x.shape, x.dtype, x.nbytes, x.device) == ((3, 5), "f32", 60, "cuda:0")
        assert x.__dlpack_device__() == (2, 0)
        assert comm.info()["symmetric_bytes"] == 60
        values = host_view(x.ptr, (3, 5), np.float32)
        assert not values.any()
        values[...] = comm.rank + 1
        comm.barrier()
        assert comm.allreduce(x, out=x) is x
        comm.allgather(x.reshape(15), gathered := comm.empty((RANKS, 15)))
        interface = gathered.__cuda_array_interface__  # Waits, for it can name no stream.
        assert interface["shape"] == (RANKS, 15) and interface["typestr"] == "<f4"
        assert np.all(host_view(interface["data"][0], (RANKS, 15), np.float32) == 3)
        comm.free(x)
        with pytest.raises(sk.InvalidArgumentError, match="given back"):
            comm.allreduce(x, out=x)
        assert "freed" in repr(x)
        comm.free(gathered)
        assert comm.info()["symmetric_bytes"] == 0

    gpu_ranks(RANKS, body)


@pytest.mark.parametrize("max_version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_symmetric_memory_is_lent(
    gpus: FakeGpus, dtype: str, max_version: tuple[int, int] | None
) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": f"lent {dtype}"}
    with sk.Comm(device="cuda:0", **config) as comm:
        x = comm.empty((2, 7), dtype)
        capsule = x.__dlpack__(stream=1, max_version=max_version)
        assert ("dltensor_versioned" in repr(capsule)) == (max_version is not None)
        borrowed = sk._core.Borrowed(capsule)
        assert borrowed.address == x.ptr and borrowed.shape == (2, 7)
        assert borrowed.device == (2, 0) and borrowed.strides is None
        assert borrowed.dtype[:2] == ({"b": 4, "i": 0}.get(dtype[0], 2), int(dtype[-2:]))
        assert not borrowed.read_only
        with pytest.raises(sk.BusyError, match="1 other array"):
            comm.free(x)
        with pytest.raises(BufferError, match="lent where it lies"):
            x.__dlpack__(dl_device=(1, 0))
        del borrowed, capsule
        x.__dlpack__(max_version=max_version)  # A capsule that nobody takes.
        comm.free(x)
    if dtype == "bf16":
        with sk.Comm(device="cuda:0", **config) as comm:
            assert not hasattr(comm.empty(3, "bf16"), "__cuda_array_interface__")


def test_lent_memory_outlives_its_communicator(gpus: FakeGpus) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "outlives"}
    comm = sk.Comm(device="cuda:0", **config)
    x = comm.empty(4)
    borrowed = sk._core.Borrowed(x.__dlpack__())
    comm.free()
    del comm, x
    gc.collect()
    host_view(borrowed.address, (4,), np.float32)[...] = 7  # The sanitizers' business.


def test_other_streams_wait_for_what_was_written(gpus: FakeGpus) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": _WAIT_S}
    with sk.Comm(device="cuda:0", name="order", **config) as comm:
        x, handle = comm.empty(6), gpus.stream(0)
        hold = gpus.hold(handle)
        comm.allreduce(x, out=x, stream=handle)
        x.__dlpack__(stream=handle)  # In order anyway.
        x.__dlpack__(stream=-1)  # As the consumer wishes.
        for stream in (None, 1, gpus.stream(0)):
            with pytest.raises(sk.TimeoutError):
                x.__dlpack__(stream=stream)
        with pytest.raises(sk.TimeoutError):
            x.__cuda_array_interface__  # noqa: B018 - looking is the test.
        with pytest.raises(sk.TimeoutError):  # A call of ours on another stream, too.
            comm.allreduce(x, out=x)
        gpus.open(hold)
        comm.synchronize(timeout=30)
        x.__dlpack__(stream=1)


def test_memory_of_another_communicator(gpus: FakeGpus) -> None:
    """It waits for that one's calls, and what such a call uses lives until they are done."""
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": _WAIT_S}
    with (
        sk.Comm(device="cuda:0", name="its own", **config) as mine,
        sk.Comm(device="cuda:0", name="another", **config) as other,
    ):
        x, out, handle = mine.empty(6), gpus.empty((6,), np.float32), gpus.stream(0)
        host_view(x.ptr, (6,), np.float32)[...] = 3
        hold = gpus.hold(handle)
        other.allreduce(x, out=out, stream=handle)
        with pytest.raises(sk.TimeoutError):
            x.__dlpack__(stream=1)
        with pytest.raises(sk.TimeoutError):
            mine.free(x)
        assert out.released == 0
        gpus.open(hold)
        other.synchronize(timeout=30)
        assert out.released == 1 and np.all(out.memory == 3)
        mine.free(x)
