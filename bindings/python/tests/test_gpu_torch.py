"""What a communicator on a GPU asks of torch: its current stream, its allocator, new tensors.

No machine of these tests has a GPU that torch would use. So a stand-in answers for torch, on the
fake GPU, and keeps what it was asked. Torch's own answers: tests/gpu/python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import Exporter
from fake_gpu import FakeGpus, host_view


class Stream:
    """torch's name for a stream."""

    def __init__(self, torch: Torch, handle: int) -> None:
        self._torch = torch
        self.cuda_stream = handle

    def wait_stream(self, other: Stream) -> None:
        self._torch.waits.append((self.cuda_stream, other.cuda_stream))
        self._torch.gpus.wait(self.cuda_stream, other.cuda_stream)


def index_of(device: Any) -> int:
    """Of a GPU."""
    return device if isinstance(device, int) else int(device.removeprefix("cuda:"))


class Torch:
    """As much of the module as is asked for."""

    float32, bfloat16 = np.float32, np.uint16

    def __init__(self, gpus: FakeGpus) -> None:
        self.gpus = gpus
        self.index = 0  # Of the current GPU.
        self.streams = [gpus.stream(0), gpus.stream(1)]  # By GPU: its current one.
        self.captured: set[int] = set()
        self.waits: list[tuple[int, int]] = []  # Who was to wait for whom.
        torch = self

        class Tensor(Exporter):
            is_cuda = True
            requires_grad = False

            def __init__(
                self, shape: tuple[int, ...], dtype: Any = np.float32, device: str = "cuda:0"
            ) -> None:
                size = int(np.prod(shape)) * np.dtype(dtype).itemsize
                self.device, index = device, index_of(device)
                memory = host_view(gpus.allocate(index, size), shape, dtype)
                super().__init__(memory, 2, device=(2, index))
                self.recorded: list[int] = []

            def __dlpack__(self, *, stream: Any = None) -> Any:
                if index_of(self.device) != torch.index:
                    raise BufferError("Can't export tensors on a different CUDA device index")
                return super().__dlpack__(stream=stream)

            def record_stream(self, stream: Stream) -> None:
                self.recorded.append(stream.cuda_stream)

            def is_neg(self) -> bool:
                return False

            def is_conj(self) -> bool:
                return False

            def is_inference(self) -> bool:
                return False

        self.Tensor = Tensor
        self.cuda = SimpleNamespace(
            current_stream=lambda device: Stream(torch, torch.streams[index_of(device)]),
            device=self.on_gpu,
            default_stream=lambda device: Stream(torch, 0),
            ExternalStream=self.external_stream,
            is_current_stream_capturing=lambda: torch.streams[torch.index] in torch.captured,
            is_initialized=lambda: True,
            stream=self.on_stream,
        )
        self.versions: list[Any] = []  # Tensors whose version was counted up.
        self.autograd = SimpleNamespace(
            graph=SimpleNamespace(increment_version=self.versions.append)
        )

    def external_stream(self, handle: int, device: Any) -> Stream:
        """As torch's, which takes 0 for nothing and gives any stream of its pool."""
        assert handle != 0
        return Stream(self, handle)

    @property
    def current(self) -> int:
        """The first GPU's current stream."""
        return self.streams[0]

    @contextmanager
    def on_stream(self, stream: Stream) -> Iterator[None]:
        before, self.streams[self.index] = self.streams[self.index], stream.cuda_stream
        yield
        self.streams[self.index] = before

    @contextmanager
    def on_gpu(self, device: Any) -> Iterator[None]:
        before, self.index = self.index, index_of(device)
        try:
            yield
        finally:
            self.index = before

    def empty(self, shape: tuple[int, ...], dtype: Any, device: str) -> Any:
        return self.Tensor(shape, dtype, device)


@pytest.fixture
def torch(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> Torch:
    torch = Torch(gpus)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    return torch


@pytest.fixture
def comm(gpus: FakeGpus) -> Any:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "torch on a GPU"}
    with sk.Comm(device="cuda:0", timeout=30.0, **config) as comm:
        yield comm


def test_tensors_in_and_out(torch: Torch, comm: sk.Comm) -> None:
    x = torch.Tensor((3, 5))
    x.memory[...] = 2
    out = comm.allreduce(x)
    assert isinstance(out, torch.Tensor) and out.memory.shape == (3, 5)
    assert comm.allgather(x).memory.shape == (1, 3, 5)
    product = comm.allreduce_gemm(x, torch.Tensor((5, 2)))
    assert product.memory.shape == (3, 2)
    comm.synchronize()
    assert np.all(out.memory == 2)
    torch.versions.clear()
    comm.allreduce(x, out=out)
    assert torch.versions == [out]


def test_a_gpu_that_is_not_torchs_current_one(torch: Torch, gpus: FakeGpus) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": 30.0}
    with sk.Comm(device="cuda:1", name="the second GPU", **config) as comm:
        x, stream = torch.Tensor((4,), device="cuda:1"), gpus.stream(1)
        x.memory[...] = 2
        out = comm.allreduce(x)
        assert out.device == "cuda:1"
        symmetric = comm.empty(4)
        torch.captured = {stream}
        comm.allreduce(symmetric, out=out, stream=stream)
        comm.allreduce(x, out=out, stream=stream)
        assert torch.waits == [] and x.streams[-1] == -1
        comm.synchronize()
        assert np.all(out.memory == 2) and torch.index == 0
        with pytest.raises(sk.InvalidArgumentError, match="lies on cuda:0"):
            comm.allreduce(torch.Tensor((4,)))


