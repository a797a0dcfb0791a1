"""Arrays of other libraries: through DLPack, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import BFLOAT, FLOAT, Exporter

Ranks = Callable[..., list[Any]]


def test_in_and_out_without_a_copy(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        x = Exporter(np.full((3, 4), comm.rank + 1, np.float32), FLOAT, offset=64)
        out = Exporter(np.full((3, 4), np.nan, np.float32), FLOAT)
        assert comm.allreduce(x, out=out) is out
        assert np.all(out.memory == 3)
        comm.allreduce(x, out=x)
        assert np.all(x.memory == 3)
        assert x.released == 3 and out.released == 1
        assert np.all(comm.allreduce(x) == 6)

    ranks(2, body)


def test_bfloat16(ranks: Ranks) -> None:
    one = np.array([0x3F80], np.uint16)  # 1.0

    def body(comm: sk.Comm) -> None:
        x = Exporter(one.copy(), BFLOAT)
        comm.allreduce(x, out=x)
        assert x.memory[0] == 0x4000  # 2.0

    ranks(2, body)


def test_strided_tensors(ranks: Ranks) -> None:
    data = np.arange(24, dtype=np.float32).reshape(4, 6)

    def body(comm: sk.Comm) -> None:
        assert np.array_equal(comm.allreduce(Exporter(data.T, FLOAT)), 2 * data.T)
        out = np.zeros((6, 8), np.float32)
        comm.allreduce(Exporter(data.T, FLOAT), out=Exporter(out[:, ::2], FLOAT))
        assert np.array_equal(out[:, ::2], 2 * data.T) and not out[:, 1::2].any()
        product = comm.allreduce_gemm(Exporter(data, FLOAT), Exporter(data.T, FLOAT))
        assert np.array_equal(product, 2 * data @ data.T)

    ranks(2, body)


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (
            Exporter(np.zeros(3, np.float32), FLOAT, device=(2, 0)),
            'x lies on device CUDA 0, .*or use a communicator made with device="cuda:0"',
        ),
        (Exporter(np.zeros(3, np.float32), FLOAT, device=(10, 1)), "x lies on device ROCm 1"),
        (Exporter(np.zeros(3, np.uint8), 1), "type code 1 with 8 bits"),
    ],
)
def test_what_cannot_be_read_is_refused(x: Exporter, sentence: str) -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="dlpack") as comm:
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            comm.allreduce(x)
        assert comm.allreduce(1) == 1


def test_results_feed_other_libraries(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        x = comm.empty((4, 5))
        x[:] = comm.rank
        assert np.from_dlpack(x).ctypes.data == x.ctypes.data
        assert np.all(np.from_dlpack(comm.allreduce(x)) == 1)

    ranks(2, body)


def test_torch(ranks: Ranks) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def body(comm: sk.Comm) -> None:
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
            x = torch.full((3, 5), comm.rank + 1, dtype=dtype)
            got = comm.allreduce(x)
            assert isinstance(got, torch.Tensor) and got.dtype == dtype
            assert torch.all(got == 3)
            comm.allreduce(x, out=x)
            assert torch.all(x == 3)
        with pytest.raises(sk.InvalidArgumentError, match="gradient"):
            comm.allreduce(torch.ones(3, requires_grad=True))
        comm.barrier()

    ranks(2, body)


def test_jax(ranks: Ranks) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax.config.update("jax_platforms", "cpu")

    def body(comm: sk.Comm) -> None:
        x = jax.numpy.full((3, 5), comm.rank + 1.0)
        assert np.all(comm.allreduce(x) == 3)
        with pytest.raises(sk.InvalidArgumentError, match="read-only"):
            comm.allreduce(x, out=x)

    ranks(2, body)
