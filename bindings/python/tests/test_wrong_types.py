"""Whatever is given for an argument of a public function is taken, or refused in a sentence.

The sentence names the argument, says what it was and what is allowed. The table below has every
argument of every public function; one that is added and not entered here fails a test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from fuzz_wrong import Hostile

X = np.ones((4, 4), np.float32)

TEXTS: list[Any] = ["", "abc", b"abc", "\0", "\udcff"]
NUMBERS: list[Any] = [-1, 2**31, 2**63, 2**80, 1.5, float("nan"), float("inf"), 1j]
OBJECTS: list[Any] = [None, object(), object, len, ..., Hostile(), [], [1], {}, {1}, (), X, X[0]]
ALL = [*TEXTS, *NUMBERS, *OBJECTS]


def without(*taken: Any) -> list[Any]:
    """All but these: the wrong ones."""
    return [value for value in ALL if not any(value is each for each in taken)]


# By argument: what is refused wherever it occurs; and what the sentence calls it.
STREAM = without(None)
TIMEOUT = [*TEXTS, -1, 0, 2**80, float("nan"), float("inf"), 1j, object(), len, ...]
TIMEOUT += [Hostile(), [], [1], X]
DTYPE = [*TEXTS, "u8", "float128", -1, 1.5, object(), len, ..., Hostile(), [1], {1}, X]
ROOT = ALL
OP = ALL
OUT = [*TEXTS, *NUMBERS, *without(None, X, *TEXTS, *NUMBERS), np.float32(1), X[0], X.astype(int)]
OPERAND = [*TEXTS, 1j, None, object(), object, len, ..., Hostile(), {}, {1}, X > 0, X.astype("u2")]
FLAG = [*TEXTS, -1, 2, 1.5, None, object(), len, ..., Hostile(), [], {}, X]
COUNT = [*TEXTS, -1, 2**63, 2**80, 1.5, 1j, None, object(), len, ..., Hostile(), [], [1], X]
SHAPE = ["", "abc", b"abc", -1, 2**63, 2**80, 1.5, 1j, object(), len, ..., Hostile(), {}, {1}, [-1]]
SHAPE += [[1.5], ["a"], (2**40, 2**40), [None]]
TEXT = [b"abc", "\0", "\udcff", *NUMBERS, *OBJECTS]


def _plan(comm: sk.Comm, **change: Any) -> sk.Plan:
    return comm.plan(**{"kind": "allreduce", "count": 16, **change})


def _product_plan(comm: sk.Comm) -> sk.Plan:
    return comm.plan("allreduce_gemm", m=4, n=4, k=4)


Call = Callable[..., Any]
# (function, argument): how it is called with it, values that are refused, its name in sentences.
TABLE: dict[tuple[str, str], tuple[Callable[[sk.Comm, Any], Any], list[Any], str]] = {}


def enter(function: str, call: Callable[..., Any], /, **arguments: Any) -> None:
    """``call(comm, **{argument: value})`` is the function with this one changed."""
    for argument, values in arguments.items():
        values, name = values if isinstance(values, tuple) else (values, argument)
        TABLE[function, argument] = (
            lambda comm, value, argument=argument: call(comm, **{argument: value}),
            values,
            name,
        )


CALL = {"dtype": DTYPE, "stream": STREAM, "timeout": TIMEOUT}
enter("Comm.barrier", lambda c, **a: c.barrier(**a), stream=STREAM, timeout=TIMEOUT)
enter("Comm.synchronize", lambda c, **a: c.synchronize(**a), stream=STREAM, timeout=TIMEOUT)
enter(
    "Comm.allreduce", lambda c, **a: c.allreduce(**{"x": X, **a}), x=OPERAND, op=OP, out=OUT, **CALL
)
enter("Comm.allgather", lambda c, **a: c.allgather(**{"x": X, **a}), x=OPERAND, out=OUT, **CALL)
enter(
    "Comm.reduce_scatter",
    lambda c, **a: c.reduce_scatter(**{"x": X, **a}),
    **{"x": OPERAND, "op": OP, "out": OUT, **CALL},
)
enter(
    "Comm.broadcast",
    lambda c, **a: c.broadcast(**{"x": X, **a}),
    **{"x": OPERAND, "root": ROOT, "out": OUT, **CALL},
)
enter("Comm.alltoall", lambda c, **a: c.alltoall(**{"x": X, **a}), x=OPERAND, out=OUT, **CALL)
for name in ("reduce", "gather", "scatter"):
    enter(
        f"Comm.{name}",
        lambda c, name=name, **a: getattr(c, name)(**{"x": X, **a}),
        **{"x": OPERAND, "root": ROOT, "out": OUT, **CALL},
        **({"op": OP} if name == "reduce" else {}),
    )
enter(
    "Comm.send",
    lambda c, **a: c.send(**{"x": X, "peer": 0, **a}),
    **{"x": OPERAND, "peer": ROOT, **CALL},
)
enter(
    "Comm.recv",
    lambda c, **a: c.recv(**{"out": X.copy(), "peer": 0, **a}),
    **{"out": [each for each in OUT if not isinstance(each, np.ndarray)], "peer": ROOT, **CALL},
)
enter("Comm.recv", lambda c, **a: c.recv(peer=0, dtype="f32", **a), shape=SHAPE)
enter(
    "Comm.pack",
    lambda c, **a: c.pack(**{"b": X, **a}),
    **{"b": [*OPERAND, 1.5, X[0]], "transpose": FLAG, "dtype": DTYPE},
)
for name in ("allreduce_gemm", "allgather_gemm"):
    enter(
        f"Comm.{name}",
        lambda c, name=name, **a: getattr(c, name)(**{"a": X, "b": X, **a}),
        **{"a": [*OPERAND, 1.5, X[0]], "b": [*OPERAND, 1.5, X[0]], "out": OUT},
        **{"transpose_a": FLAG, "transpose_b": FLAG, "out_dtype": DTYPE, **CALL},
    )
enter(
    "Comm.plan",
    lambda c, **a: _plan(c, **a),
    **{"kind": ALL, "dtype": DTYPE, "op": without(None), "out_dtype": DTYPE, "count": COUNT},
    **{"m": COUNT, "n": COUNT, "k": COUNT, "symmetric_in": FLAG, "symmetric_out": FLAG},
    **{"in_place": FLAG, "root": [*TEXTS, 2**31, 2**80, 1.5, None, object(), [], X]},
    **{"peer": [*TEXTS, 2**31, 2**80, 1.5, None, object(), [], X]},
)
enter(
    "Plan.run",
    lambda c, **a: _plan(c).run(**{"x": X, **a}),
    **{"x": OPERAND, "out": OUT, **CALL},
)
enter("Plan.run", lambda c, **a: _product_plan(c).run(X, **a), weights=ALL)
enter("Comm.parse_plan", lambda c, **a: c.parse_plan(**a), text=TEXT)
enter("Comm.prepare", lambda c, **a: c.prepare(**a), operation=ALL)
enter(
    "Comm.prepare",
    lambda c, **a: c.prepare("allreduce", *a.values()),
    arguments=([*OPERAND, 1.5, [1.0], X.T[1:]], "x"),
)
enter(
    "Comm.prepare",
    lambda c, **a: c.prepare("allreduce", X, out=a["given"]),
    given=([*OUT, np.zeros((8, 8), np.float32)[::2, ::2]], "out"),
)
enter("Prepared.run", lambda c, **a: c.prepare("allreduce", X).run(**a), timeout=TIMEOUT)
enter("Comm.trace", lambda c, **a: c.trace(**a), event_count_max=COUNT)
enter("Trace.save", lambda c, **a: c.trace().save(**a), path=[1, 1.5, None, [], {}, object(), X])
enter("Comm.empty", lambda c, **a: c.empty(**{"shape": 3, **a}), shape=[*SHAPE, 0, [0]])
enter("Comm.empty", lambda c, **a: c.empty(3, **a), dtype=[*DTYPE, None])
enter("Comm.shrink", lambda c, **a: c.shrink(**a).free(), timeout=TIMEOUT)
enter("Comm.abort", lambda c, **a: c.abort(**a), reason=TEXT)
enter("Comm.free", lambda c, **a: c.free(**a), array=without(None))
_CONFIG = {"bootstrap": "threads", "rank": 0, "world_size": 1, "name": "wrong types"}
enter(
    "Comm",
    lambda c, **a: sk.Comm(**{**_CONFIG, **a}),
    **{"rank": [*TEXTS, *NUMBERS, *OBJECTS], "world_size": [*TEXTS, -1, 0, 2**31, 1.5, *OBJECTS]},
    **{"bootstrap": ALL, "name": [each for each in TEXT if each is not None]},
    **{"device": [*without(None), "cuda:x", (2,), ("a", "b")]},
    **{"timeout": TIMEOUT, "workers": [*COUNT, 2**31], "put_only": FLAG},
    **{"symmetric_bytes_max": COUNT, "context": without(None)},
)
enter(
    "Context",
    lambda c, **a: sk.Context(**a),
    log_level=without(None),
    log=without(None, len, object),
)
enter("Topo.parse", lambda c, **a: sk.Topo.parse(**a), text=TEXT)
enter("Topo.synthetic", lambda c, **a: sk.Topo.synthetic(**a), spec=TEXT)
enter("check_plan", lambda c, **a: sk.check_plan(**a), text=TEXT)

_ROWS = np.ones((4, 4), np.float32)
_NO_ROWS = [*OPERAND, 1.5, X.astype(int)]
_NO_VECTOR = [each for each in [*OPERAND, 1.5, X] if each is not None]
enter(
    "rmsnorm",
    lambda c, **a: sk.rmsnorm(**{"x": _ROWS, **a}),
    **{"x": _NO_ROWS, "weight": _NO_VECTOR, "out": OUT, "return_rstd": FLAG, "dtype": DTYPE},
    **{"eps": [*TEXTS, -1, float("nan"), 1j, None, object(), len, ..., Hostile(), [], X]},
    context=without(None),
)
enter(
    "rmsnorm_backward",
    lambda c, **a: sk.rmsnorm_backward(**{"dy": _ROWS, "x": _ROWS, "rstd": _ROWS[0], **a}),
    **{"dy": _NO_ROWS, "x": _NO_ROWS, "rstd": [*OPERAND, X[0][:1]], "weight": _NO_VECTOR},
    **{"out": OUT, "return_dweight": FLAG, "dtype": DTYPE, "context": without(None)},
)

enter(
    "add_rmsnorm",
    lambda c, **a: sk.add_rmsnorm(**{"x": _ROWS, "residual": _ROWS, **a}),
    **{"x": _NO_ROWS, "residual": _NO_ROWS, "weight": _NO_VECTOR, "out": OUT, "out_total": OUT},
    **{"eps": [*TEXTS, -1, float("nan"), 1j, None, object(), len, ..., Hostile(), [], X]},
    **{"return_rstd": FLAG, "dtype": DTYPE, "context": without(None)},
)

_LISTS = {name: [_ROWS.copy()] for name in ("params", "grads", "ms", "vs")}
_NUMBER = [*TEXTS, -1, float("nan"), 1j, None, object(), len, ..., Hostile(), [], X]
enter(
    "adamw",
    lambda c, **a: sk.adamw(**{**_LISTS, "lr": 0.1, "step": 1, **a}),
    **dict.fromkeys(_LISTS, ALL),
    **dict.fromkeys(("lr", "eps", "weight_decay"), _NUMBER),
    **dict.fromkeys(("beta1", "beta2"), [*_NUMBER, 1, 1.5]),
    **{"step": [*_NUMBER, 0, 1.5, 2**63], "dtype": DTYPE, "context": without(None)},
)

_TILE = {"reads": {"x": ("f32", "m")}, "writes": {"y": ("x", "m")}, "effect": "y[i] = x[i]"}
_CALLABLE = (object, len)
enter(
    "tile",
    lambda c, **a: sk.tile(**{"function": print, "name": "wrong_types", **_TILE, **a}).close(),
    function=[*TEXTS, -1, 2**80, 1.5, 1j, *without(None, *TEXTS, *NUMBERS, *_CALLABLE)],
    **{
        "reads": ALL,
        "writes": ALL,
        "effect": without(None),
        "parameters": without(None, OBJECTS[8]),
    },
    **{"in_place": without(None, OBJECTS[8]), "name": without(None, "abc"), "over": without(None)},
    **{"tile_rows": [*COUNT, 2**80], "serial": without(None), "version": [*COUNT, 0, 2**16]},
    **{"summary": [*TEXT, b"abc"], "replace": FLAG, "context": without(None)},
)
enter(
    "Tile.check",
    lambda c, **a: sk.tile(print, name="tried", **_TILE).check(X[0], **a),
    timeout=[
        *TEXTS,
        -1,
        0,
        2**80,
        float("nan"),
        float("inf"),
        1j,
        object(),
        len,
        ...,
        Hostile(),
        [],
        X,
    ],
)

# Whose arguments are Python's own: what `with` and `pickle` give, and what users do not make.
_NOT_HERE = {
    *("Comm.__exit__", "Trace.__exit__", "Plan", "Packed", "Topo", "Trace", "DeviceArray"),
    "Prepared",
    *("Tile", "Tile.check"),  # Of the latter those of its operation: test_tile.py.
    *("comm", "DeviceArray.reshape"),  # **config of Comm; test_gpu_bad_input.py.
    *("Session", "Cell", "Result", "CellEvent", "CellTraceback", "Display", "Failure"),
}
_ELSEWHERE = ("Session.", "Cell.")  # test_session_wrong_types.py, test_session_faults.py.


def _public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sk.__all__:
        thing = getattr(sk, name)
        if not callable(thing):
            continue
        if not inspect.isclass(thing):
            yield name, thing
        elif not issubclass(thing, Exception):
            yield name, thing
            for method, found in inspect.getmembers(thing, callable):
                if not method.startswith("_"):
                    yield f"{name}.{method}", found


def test_the_table_is_whole() -> None:
    missing = [
        (name, argument)
        for name, function in _public()
        if name not in _NOT_HERE and not name.startswith(_ELSEWHERE)
        for argument in inspect.signature(function).parameters
        if argument not in ("self", "_cancel") and (name, argument) not in TABLE
    ]
    assert not missing


@pytest.fixture(scope="module")
def comm() -> Iterator[sk.Comm]:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="types") as made:
        yield made
        assert np.array_equal(made.allreduce(X), X)  # Usable after all that was refused.


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: ".".join(entry))
def test_a_wrong_type_gets_a_sentence(comm: sk.Comm, entry: tuple[str, str]) -> None:
    call, values, name = TABLE[entry]
    before = comm.info()["calls"]
    for value in values:
        try:
            result = call(comm, value)
        except sk.Error as error:
            sentence = str(error)
            assert name in sentence, f"{_shown(value)}: {sentence}"
            assert 15 < len(sentence) < 400, f"{_shown(value)}: {sentence}"
            assert error.code in (10, 11, 12), f"{_shown(value)}: {sentence}"
        except Exception as error:
            raise AssertionError(f"{_shown(value)}: {type(error).__name__}: {error}") from error
        else:
            raise AssertionError(f"{_shown(value)} was taken, and gave {type(result)}")
    assert comm.info()["calls"] == before


def _shown(value: Any) -> str:
    return "Hostile()" if isinstance(value, Hostile) else repr(value)
