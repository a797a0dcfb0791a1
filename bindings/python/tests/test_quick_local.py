"""The short way of operations of this process alone gives what the long way gives, or leaves the
call to that."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _core, _local, _ops
from libsk._context import default_context
from libsk._op_names import OPERATIONS
from libsk._schema_call import quick_way
from test_quick import KINDS, tried

SHAPES: list[tuple[int, ...]] = [(1,), (7,), (4, 3), (2, 3, 5), (0, 4), (4, 0), ()]


def function_of(name: str) -> Any:
    return getattr(_ops, f"_{name}")


def schema_of(name: str) -> dict[str, Any]:
    return _local.schemas()[name]


# Lists have a short way of their own.
QUICK = [
    name for name in OPERATIONS if not any(each.get("list") for each in schema_of(name)["operands"])
]


def arrays_of(name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> dict[str, np.ndarray]:
    """Inputs of an operation; those of one number for each row, and for each column, too."""
    random = np.random.default_rng()
    kinds = {"m, n": shape, "m": shape[:-1] or (1,), "n": shape[-1:]}
    return {
        each["name"]: random.standard_normal(kinds[each["shape"]]).astype(dtype)
        for each in schema_of(name)["operands"]
        if each["role"] == "in"
    }


def outputs_of(name: str, given: Any = None, asked: bool = False) -> tuple[Any, ...]:
    schema = schema_of(name)
    outputs = [each for each in schema["operands"] if each["role"] == "out"]
    return tuple(asked if each.get("optional") else given for each in outputs)


def values_of(name: str, eps: Any = 1e-5) -> tuple[Any, ...]:
    return tuple(eps for _ in schema_of(name)["attributes"])


def several(call: Callable[..., Any], *arguments: Any) -> Any:
    """The outcome, of tuples element by element."""

    def kept(*arguments: Any) -> Any:
        done = call(*arguments)
        return (
            tuple(tried(lambda each=each: each) for each in done) if type(done) is tuple else done
        )

    return tried(kept, *arguments)


def held_to(name: str, arrays: tuple[Any, ...], values: tuple[Any, ...], outputs: Any) -> Any:
    """Both ways of one call; what the short one alone made of it. ``outputs`` makes new ones."""
    of = function_of(name)
    want = several(of.long_way, None, None, arrays, values, outputs())
    assert several(of, None, None, arrays, values, outputs()) == want
    quick = of.quick.run(default_context()._handle, arrays, values, outputs())
    if quick is not None:
        assert several(lambda: quick) == want
    return quick


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs(name: str, kind: str) -> None:
    for shape in SHAPES:
        if shape == ():
            given = {each: np.float64(3) for each in arrays_of(name, (1,))}
        else:
            given = arrays_of(name, shape)
        for which in given:
            made = {each: x.astype(np.float32) if kind == "f32" else x for each, x in given.items()}
            with np.errstate(all="ignore"):
                made[which] = KINDS[kind](made[which]) if shape else made[which]
            for asked in (False, True):
                quick = held_to(
                    name,
                    tuple(made.values()),
                    values_of(name),
                    lambda asked=asked: outputs_of(name, asked=asked),
                )
                if kind in ("itself", "read-only") and shape and shape[-1] > 0:
                    assert quick is not None


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_types_of_results(name: str, dtype: Any) -> None:
    arrays = arrays_of(name, (5, 6), dtype)
    for each in schema_of(name)["operands"]:
        if each["types"].startswith("accumulator") and each["name"] in arrays:
            sums = np.float64 if dtype == np.float64 else np.float32
            arrays[each["name"]] = arrays[each["name"]].astype(sums)
    asked = (tuple(arrays.values()), values_of(name), lambda: outputs_of(name, asked=True))
    assert held_to(name, *asked) is not None
    if "weight" in arrays and dtype == np.float16:
        arrays["weight"] = arrays["weight"].astype(np.float32)
        assert held_to(name, tuple(arrays.values()), *asked[1:]) is not None


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs(name: str, kind: str) -> None:
    given = tuple(arrays_of(name, (4, 3)).values())
    for shape in [(4, 3), (3, 4), (12,), (4, 3, 1)]:
        made = [KINDS[kind](np.full(shape, 7.0)) for _ in range(9)]

        def outputs(made: list[Any] = made) -> tuple[Any, ...]:
            fresh = [each.copy() if kind == "itself" else each for each in made]
            places = iter(fresh)
            return tuple(
                next(places) if each is None else each for each in outputs_of(name, asked=False)
            )

        held_to(name, given, values_of(name), outputs)


@pytest.mark.parametrize("name", QUICK)
def test_shapes_that_do_not_fit(name: str) -> None:
    arrays = arrays_of(name, (4, 3))
    for which, x in arrays.items():
        for other in [x[..., :-1], x[None], x.reshape(-1), x[:0], np.zeros((4, 3, 2))]:
            if other.shape == x.shape:
                continue
            made = tuple(
                np.ascontiguousarray(other) if each == which else y for each, y in arrays.items()
            )
            held_to(name, made, values_of(name), lambda: outputs_of(name, asked=True))


@pytest.mark.parametrize("name", [name for name in QUICK if schema_of(name)["attributes"]])
@pytest.mark.parametrize(
    "eps",
    [0, 1, 1e-5, 0.0, -1, float("nan"), float("inf"), True, "a", None, 2**2000, -(2**70), [1]]
    + [np.float32(0.5), np.float64(0.5), np.array(0.5), np.int64(3)],
    ids=str,
)
def test_numbers(name: str, eps: Any) -> None:
    given = tuple(arrays_of(name, (4, 3)).values())
    held_to(name, given, values_of(name, eps), lambda: outputs_of(name))


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("asked", [0, 1, None, "no", np.True_, np.array(True), 2.0], ids=repr)
def test_what_is_asked_for(name: str, asked: Any) -> None:
    given = tuple(arrays_of(name, (4, 3)).values())
    held_to(name, given, values_of(name), lambda: outputs_of(name, asked=asked))


@pytest.mark.parametrize("name", QUICK)
def test_in_place_and_overlaps(name: str) -> None:
    of = function_of(name)
    memory = np.random.default_rng().standard_normal(64)
    kept = memory.copy()  # One, for sentences have addresses.
    for first in (0, 1, 3, 12):
        outcomes = []
        for way in (of, of.long_way):
            kept[...] = memory
            arrays = arrays_of(name, (4, 3))
            for each in arrays:
                arrays[each][...] = 0.5
            arrays["x"] = kept[:12].reshape(4, 3)
            out = kept[first : first + 12].reshape(4, 3)
            given = iter([out])
            outputs = tuple(
                next(given, None) if each is None else each for each in outputs_of(name)
            )
            outcome = several(way, None, None, tuple(arrays.values()), values_of(name), outputs)
            outcomes.append((outcome, kept.tobytes()))
        assert outcomes[0] == outcomes[1]


def test_contexts() -> None:
    x = np.ones((2, 4), np.float32)
    own = sk.Context()
    np.testing.assert_array_equal(sk.rmsnorm(x, context=own), sk.rmsnorm(x))
    for context in (1, "own", object(), _core):
        with pytest.raises(sk.InvalidArgumentError, match="context is"):
            sk.rmsnorm(x, context=context)  # type: ignore[arg-type]


def test_many_threads_and_new_types() -> None:
    """While others call, types are met for the first time."""
    of = _local.LocalFunction("rmsnorm")
    handle = default_context()._handle
    wrong = []

    def work(dtype: Any) -> None:
        for rows in range(1, 60):
            x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(dtype)
            for weight in (None, np.ones(8, dtype), np.ones(8, np.float32)):
                if weight is not None and dtype == np.float64 and weight.dtype != dtype:
                    continue
                y, rstd = of.quick.run(handle, (x, weight), (1e-5,), (None, True))
                if y.dtype != dtype or rstd.shape != (rows,) or not np.isfinite(y).all():
                    wrong.append((dtype, rows))

    kinds = [np.float64, np.float32, np.float16] * 2
    threads = [threading.Thread(target=work, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_arrays_are_let_go_of() -> None:
    x, out = np.ones((2, 4)), np.empty((2, 4))
    before = [sys.getrefcount(each) for each in (x, out)]
    for _ in range(100):
        sk.rmsnorm(x, out=out)
        with pytest.raises(sk.InvalidArgumentError):
            sk.rmsnorm(x, out=out, eps=-1)
    assert [sys.getrefcount(each) for each in (x, out)] == before
    x.resize((4, 4))  # Which NumPy refuses while its memory is held.


def test_a_compiled_tile() -> None:
    """A user's operation goes the short way too, and says the same where it does not."""
    libc = ctypes.CDLL(None)
    copied: list[int] = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int32,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_void_p,
        ctypes.c_void_p,
    )
    def copies(data: Any, views: Any, _: Any, __: Any) -> int:
        rows, columns, stride = views[0], views[1], views[2]
        for row in range(rows):
            step, to_step = row * stride * 4, row * views[8] * 4
            libc.memcpy(
                ctypes.c_void_p(data[1] + to_step),
                ctypes.c_void_p(data[0] + step),
                ctypes.c_size_t(columns * 4),
            )
        copied.append(rows)
        return 1

    tile = sk.tile(
        copies,
        name="quick_copy",
        reads={"x": ("f32", "m, n")},
        writes={"y": ("f32", "m, n")},
        effect="y[i, j] = x[i, j]",
    )
    x = np.random.default_rng().standard_normal((6, 5)).astype(np.float32)
    assert tile._quick is not None
    np.testing.assert_array_equal(tile(x), x)
    assert tile._run_quick((x,), {}) is not None
    out = np.zeros_like(x)
    assert tile(x, y=out) is out
    np.testing.assert_array_equal(out, x)
    assert sum(copied) == 18
    for args, given in [((x,), {"y": None}), ((), {"x": x}), ((x[0],), {}), ((x.astype("d"),), {})]:
        assert tile._run_quick(args, given) is None
    with pytest.raises(sk.InvalidArgumentError, match="x has shape"):
        tile(x[0])
    tile.close()
    with pytest.raises(sk.InvalidArgumentError, match="was closed"):
        tile(x)


def test_what_the_table_cannot_hold_goes_the_long_way() -> None:
    schema = json.loads(json.dumps(schema_of("rmsnorm")))
    schema["operands"][1]["shape"] = "m + 1, n"
    assert quick_way(schema) is None
    schema["operands"][1]["shape"] = "m, n, n"
    assert quick_way(schema) is None
