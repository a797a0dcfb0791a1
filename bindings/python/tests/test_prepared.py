"""Calls that are kept ready."""

from __future__ import annotations

import gc
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk._collectives import METHODS

Ranks = Callable[..., list[Any]]
OTHER = np.ones((6, 4), np.float32).T
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "allreduce": ("max",),
    "allgather": (),
    "reduce_scatter": ("sum",),
    "broadcast": (1,),
    "alltoall": (),
}


def matrix(comm: sk.Comm, step: int) -> np.ndarray:
    return np.arange(24, dtype=np.float32).reshape(4, 6) + 100 * comm.rank + step


def test_each_run_takes_what_is_there(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        x = matrix(comm, 0)
        weights = np.arange(18, dtype=np.float32).reshape(6, 3)
        packed = comm.pack(weights)
        calls = {
            **{name: (x, *rest) for name, rest in ARGUMENTS.items()},
            "allreduce_gemm": (x, packed),
            "allgather_gemm": (x, weights),
        }
        for name, arguments in calls.items():
            with comm.prepare(name, *arguments) as made:
                results = []
                for step in range(3):
                    x[...] = matrix(comm, step)
                    want = getattr(comm, name)(*arguments)
                    results.append(made.run() if step else made.run(timeout=20.0))
                    assert np.array_equal(results[-1], want), name
                assert all(each is results[0] for each in results)

    ranks(2, body)


def test_in_place_messages_and_meetings(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        x = np.full(5, 1.0 + comm.rank)
        step = comm.prepare("allreduce", x, out=x)
        assert step.run() is x and x.tolist() == [3.0] * 5
        step.run()
        assert x.tolist() == [6.0] * 5
        meet = comm.prepare("barrier")
        assert meet.run() is None and "barrier" in repr(meet)
        if comm.rank == 0:
            give = comm.prepare("send", x, 1)
            for value in (7.0, 8.0):
                x[...] = value
                give.run()
        else:
            take = comm.prepare("recv", peer=0, shape=5, dtype="f64")
            assert [take.run().tolist() for _ in range(2)] == [[7.0] * 5, [8.0] * 5]
        meet.run()

    ranks(2, body)


def test_the_tests_above_have_all_of_them() -> None:
    elsewhere = {"reduce", "gather", "scatter"}  # test_rooted.py has these.
    seen = elsewhere | {*ARGUMENTS, "allreduce_gemm", "allgather_gemm", "barrier", "send", "recv"}
    assert set(METHODS) == seen


@pytest.fixture
def alone() -> Any:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="prepared") as comm:
        yield comm


def test_arrays_stay_while_it_does(alone: sk.Comm) -> None:
    class Mine(np.ndarray):
        pass

    x = np.ones(4).view(Mine)
    seen = weakref.ref(x)
    made = alone.prepare("allreduce", x)
    del x
    gc.collect()
    assert seen() is not None and made.run().tolist() == [1.0] * 4
    made.close()
    made.close()
    gc.collect()
    assert seen() is None
    with pytest.raises(sk.BadHandleError, match="it was closed"):
        made.run()


class Copies:
    """An exporter that hands out a copy each time; ``says``: with DLPack's flag for that."""

    def __init__(self, array: np.ndarray, says: bool) -> None:
        self._array, self._says = array, says

    def __dlpack__(self, *, max_version: Any = None, **more: Any) -> Any:
        if self._says:
            return self._array.__dlpack__(max_version=max_version, copy=True)
        return self._array.copy().__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Shares(Copies):
    def __dlpack__(self, **more: Any) -> Any:
        return self._array.__dlpack__(**more)


@pytest.mark.parametrize("says", [False, True])
def test_an_exporter_of_copies_is_refused(alone: sk.Comm, says: bool) -> None:
    """Else each run would take what was there when the call was prepared."""
    x = np.ones(4, np.float32)
    copies = Copies(x, says)
    assert alone.allreduce(copies).tolist() == [1.0] * 4
    for what, arguments, more in (
        ("x", ("allreduce", copies), {}),
        ("a", ("allreduce_gemm", Copies(np.ones((2, 2)), says), np.ones((2, 2))), {}),
        ("out", ("allreduce", x), {"out": copies}),
    ):
        with pytest.raises(sk.InvalidArgumentError, match=f"^{what} exports a copy of itself"):
            alone.prepare(*arguments, **more)
    shares = Shares(x, says)
    step = alone.prepare("allreduce", shares, out=shares)
    x[:] = 5
    assert step.run() is shares and x.tolist() == [5.0] * 4
    assert alone.prepare("allreduce", Copies(np.ones(0), False)).run().size == 0


@pytest.mark.parametrize("out", [np.zeros(4), None])
def test_a_result_that_was_made_read_only_is_refused(alone: sk.Comm, out: Any) -> None:
    x = np.ones(4)
    step = alone.prepare("allreduce", x, out=out)
    result = step.run()
    x[:] = 7
    result.flags.writeable = False
    before = alone.info()["calls"]
    with pytest.raises(sk.InvalidArgumentError, match="out is read-only; give an array that can"):
        step.run()
    assert result.tolist() == [1.0] * 4 and alone.info()["calls"] == before
    result.flags.writeable = True
    assert step.run() is result and result.tolist() == [7.0] * 4


def test_a_number_is_that_of_its_run(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        if comm.rank == 0:
            for value in (3.0, 4.0):
                comm.send(np.array(value), 1)
        else:
            take = comm.prepare("recv", peer=0, shape=(), dtype="f64")
            assert [take.run(), take.run()] == [3.0, 4.0]

    ranks(2, body)


def test_torch_hears_of_each_write(alone: sk.Comm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those of runs, and of no other."""
    versions: dict[int, int] = {}

    class Tensor(Shares):
        def is_neg(self) -> bool:
            return False

        is_conj = is_inference = is_neg
        requires_grad = False

    class Sub(Tensor):
        """Asked by ``__dlpack__``, as tensors of other classes are."""

    def count(tensor: Tensor) -> None:
        versions[id(tensor)] = versions.get(id(tensor), 0) + 1

    torch: Any = types.ModuleType("torch")
    torch.Tensor = Tensor
    torch.autograd = types.SimpleNamespace(graph=types.SimpleNamespace(increment_version=count))
    monkeypatch.setitem(sys.modules, "torch", torch)
    x = Sub(np.ones(4), False)
    step = alone.prepare("allreduce", x, out=x)
    assert not versions
    for runs in range(1, 4):
        step.run()
        assert versions == {id(x): runs}
    alone.allreduce(x, out=x)
    assert versions == {id(x): 4}


def test_an_idle_one_is_closed_beside_another_run(ranks: Ranks) -> None:
    entered = threading.Event()

    def body(comm: sk.Comm) -> None:
        x = np.ones(4)
        if comm.rank == 1:
            assert entered.wait(30)
            comm.allreduce(x, out=x)
            return
        busy, idle = (comm.prepare("allreduce", x, out=x) for _ in range(2))
        thread = threading.Thread(target=busy.run)
        thread.start()
        try:
            with pytest.raises(sk.BusyError):  # Once it is inside.
                for _ in range(1000):
                    comm.info()
                    time.sleep(0.01)  # tidy: allow sleep: a bounded poll, of what only a call shows
            with idle:
                pass
            with pytest.raises(sk.BadHandleError, match="it was closed"):
                idle.run()
            with pytest.raises(sk.BusyError, match=r"inside prepared.run\(\) of it"):
                busy.close()
        finally:
            entered.set()
            thread.join(30)
        assert x.tolist() == [2.0] * 4
        busy.close()

    ranks(2, body)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda c: c.prepare("pack", OTHER), "operation is 'pack'; allowed is barrier, allreduce"),
        (lambda c: c.prepare("free"), "operation is 'free'"),
        (lambda c: c.prepare("allreduce", OTHER), "x is not row-major"),
        (lambda c: c.prepare("allreduce", [1.0]), r"x is \[1.0\]; a call kept ready takes arrays"),
        (lambda c: c.prepare("allreduce", OTHER.copy(), out=OTHER), "out is not row-major"),
        (lambda c: c.prepare("allreduce", np.ones(3), timeout=1), "timeout is given to prepare"),
        (lambda c: c.prepare("allreduce", np.ones(3), stream=None), "stream is given to prepare"),
        (lambda c: c.prepare("allreduce", np.ones(3, np.int32), "avg"), "averages|AVG"),
        (lambda c: c.prepare("broadcast", np.ones(3), 1), "root is 1, it must be 0 to 0"),
        (lambda c: c.prepare("allreduce_gemm", np.ones((2, 3)), np.ones((2, 3))), "same number"),
    ],
)
def test_what_is_refused(alone: sk.Comm, call: Callable[..., Any], sentence: str) -> None:
    before = alone.info()["calls"]
    with pytest.raises(sk.InvalidArgumentError, match=sentence):
        call(alone)
    assert alone.info()["calls"] == before


def test_behind_the_communicator() -> None:
    comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="behind")
    made, plan = comm.prepare("barrier"), comm.plan("allreduce", count=3)
    comm.free()
    with pytest.raises(sk.BadHandleError, match="its communicator was freed"):
        made.run()
    made.close()
    with pytest.raises(sk.BadHandleError):
        comm.parse_plan(plan.dump())
    with pytest.raises(sk.BadHandleError):
        comm.prepare("barrier")
