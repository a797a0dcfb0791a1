"""Calls while another thread imports a package that libsk looks for: it lies in ``sys.modules``
then, and lacks what it will have."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import FLOAT, Exporter
from fake_gpu import FakeGpus
from libsk import _dtypes

Ranks = Callable[..., list[Any]]


class Tensor:
    """Of which nobody has one yet."""


def stage(**attributes: Any) -> ModuleType:
    """What a thread has made of torch by now."""
    torch = ModuleType("torch")
    vars(torch).update(attributes)
    return torch


STAGES = {
    "nothing": {},
    "tensors": {"Tensor": Tensor},
    "parameters": {
        "Tensor": Tensor,
        "nn": stage(Parameter=Tensor),
        "cuda": stage(),
        "autograd": stage(),
    },
}


@pytest.fixture(params=STAGES)
def _half_torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", stage(**STAGES[request.param]))


def exported(*shape: int) -> Exporter:
    """Another library's array."""
    return Exporter(np.ones(shape, np.float32), FLOAT)


LOCAL: dict[str, Callable[[], Any]] = {
    "strided": lambda: sk.rmsnorm(np.ones((4, 8), np.float32)[:, ::2]),
    "of lists": lambda: sk.rmsnorm([[1.0, 2.0]]),
    "exported": lambda: sk.rmsnorm(exported(4, 8)),
    "into another's": lambda: sk.rmsnorm(np.ones((4, 8), np.float32), out=exported(4, 8)),
}


@pytest.mark.parametrize("call", LOCAL)
@pytest.mark.usefixtures("_half_torch")
def test_local_operations(call: str) -> None:
    assert LOCAL[call]() is not None


@pytest.mark.usefixtures("_half_torch")
def test_lists() -> None:
    arrays = [[np.ones(3, np.float32)] for _ in range(4)]
    sk.adamw(*arrays, lr=0.1, step=1)
    others = [[exported(3)] for _ in range(4)]
    sk.adamw(*others, lr=0.1, step=1)
    assert arrays[0][0][0] < 1
    np.testing.assert_array_equal(others[0][0].memory, arrays[0][0])


@pytest.mark.usefixtures("_half_torch")
def test_communicators(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        out = exported(4)
        assert comm.allreduce(exported(4), out=out) is out
        np.testing.assert_array_equal(out.memory, np.full(4, 2, np.float32))
        with comm.prepare("allreduce", exported(4), out=out) as kept:
            kept.run()
        comm.allgather([1.0, 2.0])

    ranks(2, body)


@pytest.mark.usefixtures("_half_torch")
def test_gpus(gpu_ranks: Ranks, gpus: FakeGpus) -> None:
    def body(comm: sk.Comm) -> None:
        x, out = gpus.array(np.ones(4, np.float32)), gpus.empty((4,), np.float32)
        comm.barrier()
        comm.allreduce(x, out=out)
        comm.synchronize()
        np.testing.assert_array_equal(out.memory.view(np.float32), np.full(4, 2, np.float32))

    gpu_ranks(2, body)


def test_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy.ma", ModuleType("numpy.ma"))
    x = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(sk.rmsnorm(x.view(np.recarray)), sk.rmsnorm(x))


def test_bfloat16(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its type is asked for where the package is being imported: that is waited for."""
    begun, may_end = threading.Event(), threading.Event()
    source = "import half_gate\nhalf_gate.begun.set()\nhalf_gate.may_end.wait(30)\n"
    (tmp_path / "ml_dtypes.py").write_text(f"{source}bfloat16 = 'i2'\n")
    monkeypatch.setitem(sys.modules, "half_gate", stage(begun=begun, may_end=may_end))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # For what is put back in the end.
    assert _dtypes.to_numpy(_dtypes.BF16) == np.uint16
    del sys.modules["ml_dtypes"]
    monkeypatch.syspath_prepend(tmp_path)
    importing = threading.Thread(target=__import__, args=("ml_dtypes",))
    importing.start()
    assert begun.wait(30)
    ending = threading.Timer(0.2, may_end.set)
    ending.start()
    assert _dtypes.to_numpy(_dtypes.BF16) == np.int16
    importing.join()
    ending.join()
