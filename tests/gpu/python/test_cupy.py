"""Arrays of CuPy, where it is."""

from __future__ import annotations

import cupy
import libsk as sk
import pytest
from conftest import DEVICE, Ranks

pytestmark = pytest.mark.gpu


def test_arrays_of_cupy(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        gpu = cupy.cuda.Device(int(DEVICE.partition(":")[2] or 0))
        with gpu, cupy.cuda.Stream(non_blocking=True) as stream:
            x = cupy.arange(5000, dtype=cupy.float32) + comm.rank
            out = cupy.full(5000, cupy.nan, dtype=cupy.float32)
            assert comm.allreduce(x, out=out, stream=stream) is out
            total = out.get(stream=stream)
            stream.synchronize()
            assert (total == 2 * cupy.arange(5000).get() + 1).all()
            symmetric = comm.empty((5000,), "f32")
            view = cupy.asarray(symmetric)
            view[...] = x
            comm.allreduce(symmetric, out=symmetric, stream=stream)
            assert (view.get(stream=stream) == total).all()
            with pytest.raises(sk.Error, match="out"):
                comm.allreduce(x, stream=stream)
            comm.synchronize()
            del view

    ranks(2, body)
