"""What a communicator on a GPU refuses: a sentence each, nothing launched, usable afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import libsk as sk
import numpy as np
import pytest
from conftest import run_ranks
from exporter import Exporter
from fake_gpu import FakeGpus, host_view, is_poisoned, on_gpu

HOST = np.zeros(6, np.float32)


class Room(NamedTuple):
    """Rank 0 of two, so that a call that got through would wait for the other; and its arrays."""

    comm: sk.Comm
    gpus: FakeGpus
    x: Exporter
    out: Exporter
    elsewhere: Exporter
    matrix: Exporter


@pytest.fixture(scope="module")
def room(gpus: FakeGpus) -> Iterator[Room]:
    comms: list[sk.Comm] = []

    def make(rank: int) -> None:
        config = {"bootstrap": "threads", "world_size": 2, "name": "bad input of GPUs"}
        comms.append(sk.Comm(rank=rank, device="cuda:0", timeout=20.0, **config))

    def in_both(body: Callable[[sk.Comm], None]) -> None:
        threads = [threading.Thread(target=body, args=(comm,)) for comm in comms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    comms.sort(key=lambda comm: comm.rank)
    yield Room(
        comms[0],
        gpus,
        gpus.array(HOST),
        gpus.empty((6,), np.float32),
        gpus.array(HOST, gpu=1),
        gpus.array(np.zeros((4, 3), np.float32)),
    )
    x = [gpus.array(np.full(6, 4, np.float32)) for _ in comms]
    in_both(lambda comm: comm.allreduce(x[comm.rank], out=x[comm.rank]))
    in_both(lambda comm: comm.synchronize())
    assert np.all(x[0].memory == 8) and np.all(x[1].memory == 8)


def strided(r: Room) -> Exporter:
    return on_gpu(r.matrix.memory[:, ::2])


def pinned(r: Room) -> Exporter:
    return Exporter(HOST, 2, device=(3, 0))


CASES: dict[str, tuple[Callable[[Room], Any], str]] = {
    "numpy": (lambda r: r.comm.allreduce(HOST, out=r.out), r"x lies in memory of the CPU.*\.to\("),
    "number": (lambda r: r.comm.allreduce(1.0, out=r.out), "x is a float; .*cuda:0"),
    "none": (lambda r: r.comm.allreduce(None, out=r.out), "x is None"),
    "pinned": (lambda r: r.comm.allreduce(pinned(r), out=r.out), "x lies in memory of the CPU"),
    "out on the CPU": (lambda r: r.comm.allreduce(r.x, out=HOST), "out lies in memory of the CPU"),
    "other gpu": (
        lambda r: r.comm.allreduce(r.elsewhere, out=r.out),
        "x lies on cuda:1, and this communicator is on cuda:0: copy it there",
    ),
    "out elsewhere": (lambda r: r.comm.allreduce(r.x, out=r.elsewhere), "out lies on cuda:1"),
    "other maker": (
        lambda r: r.comm.allreduce(Exporter(HOST, 2, device=(10, 0)), out=r.out),
        "x lies on a device of DLPack's type 10",
    ),
    "a liar": (
        lambda r: r.comm.allreduce(Exporter(HOST, 2, device=(2, 0)), out=r.out),
        "in at 0x.* is memory of the host",
    ),
    "a liar's other gpu": (
        lambda r: r.comm.allreduce(on_gpu(r.elsewhere.memory), out=r.out),
        "is memory of GPU 1; memory of GPU 0 is due",
    ),
    "no out": (lambda r: r.comm.allreduce(r.x), "out is missing: .*torch tensors only"),
    "strided": (
        lambda r: r.comm.allreduce(strided(r), out=r.out),
        r"x has strides \(3, 2\) for shape \(4, 2\); .*x\.contiguous\(\)",
    ),
    "out strided": (
        lambda r: r.comm.allreduce(on_gpu(r.out.memory[:3]), out=on_gpu(r.x.memory[::2])),
        "out has strides",
    ),
    "out dtype": (
        lambda r: r.comm.allreduce(r.x, out=r.gpus.empty((6,), np.float16)),
        "out has dtype f16; it must have f32",
    ),
    "out shape": (lambda r: r.comm.allgather(r.x, out=r.out), r"must have \(2, 6\)"),
    "dtype": (lambda r: r.comm.allreduce(r.x, out=r.out, dtype="f16"), "but dtype says f16"),
    "op": (lambda r: r.comm.allreduce(r.x, "mean", r.out), "op is 'mean'"),
    "overlap": (
        lambda r: r.comm.allreduce(on_gpu(r.x.memory[:5]), out=on_gpu(r.x.memory[1:])),
        "overlap",
    ),
    "stream text": (lambda r: r.comm.barrier(stream="main"), "stream is 'main'; give torch's"),
    "stream bool": (lambda r: r.comm.barrier(stream=True), "stream is True"),
    "stream negative": (lambda r: r.comm.barrier(stream=-1), "stream is -1"),
    "stream of each thread": (lambda r: r.comm.barrier(stream=2), "stream is 2, CUDA's per-thread"),
    "stream elsewhere": (
        lambda r: r.comm.allreduce(r.x, out=r.out, stream=r.gpus.stream(1)),
        "not of GPU 0's primary context",
    ),
    "synchronize text": (lambda r: r.comm.synchronize(stream="main"), "stream is 'main'"),
    "gemm numpy": (
        lambda r: r.comm.allreduce_gemm(r.matrix, HOST.reshape(3, 2), r.out),
        "b lies in memory of the CPU",
    ),
    "gemm strided": (
        lambda r: r.comm.allreduce_gemm(strided(r), on_gpu(r.out.memory.reshape(2, 3)), r.out),
        r"a has strides .*a\.contiguous\(\)",
    ),
    "gemm out columns": (
        lambda r: r.comm.allreduce_gemm(
            r.matrix, r.gpus.empty((3, 2), np.float32), on_gpu(r.matrix.memory[:, ::2])
        ),
        "out has strides",
    ),
    "gemm integers": (
        lambda r: r.comm.allreduce_gemm(
            *[r.gpus.array(np.zeros((3, 3), np.int32)) for _ in range(3)]
        ),
        "i32",
    ),
    "empty nothing": (lambda r: r.comm.empty((0, 3)), "at least one element"),
    "free other": (lambda r: r.comm.free(r.x), "this communicator's empty"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_argument(room: Room, name: str) -> None:
    call, sentence = CASES[name]
    before = room.comm.info()["calls"], room.gpus.launches()
    with pytest.raises(sk.Error, match=sentence) as caught:
        call(room)
    assert caught.value.code in (10, 12)
    assert len(str(caught.value)) > 15
    assert (room.comm.info()["calls"], room.gpus.launches()) == before
    assert is_poisoned(room.out)


@pytest.mark.parametrize(
    "call",
    [
        lambda c, x, g: c.allreduce(x),
        lambda c, x, g: c.allreduce(HOST, out=x),
        lambda c, x, g: c.allreduce_gemm(HOST.reshape(2, 3), on_gpu(x.memory.reshape(3, 2))),
        lambda c, x, g: c.barrier(stream=g.stream(0)),
        lambda c, x, g: c.allreduce(HOST, stream=0),
        lambda c, x, g: c.synchronize(stream=0),
    ],
    ids=["x", "out", "b", "stream of a barrier", "stream", "synchronize"],
)
def test_a_communicator_on_the_cpu(gpus: FakeGpus, call: Callable[..., Any]) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "on the CPU"}
    with sk.Comm(device="cpu", **config) as comm:
        assert comm.device == "cpu"
        sentence = "on the CPU.*(copy it to the host|done when it returns)|lies on device CUDA 0"
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            call(comm, gpus.array(HOST), gpus)
        comm.synchronize()
        assert comm.info()["calls"] == 0


class TorchDevice:
    """As torch's."""

    def __init__(self, kind: str, index: int | None) -> None:
        self.type = kind
        self.index = index


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (None, "cpu"),
        ("cpu", "cpu"),
        ((1, 0), "cpu"),
        (TorchDevice("cpu", None), "cpu"),
        ("cuda", "cuda:0"),
        ("cuda:1", "cuda:1"),
        ((2, 1), "cuda:1"),
        (TorchDevice("cuda", None), "cuda:0"),
        (TorchDevice("cuda", 1), "cuda:1"),
    ],
)
def test_names_of_devices(gpus: FakeGpus, device: Any, name: str) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "devices"}
    with sk.Comm(device=device, **config) as comm:
        assert comm.device == name


