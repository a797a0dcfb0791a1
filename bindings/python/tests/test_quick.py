"""The short way of calls on plain arrays gives what the long way gives, or leaves it to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _collectives

Ranks = Callable[..., list[Any]]
WORLD = 2
LONG = {"timeout": 25.0}
"""Arguments that go the long way."""


class Sub(np.ndarray):
    """A class of its own."""


class Name(str):
    """A text of a class of its own."""

    __slots__ = ()


def unaligned(x: np.ndarray) -> np.ndarray:
    made = np.frombuffer(bytearray(x.nbytes + 1), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def read_only(x: np.ndarray) -> np.ndarray:
    made = np.array(x)
    made.flags.writeable = False
    return made


PLAIN = {
    "itself": lambda x: x,
    "f32": lambda x: x.astype(np.float32),
    "f16": lambda x: x.astype(np.float16),
    "i32": lambda x: x.astype(np.int32),
    "i64": lambda x: x.astype(np.int64),
    "longlong": lambda x: x.astype(np.longlong),
    "read-only": read_only,
}
OTHER = {
    "by columns": lambda x: np.asfortranarray(x),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: x[::-1],
    "of another order": lambda x: x.astype(">f8"),
    "unaligned": unaligned,
    "a class": lambda x: x.view(Sub),
    "i16": lambda x: x.astype(np.int16),
    "u16": lambda x: x.astype(np.uint16),
    "bool": lambda x: x.astype(bool),
    "complex": lambda x: x.astype(complex),
    "objects": lambda x: x.astype(object),
    "a list": lambda x: x.tolist(),
    "masked": lambda x: np.ma.masked_array(x),
    "records": lambda x: np.zeros(x.shape, [("a", "f8")]),
    "a memoryview": memoryview,
    "nothing": lambda x: None,
}
KINDS = {**PLAIN, **OTHER}
SHAPES: list[tuple[int, ...]] = [(), (1,), (6,), (4, 3), (2, 1, 5), (0,), (4, 0)]

CALLS: dict[str, tuple[Any, ...]] = {
    "allreduce": ("sum",),
    "allgather": (),
    "reduce_scatter": ("max",),
    "broadcast": (1,),
}


def kept(outcome: Any) -> Any:
    if isinstance(outcome, np.ndarray | np.generic):
        held = outcome.tolist() if outcome.dtype == object else outcome.tobytes()
        return type(outcome), outcome.dtype.str, outcome.shape, held
    return outcome


def tried(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    try:
        return kept(call(*arguments, **more))
    except sk.Error as error:
        return type(error), str(error)


def result_of(name: str, x: np.ndarray) -> np.ndarray:
    if name == "allgather":
        return np.full((WORLD, *x.shape), 7, x.dtype)
    if name == "reduce_scatter" and x.shape:
        return np.full((x.shape[0] // WORLD, *x.shape[1:]), 7, x.dtype)
    return np.full(x.shape, 7, x.dtype)


def quick_of(comm: sk.Comm, name: str, x: Any, out: Any) -> Any:
    """What the short way alone makes of it."""
    value = CALLS[name][0] if CALLS[name] else None
    return getattr(_collectives, f"_{name}").core.run(comm._handle, x, out, value)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs(ranks: Ranks, name: str, kind: str) -> None:
    def body(comm: sk.Comm) -> None:
        for shape in SHAPES:
            if shape == () and kind in ("backwards", "every second"):
                continue
            made = (np.arange(np.prod(shape)).reshape(shape) + comm.rank + 1).astype(np.float64)
            x = KINDS[kind](made)
            call = getattr(comm, name)
            long = tried(call, x, *CALLS[name], **LONG)
            assert tried(call, x, *CALLS[name]) == long, shape
            if kind in PLAIN and shape != () and not isinstance(long[1], Exception):
                is_divided = name == "reduce_scatter" and shape[0] % WORLD
                quick = None if is_divided else quick_of(comm, name, x, None)
                assert (quick is None) == bool(is_divided)
                out = result_of(name, x) if not is_divided else None
                if out is not None:
                    assert kept(call(x, *CALLS[name], out=out)) == long
                    assert kept(out) == long

    ranks(WORLD, body)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", [*KINDS, "one too many", "flat", "another type"])
def test_outputs(ranks: Ranks, name: str, kind: str) -> None:
    def body(comm: sk.Comm) -> None:
        x = np.arange(12, dtype=np.float64).reshape(4, 3) + comm.rank
        plain = result_of(name, x)

        def outcome(**more: Any) -> Any:
            if kind == "one too many":
                out = np.zeros((*plain.shape, 1))
            elif kind == "flat":
                out = plain.reshape(-1)
            elif kind == "another type":
                out = plain.astype(np.int64)
            else:
                out = KINDS[kind](plain.copy())
            found = tried(getattr(comm, name), x, *CALLS[name], out=out, **more)
            return found, kept(out) if isinstance(out, np.ndarray) else None

        assert outcome() == outcome(**LONG)

    ranks(WORLD, body)


TEXTS = ["sum", "prod", "min", "max", "avg", "", "SUM", "sum\0", "\ud800", Name("max"), 1, None]
NUMBERS = [0, 1, 2, -1, True, 2**31, 2**32, 2**64, -(2**70), 1.0, "1", None, np.int64(1)]
VALUES = [
    *((name, text) for name in ("allreduce", "reduce_scatter") for text in TEXTS),
    *(("broadcast", number) for number in NUMBERS),
]


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_names_and_numbers(ranks: Ranks, name: str, value: Any) -> None:
    def body(comm: sk.Comm) -> None:
        x = np.arange(8, dtype=np.float64) + comm.rank
        call = getattr(comm, name)
        assert tried(call, x, value) == tried(call, x, value, **LONG)

    ranks(WORLD, body)


@pytest.mark.parametrize("kind", KINDS)
def test_messages(ranks: Ranks, kind: str) -> None:
    made = KINDS[kind](np.arange(12, dtype=np.float64).reshape(4, 3))
    if isinstance(made, np.ndarray) and kind != "masked" and made.dtype in (np.float64, np.float32):

        def body(comm: sk.Comm) -> None:
            for more in ({}, LONG):
                if comm.rank == 0:
                    comm.send(made, 1, **more)
                else:
                    into = np.full(made.shape, 7, made.dtype.newbyteorder("="))
                    assert comm.recv(into, 0, **more) is into
                    assert np.array_equal(into, made)

        ranks(WORLD, body)


def test_plans(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        plan = comm.plan("allreduce", dtype="f64", count=12)
        x = np.arange(12, dtype=np.float64) + comm.rank
        cases = {"f32": x.astype(np.float32), "short": x[:5], "matrix": x.reshape(3, 4), "plain": x}
        for what, given in cases.items():
            for out in (None, np.zeros(12), np.zeros(11), np.zeros((3, 4)), read_only(x)):

                def call(out: Any = out, given: Any = given, **more: Any) -> Any:
                    return plan.run(given, None if out is None else out.copy(), **more)

                assert tried(call) == tried(call, **LONG), what
        assert plan._handle.try_run(x, None) is not None

    ranks(WORLD, body)


def test_a_gpus_goes_the_long_way(gpu_ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        with pytest.raises(sk.InvalidArgumentError, match="lies in memory of the CPU"):
            comm.allreduce(np.ones(4), out=np.ones(4))

    gpu_ranks(1, body)
