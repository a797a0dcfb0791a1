"""Each wrong argument gives its class, its code and a sentence, and leaves the object usable."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from conftest import run_ranks

F32 = np.zeros(6, np.float32)
MATRIX = np.zeros((4, 3), np.float32)


def read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


CASES: list[tuple[str, Callable[[sk.Comm], Any], str]] = [
    ("string", lambda c: c.allreduce("abc"), "x is a str"),
    ("none", lambda c: c.allreduce(None), "x is None"),
    ("object", lambda c: c.allreduce(np.array([object()])), "x is a|x has dtype object"),
    ("bool", lambda c: c.allreduce(F32 > 0), "x has dtype bool; allowed is f32"),
    ("uint16", lambda c: c.allreduce(np.zeros(3, np.uint16)), 'say dtype="bf16"'),
    ("complex", lambda c: c.allreduce(np.zeros(3, complex)), "x has dtype complex128"),
    ("byte order", lambda c: c.allreduce(np.zeros(3, ">f4")), "foreign byte order"),
    ("op", lambda c: c.allreduce(F32, "mean"), "op is 'mean'; allowed is"),
    ("op number", lambda c: c.allreduce(F32, 1), "op is 1; allowed is"),  # type: ignore[arg-type]
    ("avg of integers", lambda c: c.allreduce(np.zeros(3, np.int32), "avg"), "avg|AVG"),
    ("dtype", lambda c: c.allreduce(F32, dtype="f64"), "x has dtype float32, but dtype says f64"),
    ("dtype name", lambda c: c.allreduce(F32, dtype="u8"), "dtype is 'u8'; allowed is|dtype has"),
    ("out dtype", lambda c: c.allreduce(F32, out=np.zeros(6)), "out has dtype f64"),
    ("out shape", lambda c: c.allreduce(F32, out=F32[:5].copy()), r"out has shape \(5,\)"),
    ("out list", lambda c: c.allreduce(F32, out=[0.0] * 6), "out is a list"),
    ("out number", lambda c: c.allreduce(F32, out=7), "out is an int; give an array"),
    ("out read-only", lambda c: c.allreduce(F32, out=read_only(F32)), "out is read-only"),
    ("gather out", lambda c: c.allgather(F32, out=F32), r"must have \(2, 6\)"),
    ("scatter", lambda c: c.reduce_scatter(F32[:5]), "multiple of the 2 ranks"),
    ("scatter number", lambda c: c.reduce_scatter(1.0), "multiple of the 2 ranks"),
    ("root", lambda c: c.broadcast(F32, 2), "root"),
    ("root type", lambda c: c.broadcast(F32, "0"), "root is '0'"),  # type: ignore[arg-type]
    ("root negative", lambda c: c.broadcast(F32, -1), "root"),
    ("peer self", lambda c: c.send(F32, c.rank), "peer"),
    ("peer range", lambda c: c.recv(F32.copy(), 7), "peer"),
    ("peer missing", lambda c: c.recv(F32.copy()), "peer is missing"),
    ("recv nothing", lambda c: c.recv(peer=1 - c.rank), "either out, or both shape and dtype"),
    ("recv both", lambda c: c.recv(F32, 1 - c.rank, shape=6), "not both"),
    ("recv shape", lambda c: c.recv(peer=1 - c.rank, shape=(-1,), dtype="f32"), "shape is"),
    ("timeout", lambda c: c.barrier(timeout=-1), "timeout is -1"),
    ("timeout type", lambda c: c.barrier(timeout="1"), "timeout is '1'"),  # type: ignore[arg-type]
    ("gemm shapes", lambda c: c.allreduce_gemm(MATRIX, MATRIX), "a is 4 x 3 and b is 4 x 3"),
    ("gemm vector", lambda c: c.allreduce_gemm(MATRIX, F32), "b has shape"),
    ("gemm types", lambda c: c.allreduce_gemm(MATRIX, MATRIX.T.astype(float)), "give one type"),
    (
        "gemm integers",
        lambda c: c.allreduce_gemm(*[MATRIX[:3].astype("i4")] * 2),
        "a is i32, it must",
    ),
    ("gemm out", lambda c: c.allreduce_gemm(MATRIX, MATRIX.T, MATRIX), r"must have \(4, 4\)"),
    (
        "gemm out type",
        lambda c: c.allreduce_gemm(MATRIX, MATRIX.T, out_dtype="f16"),
        "out_dtype is f16",
    ),
    ("pack vector", lambda c: c.pack(F32), "b has shape"),
    ("pack type", lambda c: c.pack(MATRIX.astype("i8")), "b is i64, it must be f32, f64, bf16 or"),
    ("empty nothing", lambda c: c.empty((0, 3)), "at least one element"),
    ("empty type", lambda c: c.empty(3, "u8"), "allowed is"),
    ("free other", lambda c: c.free(F32), "this communicator's empty"),
    (
        "plan type of a barrier",
        lambda c: c.plan("barrier", dtype="f32"),
        "dtype is given, and a plan of barrier has none",
    ),
    (
        "plan result of a barrier",
        lambda c: c.plan("barrier", out_dtype="f32"),
        "out_dtype is given",
    ),
    (
        "plan flag of a barrier",
        lambda c: c.plan("barrier", symmetric_in=True),
        "symmetric_in is given",
    ),
    (
        "plan op",
        lambda c: c.plan("allgather", count=4, op="max"),
        "op is given, and a plan of allgather has none",
    ),
    (
        "plan op of a product",
        lambda c: c.plan("allreduce_gemm", m=1, n=1, k=1, op="max"),
        "op is given",
    ),
    ("plan root", lambda c: c.plan("allreduce", count=4, root=1), "root is given"),
    ("plan peer", lambda c: c.plan("broadcast", count=4, peer=1), "peer is given"),
    ("plan extents", lambda c: c.plan("allreduce", count=4, k=1), "k is given"),
    (
        "plan count of a product",
        lambda c: c.plan("allreduce_gemm", m=1, n=1, k=1, count=4),
        "count is given",
    ),
    ("plan in place", lambda c: c.plan("broadcast", count=4, in_place=True), "in_place is given"),
    ("plan kind", lambda c: c.plan("scan"), "kind is 'scan'; allowed is barrier"),
    ("plan count", lambda c: c.plan("allreduce", count=-1), "count"),
    ("plan text", lambda c: sk.check_plan("no plan"), "line 1, column 1: expected"),
    ("plan type", lambda c: c.plan("allreduce", count=4).run(F32[:4].astype(float)), "plan is for"),
]


@pytest.fixture(scope="module")
def pair() -> Iterator[sk.Comm]:
    """Rank 0 of two, so that a call that got through would wait for the other rank."""
    comms: list[sk.Comm] = []

    def make(rank: int) -> None:
        config = {"bootstrap": "threads", "world_size": 2, "name": "bad input", "timeout": 20.0}
        comms.append(sk.Comm(rank=rank, **config))

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    first, second = sorted(comms, key=lambda comm: comm.rank)
    yield first
    done = threading.Thread(target=second.barrier)
    done.start()
    first.barrier()  # Usable after everything that was refused.
    done.join(30)
    assert not done.is_alive()


@pytest.mark.parametrize(
    ("call", "sentence"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_wrong_argument(pair: sk.Comm, call: Callable[[sk.Comm], Any], sentence: str) -> None:
    before = pair.info()["calls"]
    with pytest.raises(sk.Error, match=sentence) as caught:
        call(pair)
    assert caught.value.code in (10, 11, 12)
    assert caught.value.name.startswith("SK_ERR_")
    assert len(str(caught.value)) > 15
    assert pair.info()["calls"] == before


def test_overlap_is_refused(pair: sk.Comm) -> None:
    memory = np.zeros(8, np.float32)
    with pytest.raises(sk.InvalidArgumentError, match="overlap"):
        pair.allreduce(memory[:6], out=memory[1:7])


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"bootstrap": "mpi"}, "bootstrap is 'mpi'"),
        ({"bootstrap": "threads"}, "needs rank and world_size"),
        ({"rank": 0, "world_size": 1}, "come from the environment"),
        ({"bootstrap": "threads", "rank": 2, "world_size": 2}, "rank"),
        ({"bootstrap": "threads", "rank": 0, "world_size": 0}, "world_size"),
        ({"bootstrap": "threads", "rank": 0, "world_size": 1, "workers": -1}, "workers"),
        ({"bootstrap": "threads", "rank": 0, "world_size": 1, "timeout": 0}, "timeout is 0"),
    ],
)
def test_a_wrong_communicator(config: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sk.InvalidArgumentError, match=sentence):
        sk.Comm(**config)


def test_env_without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(sk.InvalidArgumentError, match="WORLD_SIZE is not set"):
        sk.Comm(bootstrap="env")


def test_ranks_that_never_come_are_named() -> None:
    with pytest.raises(sk.TimeoutError, match="1"):
        sk.Comm(bootstrap="threads", rank=0, world_size=2, name="nobody", timeout=0.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda comm: comm.barrier(),
        lambda comm: comm.allreduce(F32),
        lambda comm: comm.empty(4),
        lambda comm: comm.pack(MATRIX),
        lambda comm: comm.plan("barrier"),
        lambda comm: comm.info(),
        lambda comm: comm.abort(),
    ],
)
def test_after_free(call: Callable[[sk.Comm], Any]) -> None:
    comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="freed")
    comm.free()
    with pytest.raises(sk.BadHandleError, match="this communicator was freed"):
        call(comm)
    comm.free()  # Again is fine, as for files.


def test_a_plan_of_a_freed_communicator() -> None:
    comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="freed plan")
    plan = comm.plan("barrier")
    comm.free()
    with pytest.raises(sk.BadHandleError):
        plan.run()


def test_arrays_outlive_their_communicator() -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="outlived") as comm:
        x = comm.empty(1_000_000)
    x[:] = 7
    assert x.sum() == 7_000_000


def test_memory_in_use_is_not_given_back() -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="in use") as comm:
        x = comm.empty((4, 4))
        row = x[1]
        with pytest.raises(sk.BusyError, match="1 other array"):
            comm.free(x)
        row[:] = 5
        del row
        comm.free(x)
        assert x.size == 0
        with pytest.raises(sk.InvalidArgumentError):
            comm.free(x)


def test_different_calls_name_both() -> None:
    def body(comm: sk.Comm) -> str:
        with pytest.raises(sk.DesyncError) as caught:
            if comm.rank == 0:
                comm.allreduce(F32, "sum")
            else:
                comm.allreduce(F32, "max")
        comm.barrier()  # Usable afterwards.
        return str(caught.value)

    for sentence in run_ranks(2, body):
        assert isinstance(sentence, str), sentence
        assert "sum" in sentence and "max" in sentence


def test_sends_to_each_other_are_told_apart() -> None:
    """As the docstring of send() has it: DesyncError at once, and the communicator usable."""

    def body(comm: sk.Comm) -> str:
        with pytest.raises(sk.DesyncError) as caught:
            comm.send(F32, 1 - comm.rank)
        comm.barrier()
        return str(caught.value)

    for sentence in run_ranks(2, body):
        assert "0 to 1" in sentence and "1 to 0" in sentence


def test_a_ring_that_sends_first_ends() -> None:
    """The other half of that docstring: nobody waits for ever."""

    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.TimeoutError):
            comm.send(F32, (comm.rank + 1) % 3, timeout=0.3)

    assert run_ranks(3, body) == [None] * 3


def test_a_peer_that_leaves_is_named() -> None:
    def body(comm: sk.Comm) -> int | None:
        if comm.rank == 1:
            return None
        with pytest.raises(sk.PeerLostError) as caught:
            for _ in range(3):
                comm.barrier()
        return caught.value.rank

    assert run_ranks(2, body)[0] == 1


def test_abort_reaches_a_waiting_peer() -> None:
    arrived = threading.Event()

    def body(comm: sk.Comm) -> tuple[int | None, str]:
        with pytest.raises(sk.AbortedError) as caught:
            if comm.rank == 1:
                arrived.wait(30)
                comm.abort("out of data")
            else:
                arrived.set()
            comm.barrier()
        return caught.value.rank, str(caught.value)

    results = run_ranks(2, body)
    assert results[0][0] == 1 and "out of data" in results[0][1]


def test_a_timeout_names_the_rank_waited_for() -> None:
    late = threading.Event()

    def body(comm: sk.Comm) -> int | None:
        if comm.rank == 1:
            assert late.wait(30)
            return None
        try:
            with pytest.raises(sk.TimeoutError) as caught:
                comm.barrier(timeout=0.2)
        finally:
            late.set()
        return caught.value.rank

    assert run_ranks(2, body)[0] == 1


def test_a_forked_child() -> None:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="fork") as comm:
        child = os.fork()
        if child == 0:
            try:
                comm.barrier()
            except sk.ForkedError as error:
                os._exit(0 if "fork" in str(error) else 2)
            except BaseException:  # noqa: BLE001 - the exit status is all that a child can say.
                os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        comm.barrier()


def test_errors_have_classes_of_python_too() -> None:
    assert issubclass(sk.InvalidArgumentError, ValueError)
    assert issubclass(sk.TimeoutError, TimeoutError)
    error = sk.PeerLostError("rank 3 died", 20, "SK_ERR_PEER_LOST")
    error.rank = 5  # As what was raised may say more than its text.
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), other.code, other.rank) == (sk.PeerLostError, 20, 5)


def test_what_is_of_this_process_says_so() -> None:
    class Own(sk.Comm):
        pass

    with Own(bootstrap="threads", rank=0, world_size=1, name="here") as comm:
        tile = sk.tile(
            print,
            name="here",
            reads={"x": ("f32", "m, n")},
            writes={"y": ("x", "m, n")},
            effect="y[i, j] = f(x[i, j])",
        )
        named = {
            "Comm": comm,
            "Plan": comm.plan("allreduce", count=3),
            "Packed": comm.pack(np.ones((2, 2))),
            "Prepared": comm.prepare("barrier"),
            "Trace": comm.trace(),
            "Context": sk.Context(),
            "Tile": tile,
            "DeviceArray": object.__new__(sk.DeviceArray),
        }
        for name, each in named.items():
            for call in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"^a libsk.{name} can be neither pickled nor"):
                    call(each)
        tile.close()


@pytest.mark.parametrize(
    ("kind", "code", "sentence", "rank"),
    [
        (sk.AbortedError, 21, "rank 1 has aborted: gave up waiting for rank 5", 1),
        (sk.TimeoutError, 30, "rank 0 waited 0.2 s for rank 1 in barrier()", 1),
        (sk.TimeoutError, 30, "rank 2 gave up: rank 2 waited 0.2 s for ranks 3, 4 in barrier()", 3),
        (sk.TimeoutError, 30, "rank 0 waited 1.0 s in barrier(): rank 3 is inside the driver", 3),
        (sk.TimeoutError, 30, "rank 0 was not connected to rank 2 in time", 2),
        (sk.PeerLostError, 20, "rank 3 died (process 7)", 3),
        (sk.InvalidArgumentError, 10, "rank 3 is no rank", None),
    ],
)
def test_the_rank_to_blame(kind: Any, code: int, sentence: str, rank: int | None) -> None:
    assert kind(sentence, code).rank == rank


@pytest.mark.parametrize("level", ["loud", "", 1, 0])
def test_a_wrong_log_level(level: Any) -> None:
    with pytest.raises(sk.InvalidArgumentError, match="log_level"):
        sk.Context(log_level=level)
