"""sk.adamw: lists of arrays that a call overwrites, against float64 and against other layouts."""

from __future__ import annotations

import inspect
from typing import Any

import libsk as sk
import ml_dtypes
import numpy as np
import pytest
from libsk._operand import Operand

SHAPES = [(3, 5), (), (0, 4), (1,), (70, 1001), (7,)]
NUMBERS = {"lr": 0.125, "step": 3, "beta1": 0.8, "beta2": 0.9, "eps": 1e-3, "weight_decay": 0.5}


def made(dtype: type, grad: type | None = None) -> list[list[np.ndarray]]:
    """params, grads, ms, vs."""
    random = np.random.default_rng(5)
    sums = np.float64 if dtype is np.float64 else np.float32
    types = (dtype, grad or dtype, sums, sums)
    return [
        [np.asarray(random.uniform(0.25, 2, shape)).astype(kind) for shape in SHAPES]
        for kind in types
    ]


def oracle(
    p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The formula, in float64."""
    p, g, m, v = (np.asarray(each, np.float64) for each in (p, g, m, v))
    beta1, beta2, lr = NUMBERS["beta1"], NUMBERS["beta2"], NUMBERS["lr"]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    hat_m, hat_v = (each / (1 - b ** NUMBERS["step"]) for each, b in ((m, beta1), (v, beta2)))
    p = p - lr * NUMBERS["weight_decay"] * p - lr * hat_m / (np.sqrt(hat_v) + NUMBERS["eps"])
    return p, m, v


@pytest.mark.parametrize(
    ("dtype", "grad", "digits"),
    [
        (np.float32, None, 1e-6),
        (np.float64, None, 1e-14),
        (np.float64, np.float32, 1e-14),
        (np.float16, None, 1e-3),
        (ml_dtypes.bfloat16, None, 1e-2),
        (ml_dtypes.bfloat16, np.float32, 1e-2),
    ],
)
def test_a_step_is_the_formulas(dtype: type, grad: type | None, digits: float) -> None:
    lists = made(dtype, grad)
    want = [oracle(*each) for each in zip(*lists, strict=True)]
    before = [each.copy() for each in lists[1]]
    assert sk.adamw(*lists, **NUMBERS) is None
    for i, each in enumerate(want):
        for got, wanted, close in zip(
            (lists[0][i], lists[2][i], lists[3][i]),
            each,
            (digits, min(digits, 1e-6), min(digits, 1e-6)),
            strict=True,
        ):
            np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=close, atol=close / 8)
        np.testing.assert_array_equal(lists[1][i], before[i])


def test_arrays_may_lie_in_any_way() -> None:
    plain, apart = made(np.float32), made(np.float32)
    sk.adamw(*plain, **NUMBERS)
    wide = [[np.zeros((*each.shape, 2), each.dtype) for each in one] for one in apart]
    views = [[each[..., 0] for each in one] for one in wide]
    for one, other in zip(views, apart, strict=True):
        for to, source in zip(one, other, strict=True):
            to[...] = source
    sk.adamw(*views, **NUMBERS)
    for one, other in zip(views, plain, strict=True):
        for got, want in zip(one, other, strict=True):
            np.testing.assert_array_equal(got, want)
    assert not any(each[..., 1].any() for one in wide for each in one)


@pytest.mark.parametrize("grad", [ml_dtypes.bfloat16, np.float32])
def test_bits_of_bf16_are_read_as_dtype_says(grad: type) -> None:
    got, want = made(ml_dtypes.bfloat16, grad), made(ml_dtypes.bfloat16, grad)
    sk.adamw(*want, **NUMBERS)
    bits = [[x.view(np.uint16) if x.itemsize == 2 else x for x in one] for one in got]
    with pytest.raises(sk.InvalidArgumentError, match=r'params\[0\] has .*say dtype="bf16"'):
        sk.adamw(*bits, **NUMBERS)
    with pytest.raises(sk.InvalidArgumentError, match="ms is bf16, it must be f32"):
        sk.adamw(*bits[:2], bits[0], bits[3], **NUMBERS, dtype="bf16")
    sk.adamw(*bits, **NUMBERS, dtype="bf16")
    for one, other in zip(got, want, strict=True):
        for is_, must in zip(one, other, strict=True):
            np.testing.assert_array_equal(is_, must)


ORDERS = [(0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 3, 2)]
"""Of the axes in memory, the slowest first; the first is channels_last's."""


@pytest.mark.parametrize("axes", ORDERS, ids=str)
@pytest.mark.parametrize("shape", [(5, 3, 4, 2), (5, 3, 1, 1), (1, 3, 4, 2)], ids=str)
@pytest.mark.parametrize("other", [None, 0, 1, 3])
def test_one_dense_order_of_all_is_read_where_it_lies(
    axes: tuple[int, ...], shape: tuple[int, ...], other: int | None, monkeypatch: Any
) -> None:
    """``other`` is the list whose array is row-major all the same."""
    random = np.random.default_rng()
    plain = [[random.uniform(0.25, 2, shape).astype(np.float32)] for _ in range(4)]
    back = tuple(np.argsort(axes))
    turned = [
        [x.copy() if place == other else x.transpose(axes).copy().transpose(back) for x in one]
        for place, one in enumerate(plain)
    ]
    copies = []
    contiguous = Operand.contiguous

    def counted(self: Operand) -> Operand:
        source = contiguous(self)
        copies.append(source is not self)
        return source

    monkeypatch.setattr(Operand, "contiguous", counted)
    sk.adamw(*turned, **NUMBERS)
    copied = sum(copies)
    if other is None:
        assert copied == 0
    elif other > 0:  # It alone: params say how the others are read.
        assert copied == (not turned[other][0].transpose(axes).flags.c_contiguous)
    sk.adamw(*plain, **NUMBERS)
    for one, want in zip(turned, plain, strict=True):
        np.testing.assert_array_equal(one[0], want[0])


def test_lists_may_be_empty() -> None:
    sk.adamw([], [], [], [], lr=0.1, step=1)
    sk.adamw((), (), (), (), 0.1, 1)


def test_the_usual_numbers_are_the_usual_ones() -> None:
    parameters = inspect.signature(sk.adamw).parameters
    usual = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
    assert {name: parameters[name].default for name in usual} == usual
    assert parameters["lr"].default is inspect.Parameter.empty
    assert "a list of arrays" in (sk.adamw.__doc__ or "")


def test_what_is_wrong_is_said_of_the_array_and_changes_nothing() -> None:
    lists = made(np.float32)
    before = [[each.copy() for each in one] for one in lists]

    def refused(place: int, i: int, x: object, sentence: str, **numbers: float) -> None:
        wrong = [list(one) for one in lists]
        wrong[place][i] = x  # type: ignore[call-overload]
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            sk.adamw(*wrong, **{**NUMBERS, **numbers})
        for one, other in zip(lists, before, strict=True):
            for got, want in zip(one, other, strict=True):
                np.testing.assert_array_equal(got, want)

    refused(1, 3, np.ones(2, np.float32), r"grads\[3\] has shape \(2,\); it must have \(1,\)")
    refused(2, 4, lists[2][4].astype(np.float64), r"ms\[4\] is f64, it must be f32")
    refused(0, 0, None, r"params\[0\] is")
    refused(3, 1, 1.5, r"vs\[1\]")
    refused(2, 4, lists[0][4], r"params\[4\].*ms\[4\].*overlap")
    frozen = lists[0][4].copy()
    frozen.flags.writeable = False
    refused(0, 4, frozen, r"params\[4\]")
    refused(0, 0, lists[0][0], "step is 0, allowed are 1 to", step=0)
    refused(0, 0, lists[0][0], "lr is -1", lr=-1)
    with pytest.raises(sk.InvalidArgumentError, match="grads has 5 arrays; it must have 6"):
        sk.adamw(lists[0], lists[1][:5], *lists[2:], **NUMBERS)
    with pytest.raises(sk.InvalidArgumentError, match=r"(?s)params is .*; give a list of arrays"):
        sk.adamw(lists[0][0], *lists[1:], **NUMBERS)


def test_what_is_copied_may_not_overlap_either() -> None:
    def lists_of(*params: np.ndarray) -> list[list[np.ndarray]]:
        return [list(params), *([np.ones(p.shape, np.float32) for p in params] for _ in range(3))]

    w = np.arange(1, 37, dtype=np.float32).reshape(6, 6)
    line = w.reshape(-1)
    for params in ([w, w.T], [line[::2], line[::2]], [line, line[::-1]]):
        before = w.copy()
        with pytest.raises(sk.InvalidArgumentError, match=r"params\[0\] and params\[1\] overlap"):
            sk.adamw(*lists_of(*params), **NUMBERS)
        np.testing.assert_array_equal(w, before)
    params, grads, ms, vs = lists_of(np.ones(18, np.float32))
    with pytest.raises(sk.InvalidArgumentError, match=r"ms\[0\] and vs\[0\] overlap"):
        sk.adamw(params, grads, [line[::2]], [line[::2]], **NUMBERS)
    with pytest.raises(sk.InvalidArgumentError, match=r"params\[0\] and grads\[0\] overlap"):
        sk.adamw([line[::2]], [line[:18]], ms, vs, **NUMBERS)
    want, apart = lists_of(*(line[i::2].copy() for i in (0, 1))), lists_of(line[::2], line[1::2])
    sk.adamw(*want, **NUMBERS)
    sk.adamw(*apart, **NUMBERS)
    np.testing.assert_array_equal(line.reshape(18, 2).T, want[0])


def test_lists_may_be_whatever_gives_arrays() -> None:
    got, want = made(np.float32), made(np.float32)
    sk.adamw(*want, **NUMBERS)
    sk.adamw(*((x for x in one) for one in got), **NUMBERS)
    for one, other in zip(got[0], want[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_lists_are_those_of_the_call_whoever_changes_them_meanwhile() -> None:
    class Meddler:
        """An array that empties the lists when it is read."""

        def __init__(self, array: np.ndarray) -> None:
            self._array = array

        def __dlpack__(self, **more: Any) -> Any:
            for each in lists:
                each.clear()
            return self._array.__dlpack__(**more)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self._array.__dlpack_device__()

    for place in range(4):
        lists: list[list[Any]] = made(np.float64)
        kept, wanted = [list(each) for each in lists], made(np.float64)
        sk.adamw(*wanted, **NUMBERS)
        lists[place][0] = Meddler(kept[place][0])
        names = ["params", "grads", "ms", "vs"]
        if place == 3:
            sk.adamw(*lists, **NUMBERS)
            for one, other in zip(kept, wanted, strict=True):
                assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))
            continue
        with pytest.raises(sk.InvalidArgumentError, match=f"^{names[place + 1]} has 0 arrays; it"):
            sk.adamw(*lists, **NUMBERS)


STEPS = [3.0, np.float32(3), np.float64(3), np.int64(3), np.uint8(3), np.array(3), np.array(3.0)]


@pytest.mark.parametrize("step", STEPS, ids=repr)
@pytest.mark.parametrize("is_short", [True, False])
def test_a_step_may_be_whatever_is_whole(step: Any, is_short: bool) -> None:
    got, wanted = made(np.float32), made(np.float32)
    given = got if is_short else [iter(each) for each in got]
    sk.adamw(*given, **{**NUMBERS, "lr": np.float32(0.125), "step": step})
    sk.adamw(*wanted, **NUMBERS)
    for one, other in zip(got, wanted, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


WRONG = [True, np.True_, 3.5, np.float32(3.5), np.array(3.5), float("inf"), float("nan"), "3", 3j]


@pytest.mark.parametrize("step", WRONG, ids=repr)
def test_a_step_is_whole_and_no_bool(step: Any) -> None:
    with pytest.raises(sk.InvalidArgumentError, match="^step is .*; give an integer"):
        sk.adamw(*made(np.float32), **{**NUMBERS, "step": step})