@pytest.mark.parametrize(
    "device",
    ["gpu", "cuda:x", "cuda:-1", "", 0, 2.5, (13, 0), (2, -1), (2,), TorchDevice("xpu", 0), [2, 0]],
    ids=str,
)
def test_what_is_no_device(device: Any) -> None:
    with pytest.raises(sk.InvalidArgumentError, match=r'give "cpu", "cuda:0", a torch.device'):
        sk.Comm(bootstrap="threads", rank=0, world_size=1, device=device)


def test_a_gpu_that_is_not_there(gpus: FakeGpus) -> None:
    with pytest.raises(sk.Error, match="GPU 7") as caught:
        sk.Comm(bootstrap="threads", rank=0, world_size=1, name="seventh", device="cuda:7")
    assert caught.value.code in (10, 12)


def test_ranks_on_several_gpus(gpus: FakeGpus) -> None:
    devices = ["cuda:0", "cuda:1"]

    def rank_main(rank: int) -> None:
        config = {"bootstrap": "threads", "rank": rank, "world_size": 2, "name": "several GPUs"}
        with pytest.raises(sk.UnsupportedError, match="share one"):
            sk.Comm(device=devices[rank], timeout=20.0, **config)
        done.append(rank)

    done: list[int] = []
    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == [0, 1]


def test_different_calls_are_told_to_both(gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        x = gpus.array(HOST)
        with pytest.raises(sk.DesyncError, match="allreduce.*barrier"):
            comm.allreduce(x, out=x) if comm.rank == 0 else comm.barrier()
        comm.barrier()

    assert run_ranks(2, body, device="cuda:0") == [None, None]


def test_an_array_that_is_not_aligned(gpus: FakeGpus) -> None:
    with sk.Comm(device="cuda:0", bootstrap="threads", rank=0, world_size=1, name="odd") as comm:
        x = gpus.array(HOST)
        odd = on_gpu(host_view(gpus.allocate(0, 64) + 2, HOST.shape, HOST.dtype))
        for call in (lambda: comm.allreduce(odd, out=x), lambda: comm.allreduce(x, out=odd)):
            with pytest.raises(sk.InvalidArgumentError, match="starts at an address.* 4 bytes"):
                call()
        assert is_poisoned(odd)


def test_sends_to_each_other_on_a_gpu(gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.DesyncError):
            comm.send(gpus.array(HOST), 1 - comm.rank)
        comm.barrier()

    assert run_ranks(2, body, device="cuda:0") == [None, None]