def test_torchs_current_stream(torch: Torch, comm: sk.Comm, gpus: FakeGpus) -> None:
    x = torch.Tensor((4,))
    out = comm.allreduce(x)
    assert x.streams == [-1] and out.streams == [-1]  # It is in order with itself.
    hold = gpus.hold(torch.current)
    for enqueue in (lambda: comm.allreduce(x, out=x), comm.barrier):
        enqueue()
        comm.synchronize(stream=0)
        with pytest.raises(sk.TimeoutError):
            comm.synchronize(timeout=0.05)
    gpus.open(hold)
    comm.synchronize()
    comm.allreduce(x, out=x, stream=torch.current)
    assert x.streams[-1] == -1


@pytest.mark.parametrize("way", ["current", "default", "named"])
def test_symmetric_memory_is_in_order_with_torch(
    torch: Torch, comm: sk.Comm, gpus: FakeGpus, way: str
) -> None:
    """Torch writes it through a view, of which the array knows nothing."""
    x, out = comm.empty(6), comm.empty(6)
    values, results = (host_view(each.ptr, (6,), np.float32) for each in (x, out))
    values[...] = 1
    hold = gpus.hold(torch.current)
    stream = {"current": None, "default": 0, "named": gpus.stream(0)}[way]
    comm.allreduce(x, out=out, stream=stream)
    try:
        with pytest.raises(sk.TimeoutError):
            comm.synchronize(timeout=0.05)
        values[...] = 5  # As what torch's stream does next would.
    finally:
        gpus.open(hold)
    comm.synchronize()
    assert np.all(results == 5)


def test_symmetric_memory_is_packed_in_order_with_torch(torch: Torch, gpus: FakeGpus) -> None:
    config = {"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": 0.2}
    with sk.Comm(device="cuda:0", name="packs", **config) as comm:
        b = comm.empty((4, 4))
        hold = gpus.hold(torch.current)
        try:
            with pytest.raises(sk.TimeoutError):
                comm.pack(b)
        finally:
            gpus.open(hold)
        comm.synchronize(stream=0, timeout=30)


def test_the_allocator_is_told_of_other_streams(
    torch: Torch, comm: sk.Comm, gpus: FakeGpus
) -> None:
    x, other = torch.Tensor((4,)), gpus.stream(0)
    out = comm.allreduce(x)
    assert x.recorded == out.recorded == []
    out = comm.allreduce(x, stream=other)
    assert x.recorded == out.recorded == [other]
    assert x.streams[-1] == out.streams[-1] == other
    comm.allreduce(x, out=out, stream=0)
    assert x.recorded == [other, 0] and x.streams[-1] == 1


def test_a_capture_waits_for_nothing_outside(torch: Torch, comm: sk.Comm, gpus: FakeGpus) -> None:
    """Such a wait would end it. Where torch captures its current stream as well, there is one."""
    x, stream = torch.Tensor((4,)), gpus.stream(0)
    torch.captured = {stream}
    comm.allreduce(x, out=x, stream=stream)
    assert x.streams == [-1, -1]
    comm.allreduce(symmetric := comm.empty(4), out=symmetric, stream=stream)
    assert torch.waits == []
    torch.captured = {stream, torch.current}
    comm.allreduce(x, out=x, stream=stream)
    assert x.streams == [-1, -1, stream, stream]
    torch.captured = {torch.current}
    comm.allreduce(x, out=x)
    assert x.streams[4:] == [-1, -1]


def test_tensors_are_not_held(torch: Torch, comm: sk.Comm) -> None:
    """Their allocator keeps the order, so a loop that never synchronises does not grow."""
    x = torch.Tensor((4,))
    comm.allreduce(x, out=x)
    assert x.released == 2


@pytest.mark.parametrize(
    ("failure", "is_held"),
    [
        (sk.InvalidArgumentError("x is wrong", 10), False),
        (sk.AbortedError("rank 0 aborted", 21), True),
        (sk.TimeoutError("a wait ran out", 30), True),
        (KeyboardInterrupt(), True),
    ],
    ids=str,
)
@pytest.mark.parametrize("what", ["run", "pack"])
def test_tensors_of_a_call_that_may_be_under_way_are_held(
    torch: Torch,
    comm: sk.Comm,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    failure: BaseException,
    is_held: bool,
) -> None:
    """Also on torch's current stream: what is enqueued later need not come later."""

    def fail(*arguments: Any) -> None:
        raise failure

    x = torch.Tensor((4, 4))
    with pytest.raises(type(failure)):
        if what == "pack":
            monkeypatch.setattr(sk._core, "Packed", fail)
            comm.pack(x)
        else:
            call = comm._place.begin(None, (x,))
            call.row_major(x, "x")
            call.run(fail)
    failure.__traceback__ = None
    call = None
    assert x.released == (0 if is_held else 1)
    comm.synchronize()
    assert x.released == 1 and x.recorded == []
