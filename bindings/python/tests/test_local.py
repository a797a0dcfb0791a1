"""rmsnorm and its gradient: against float64, in every type and layout, from many threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from typing import Any

import libsk as sk
import ml_dtypes
import numpy as np
import pytest

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
STEP = {"float32": 2.0**-20, "float64": 2.0**-48, "float16": 2.0**-9, "bfloat16": 2.0**-6}


def oracle(x: np.ndarray, weight: np.ndarray | None, eps: float) -> tuple[np.ndarray, np.ndarray]:
    x = x.astype(np.float64)
    rstd = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return x * rstd * (1 if weight is None else weight.astype(np.float64)), rstd[..., 0]


def gradients(
    dy: np.ndarray, x: np.ndarray, rstd: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    x, dy, rstd = x.astype(np.float64), dy.astype(np.float64), rstd.astype(np.float64)[..., None]
    slope = dy * (1 if weight is None else weight.astype(np.float64))
    dx = rstd * (slope - x * rstd**2 * (slope * x).mean(-1, keepdims=True))
    return dx, (dy * x * rstd).reshape(-1, x.shape[-1]).sum(0)


def close(is_: np.ndarray, want: np.ndarray, dtype: Any, scale: float = 1.0) -> None:
    step = STEP[np.dtype(dtype).name]
    np.testing.assert_allclose(is_.astype(np.float64), want, rtol=step, atol=step * scale)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (65, 130), (2, 3, 33), (300, 512), (0, 4)])
def test_it_is_what_the_formulas_say(dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng()
    x, dy = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    for weight in (None, random.standard_normal(shape[-1]).astype(dtype)):
        y, rstd = sk.rmsnorm(x, weight, eps=1e-5, return_rstd=True)
        want, want_rstd = oracle(x, weight, 1e-5)
        assert y.dtype == x.dtype
        assert y.shape == x.shape
        assert rstd.dtype == (np.float64 if dtype is np.float64 else np.float32)
        close(y, want, dtype)
        close(rstd, want_rstd.reshape(rstd.shape), rstd.dtype)
        dx, dweight = sk.rmsnorm_backward(x, dy, rstd, weight, return_dweight=True)
        want_dx, want_dweight = gradients(dy, x, rstd.reshape(want_rstd.shape), weight)
        close(dx, want_dx, dtype, 8)
        close(dweight, want_dweight, dtype, 64)
        out = np.full_like(dx, 7)
        assert sk.rmsnorm_backward(x, dy, rstd, weight, out) is out
        np.testing.assert_array_equal(out, dx)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5), (2, 3, 33), (300, 512), (0, 4)])
def test_a_residual_is_added_first(dtype: Any, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng()
    x, residual = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    weight = random.standard_normal(shape[-1]).astype(dtype)
    y, total, rstd = sk.add_rmsnorm(x, residual, weight, return_rstd=True)
    np.testing.assert_array_equal(total, (x.astype("d") + residual.astype("d")).astype(dtype))
    want, want_rstd = sk.rmsnorm(total, weight, return_rstd=True)
    assert y.dtype == total.dtype == dtype
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(rstd, want_rstd)
    in_place, added = x.copy(), residual.copy()
    again = sk.add_rmsnorm(in_place, added, weight, out=in_place, out_total=added)
    assert again[0] is in_place
    assert again[1] is added
    np.testing.assert_array_equal(in_place, y)
    np.testing.assert_array_equal(added, total)


@pytest.mark.parametrize("n", [1, 33, 512])
def test_any_number_of_rows(n: int) -> None:
    """In any order: plans are made for more rows than a call has, and nothing is done to those."""
    random = np.random.default_rng()
    most = 90
    x, dy = (random.standard_normal((most, n)) for _ in range(2))
    weight = random.standard_normal(n)
    y, rstd = sk.rmsnorm(x, weight, return_rstd=True)
    for rows in random.permutation(most + 1):
        out, dx = (np.full((most, n), 7.0) for _ in range(2))
        _, some = sk.rmsnorm(x[:rows], weight, out=out[:rows], return_rstd=True)
        np.testing.assert_array_equal(out[:rows], y[:rows])
        np.testing.assert_array_equal(some, rstd[:rows])
        assert (out[rows:] == 7).all()
        _, dweight = sk.rmsnorm_backward(
            x[:rows], dy[:rows], some, weight, dx[:rows], return_dweight=True
        )
        assert (dx[rows:] == 7).all()
        want_dx, want_dweight = gradients(dy[:rows], x[:rows], some, weight)
        close(dx[:rows], want_dx, x.dtype, 10)
        close(dweight, want_dweight, x.dtype, 100)
        total = np.full((most, n), 7.0)
        added, _ = sk.add_rmsnorm(
            x[:rows], dy[:rows], weight, out=out[:rows], out_total=total[:rows]
        )
        close(added, oracle(x[:rows] + dy[:rows], weight, 1e-5)[0], x.dtype, 10)
        assert (total[rows:] == 7).all()


def test_weights_may_be_f32() -> None:
    x = np.random.default_rng().standard_normal((4, 8)).astype(ml_dtypes.bfloat16)
    weight = np.linspace(0.5, 2, 8, dtype=np.float32)
    close(sk.rmsnorm(x, weight), oracle(x, weight, 1e-5)[0], x.dtype)
    bits = sk.rmsnorm(x.view(np.uint16), weight, dtype="bf16")
    assert bits.dtype == np.uint16
    np.testing.assert_array_equal(bits, sk.rmsnorm(x, weight).view(np.uint16))
    narrow = weight.astype(ml_dtypes.bfloat16)
    bits = sk.rmsnorm(x.view(np.uint16), narrow.view(np.uint16), dtype="bf16")
    np.testing.assert_array_equal(bits, sk.rmsnorm(x, narrow).view(np.uint16))


def test_layouts_and_places() -> None:
    x = np.random.default_rng().standard_normal((6, 10)).astype(np.float32)
    want = oracle(x, None, 1e-5)[0]
    apart = np.full((6, 14), 7, np.float32)
    apart[:, :10] = x
    close(sk.rmsnorm(apart[:, :10]), want, x.dtype)
    close(sk.rmsnorm(np.asfortranarray(x)), want, x.dtype)
    close(sk.rmsnorm(x[:, ::-1]), want[:, ::-1], x.dtype)
    out = np.full((6, 14), 7, np.float32)
    assert sk.rmsnorm(x, out=out[:, :10]).base is out
    close(out[:, :10], want, x.dtype)
    assert (out[:, 10:] == 7).all()
    again = x.copy()
    assert sk.rmsnorm(again, out=again) is again
    close(again, want, x.dtype)
    _, rstd = sk.rmsnorm(apart[:, :10], out=apart[:, :10], return_rstd=True)
    close(apart[:, :10], want, x.dtype)
    close(rstd, oracle(x, None, 1e-5)[1], x.dtype)
    assert (apart[:, 10:] == 7).all()


def test_any_thread_may_call_it() -> None:
    wrong = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(30):
            x = random.standard_normal((random.integers(1, 60), 64)).astype(np.float32)
            if not np.allclose(sk.rmsnorm(x), oracle(x, None, 1e-5)[0], rtol=1e-5, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def in_child(body: Callable[[], bool]) -> int:
    """The exit status of a forked child: 0 where ``body`` is true."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if body() else 1)
        except BaseException:  # noqa: BLE001 - the exit status is all that a child can say.
            traceback.print_exc()
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_children_compute() -> None:
    """With a default context of their own; what was made before the fork is their parent's."""
    x = np.random.default_rng().standard_normal((900, 64)).astype(np.float32)
    want = sk.rmsnorm(x)
    context = sk.Context()
    np.testing.assert_array_equal(sk.rmsnorm(x, context=context), want)

    def refused() -> bool:
        try:
            sk.rmsnorm(x, context=context)
        except sk.ForkedError as error:
            return "forked" in str(error)
        return False

    def body() -> bool:
        computed = np.array_equal(sk.rmsnorm(x), want)
        return computed and refused() and in_child(lambda: np.array_equal(sk.rmsnorm(x), want)) == 0

    assert in_child(body) == 0
    with multiprocessing.get_context("fork").Pool(3) as pool:
        for each in pool.map(sk.rmsnorm, [x] * 5):
            np.testing.assert_array_equal(each, want)
    np.testing.assert_array_equal(sk.rmsnorm(x, context=context), want)


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (
            "x is i32, it must be f32, f64, bf16 or f16",
            lambda x: sk.rmsnorm(np.zeros((2, 2), np.int32)),
        ),
        ("x is a number", lambda x: sk.rmsnorm(np.float32(1))),
        ("weight has shape (3,); it must have (4,)", lambda x: sk.rmsnorm(x, np.ones(3, "f"))),
        ("weight is f64, it must be f32, as x is", lambda x: sk.rmsnorm(x, np.ones(4))),
        ("eps is -1, allowed are 0 to inf", lambda x: sk.rmsnorm(x, eps=-1)),
        ("eps is nan", lambda x: sk.rmsnorm(x, eps=float("nan"))),
        ("eps is 'a'; give a number", lambda x: sk.rmsnorm(x, eps="a")),
        ("rows have one element at least", lambda x: sk.rmsnorm(x[:, :0])),
        ("out has shape (2, 4); it must have (3, 4)", lambda x: sk.rmsnorm(x, out=x[:2])),
        ("dy has shape (2, 4); it must have (3, 4)", lambda x: sk.rmsnorm_backward(x, x[:2], x[0])),
        ("rstd has shape (4,); it must have (3,)", lambda x: sk.rmsnorm_backward(x, x, x[0])),
        ("dy is f64, it must be f32", lambda x: sk.rmsnorm_backward(x, x.astype("d"), x[:, 0])),
        (
            "return_dweight is 'no'",
            lambda x: sk.rmsnorm_backward(x, x, x[:, 0], return_dweight="no"),
        ),
    ],
)
def test_what_is_wrong_is_said(sentence: str, call: Callable[[np.ndarray], Any]) -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(sk.InvalidArgumentError) as raised:
        call(x)
    assert sentence in str(raised.value)


def test_a_type_is_allowed_once() -> None:
    for dtype, allowed in [(np.float32, "f32, as x is"), (np.float16, "f16, as x is, or f32")]:
        with pytest.raises(sk.InvalidArgumentError) as raised:
            sk.rmsnorm(np.ones((2, 4), dtype), np.ones(4))
        assert str(raised.value).endswith(f"weight is f64, it must be {allowed}")


def test_torch_tensors_give_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 16, dtype=torch.bfloat16)
    y, rstd = sk.rmsnorm(x, torch.ones(16), return_rstd=True)
    assert y.dtype == torch.bfloat16
    assert rstd.dtype == torch.float32
    want = torch.nn.functional.rms_norm(x.float(), (16,), eps=1e-5)
    torch.testing.assert_close(y.float(), want, rtol=2**-6, atol=2**-6)
