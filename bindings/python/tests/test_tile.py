"""Tiles of the user's own: functions of Python's and compiled ones, over rows, blocks and all."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import guarded
import libsk as sk
import numpy as np
import pytest
from libsk._tile import SIGNATURE

SAXPY: dict[str, Any] = {
    "reads": {"x": ("f32|f64", "m, n"), "y": ("x", "m, n")},
    "writes": {"z": ("y", "m, n")},
    "in_place": {"z": "y"},
    "parameters": {"alpha": (float, -100, 100)},
    "effect": "z[i, j] = saxpy(x[i, j], y[i, j])",
}


def copy(x: np.ndarray, y: np.ndarray) -> None:
    y[:] = x


COPY: dict[str, Any] = {
    "reads": {"x": ("f32", "m")},
    "writes": {"y": ("x", "m")},
    "effect": "y[i] = x[i]",
}

SHAPES = [(1, 1), (3, 5), (17, 1), (65, 130), (700, 513), (0, 4), (4, 0)]


@pytest.fixture
def context() -> Iterator[sk.Context]:
    """Of its own, so that names of tiles are."""
    yield sk.Context()


def rows(shape: tuple[int, int], dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """With gaps between rows, which hold what nobody may write."""
    m, n = shape
    whole = np.full((m, n + 3), -4711, dtype)
    whole[:, :n] = rng.integers(-500, 500, shape) / 8
    return whole[:, :n]


@pytest.mark.parametrize("over", ["rows", "blocks", "all"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_function_of_pythons_is_called_with_its_tile(
    over: str, dtype: Any, context: sk.Context
) -> None:
    seen: list[int] = []

    @sk.tile(**SAXPY, over=over, context=context)
    def saxpy(x: np.ndarray, y: np.ndarray, z: np.ndarray, alpha: float) -> None:
        assert not x.flags.writeable and not y.flags.writeable
        seen.append(x.shape[0])
        z[:] = alpha * x + y

    rng = np.random.default_rng(1)
    for shape in SHAPES:
        x, y, out = (rows(shape, dtype, rng) for _ in range(3))
        want = 2.5 * x + y
        seen.clear()
        np.testing.assert_array_equal(saxpy(x, y, 2.5), want)
        assert seen or 0 in shape
        assert saxpy(x, y, z=out, alpha=2.5) is out
        np.testing.assert_array_equal(out, want)
        if out.base is not None and out.size:
            assert (out.base[:, shape[1] :] == -4711).all()
        assert saxpy(x, y, z=y, alpha=2.5) is y
        np.testing.assert_array_equal(y, want)


def compiled(folder: Path, text: str) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = folder / "tile.c"
    source.write_text(text)
    library = folder / "libtile.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


C_SAXPY = """
#include <stdint.h>
int32_t saxpy(void* const* data, const int64_t* views, const double* values, void* user) {
  for (int64_t i = 0; i < views[0]; ++i) {
    const float* x = (const float*)data[0] + i * views[2];
    const float* y = (const float*)data[1] + i * views[8];
    float* z = (float*)data[2] + i * views[14];
    for (int64_t j = 0; j < views[1]; ++j) z[j] = (float)values[0] * x[j] + y[j];
  }
  return 1;
}
"""


def test_compiled_code_runs_on_all_cores(tmp_path: Path, context: sk.Context) -> None:
    given = dict(SAXPY, reads={"x": ("f32", "m, n"), "y": ("x", "m, n")})
    saxpy = sk.tile(compiled(tmp_path, C_SAXPY).saxpy, name="saxpy", context=context, **given)
    assert saxpy.op >= 1000
    rng = np.random.default_rng(2)
    for shape in SHAPES:
        x, y = (rows(shape, np.float32, rng) for _ in range(2))
        np.testing.assert_array_equal(saxpy(x, y, 0.5), np.float32(0.5) * x + y)
    assert saxpy.describe()["version"] == 1
    assert saxpy.describe()["operands"][2]["alias"] == "y"


def test_a_ctypes_pointer_reduces_along_rows(context: sk.Context) -> None:
    calls: list[int] = []

    @SIGNATURE
    def sums(data: Any, views: Any, values: Any, user: Any) -> int:
        n, m, stride = views[1], views[0], views[2]
        calls.append(m)
        x = (ctypes.c_float * (stride * (m - 1) + n)).from_address(data[0])
        s = (ctypes.c_float * m).from_address(data[1])
        for i in range(m):
            s[i] = sum(x[i * stride : i * stride + n])
        return 1

    tile = sk.tile(
        sums,
        name="sums",
        reads={"x": ("f32", "m, n")},
        writes={"s": ("x", "m")},
        effect="s[i] = sums[j](x[i, j])",
        context=context,
    )
    x = np.random.default_rng(3).integers(-9, 9, (333, 129)).astype(np.float32)
    np.testing.assert_array_equal(tile(x), x.sum(1))
    assert sum(calls) == 333


def test_a_tile_that_calls_the_library_hears_so(context: sk.Context) -> None:
    """It would wait for the call that it is inside of: its own, another tile's, or any."""
    x = np.ones((3, 4), np.float32)
    tiles: list[sk.Tile] = []
    calls: list[Callable[[], Any]] = [
        lambda: sk.rmsnorm(x, context=context),
        lambda: tiles[0](x),
        lambda: tiles[1](x),
    ]
    chosen = 0

    def calling(a: np.ndarray, y: np.ndarray) -> None:
        y[...] = a
        calls[chosen]()

    def plain(a: np.ndarray, y: np.ndarray) -> None:
        y[...] = a

    for name, function in [("calling", calling), ("plain", plain)]:
        tiles.append(
            sk.tile(
                function,
                name=name,
                reads={"a": ("f32", "m, n")},
                writes={"y": ("f32", "m, n")},
                effect="y[i, j] = f[j](a[i, j])",
                context=context,
            )
        )
    for chosen in range(len(calls)):  # noqa: B007 - the function reads it.
        with pytest.raises(sk.BusyError, match="inside"):
            tiles[0](x)
    np.testing.assert_array_equal(tiles[1](x), x)
    other = sk.Context()
    calls[0] = lambda: sk.rmsnorm(x, context=other)  # Which nobody is inside of.
    chosen = 0
    np.testing.assert_array_equal(tiles[0](x), x)


def test_a_ctypes_pointer_that_says_no_fails_the_call(context: sk.Context) -> None:
    no = SIGNATURE(lambda data, views, values, user: 0)
    tile = sk.tile(
        no, name="no", reads={"x": ("f32", "m")}, writes={"y": ("x", "m")}, context=context
    )
    with pytest.raises(
        sk.TileError, match="tile no failed in no.f32, 3.: its function did not ret"
    ):
        tile(np.ones(3, np.float32))


def test_opaque_ones_have_all(context: sk.Context) -> None:
    calls: list[tuple[int, ...]] = []

    def ordered(x: np.ndarray, y: np.ndarray, total: np.ndarray) -> None:
        calls.append(x.shape)
        y[:] = np.sort(x, axis=None).reshape(x.shape)
        total[0] = x.sum()

    tile = sk.tile(
        ordered,
        reads={"x": ("i64", "m, n")},
        writes={"y": ("x", "m, n"), "total": ("x", "1")},
        context=context,
    )
    x = np.random.default_rng(4).integers(-999, 999, (400, 300))
    y, total = tile(x)
    np.testing.assert_array_equal(y, np.sort(x, axis=None).reshape(x.shape))
    assert total.tolist() == [x.sum()]
    assert calls == [(400, 300)]


def test_sums_in_blocks_and_integers(context: sk.Context) -> None:
    @sk.tile(
        reads={"x": ("i32", "m, n")},
        writes={"s": ("x", "cdiv(m, 16), n")},
        parameters={"plus": (int, 0, "n")},
        effect="s[i // 16, j] = sum(i uncut) shifted(x[i, j])",
        context=context,
    )
    def block_sums(x: np.ndarray, s: np.ndarray, plus: int) -> None:
        for block in range(s.shape[0]):
            s[block] = (x[16 * block : 16 * block + 16] + plus).sum(0)

    x = np.random.default_rng(5).integers(-999, 999, (1003, 37), np.int32)
    want = np.stack([(x[i : i + 16] + 7).sum(0) for i in range(0, 1003, 16)])
    np.testing.assert_array_equal(block_sums(x, 7), want)
    with pytest.raises(sk.InvalidArgumentError, match="plus is 38, allowed are 0 to 37"):
        block_sums(x, plus=38)


def test_a_name_says_nothing_of_a_type(context: sk.Context) -> None:
    """What operations of the library's call dx is a gradient; a user's may be anything."""
    given = {"reads": {"x": ("f64", "m")}, "writes": {"dx": ("f32|x", "m")}}
    with sk_tile(copy, context, **given, effect="dx[i] = half(x[i])") as tile:
        result = tile(np.arange(5.0))
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.arange(5, dtype=np.float32))


def test_numbers_of_four_bytes_leave_their_neighbours(context: sk.Context) -> None:
    """Written one behind the other into the place of one of eight, the first one last."""

    def fill(x: np.ndarray, y: np.ndarray, n: int) -> None:
        y[:] = n

    given = {"reads": {"x": ("i64", "m")}, "writes": {"y": ("x", "m")}, "parameters": {"n": int}}
    with sk_tile(fill, context, **given, effect="y[i] = fill(x[i])") as tile:
        x = np.zeros(3, np.int64)
        y = np.zeros(3, np.int64)
        (size, tensors, floats, integers), _, kept = tile._fields((x,), {"n": 0, "y": y})
        ((offset, _, _),) = integers
        halves = [(offset + 4, 4, 1), (offset, 4, 5)]
        tile._run((size, tensors, floats, halves))
        del kept
    assert y.tolist() == [2**32 + 5] * 3


def test_what_it_raises_the_call_raises(context: sk.Context) -> None:
    fail = [False]

    @sk.tile(
        reads={"x": ("f32", "m")},
        writes={"y": ("x", "m")},
        effect="y[i] = f(x[i])",
        context=context,
    )
    def f(x: np.ndarray, y: np.ndarray) -> None:
        if fail[0]:
            raise ZeroDivisionError("by hand")
        y[:] = x

    x = np.ones(5, np.float32)
    for turn in range(6):
        fail[0] = turn % 2 == 0
        if fail[0]:
            with pytest.raises(ZeroDivisionError, match="by hand") as raised:
                f(x)
            assert isinstance(raised.value.__cause__, sk.TileError)
        else:
            np.testing.assert_array_equal(f(x), x)
    np.testing.assert_allclose(sk.rmsnorm(x, context=context), x, rtol=1e-4)  # All else goes on.


def test_threads_call_one_tile(context: sk.Context) -> None:
    @sk.tile(**SAXPY, context=context)
    def saxpy(x: np.ndarray, y: np.ndarray, z: np.ndarray, alpha: float) -> None:
        if alpha < 0:
            raise ValueError(str(alpha))
        z[:] = alpha * x + y

    wrong: list[Any] = []

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for turn in range(20):
            x, y = (rows((40, 30), np.float32, rng) for _ in range(2))
            alpha = float(seed + 1)
            if turn % 5 == 4:
                try:
                    saxpy(x, y, -alpha)
                    wrong.append("nothing was raised")
                except ValueError as error:
                    if str(error) != str(-alpha):
                        wrong.append(error)
            elif not (saxpy(x, y, alpha) == np.float32(alpha) * x + y).all():
                wrong.append((seed, turn))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_it_keeps_its_function_and_goes_with_its_object(context: sk.Context) -> None:
    class Function:
        def __call__(self, x: np.ndarray, y: np.ndarray) -> None:
            y[:] = x

    function = Function()
    gone = weakref.ref(function)
    tile = sk.tile(function, name="kept", context=context, **COPY)
    del function
    gc.collect()
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(tile(x), x)
    del tile
    gc.collect()
    assert gone() is None
    sk.tile(copy, name="kept", context=context, **COPY).close()  # The name is free.


def test_a_name_is_one_tiles_until_it_is_closed(context: sk.Context) -> None:
    first = sk.tile(copy, name="copied", context=context, **COPY)
    with pytest.raises(sk.InvalidArgumentError, match="a tile copied is registered already, as op"):
        sk.tile(copy, name="copied", version=2, context=context, **COPY)
    second = sk.tile(copy, name="copied", context=context, replace=True, **COPY)
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(second(x), x)
    with pytest.raises(
        sk.InvalidArgumentError, match=f"op is {first.op}, which is no tile of this"
    ):
        first(x)
    second.close()
    second.close()
    assert "closed" in repr(second)
    with pytest.raises(sk.InvalidArgumentError, match="tile copied was closed"):
        second(x)


def test_copies_of_inputs_last_as_long_as_the_call(context: sk.Context) -> None:
    """Of arrays that lie apart: nobody else has them."""
    tile = sk.tile(copy, name="copied", context=context, **COPY)
    for count in (3, 100, 5_000, 300_000):
        x = np.arange(2 * count, dtype=np.float32)
        np.testing.assert_array_equal(tile(x[::2]), x[::2])
        tile.check(x[::2])


def test_what_is_made_twice_is_there_until_both_are_gone(context: sk.Context) -> None:
    @SIGNATURE
    def compiled(data: Any, views: Any, values: Any, user: Any) -> int:
        ctypes.memmove(data[1], data[0], 4 * views[1])
        return 1

    x = np.ones(3, np.float32)
    first = sk.tile(compiled, name="twice", context=context, **COPY)
    second = sk.tile(compiled, name="twice", context=context, **COPY)
    assert first.op == second.op
    first = sk.tile(compiled, name="twice", context=context, **COPY)  # As a cell that is run again.
    gc.collect()
    np.testing.assert_array_equal(first(x), x)
    first.close()
    np.testing.assert_array_equal(second(x), x)
    second.close()
    sk.tile(copy, name="twice", context=context, **COPY).close()


def test_a_check_names_what_leaves_its_tile(context: sk.Context) -> None:
    def by_address(reach: int) -> Any:
        @SIGNATURE
        def function(data: Any, views: Any, values: Any, user: Any) -> int:
            n = views[1]
            ctypes.memmove(data[1], data[0], 4 * n)
            ctypes.memset(data[1], 0, 4 * (n + reach))
            return 1

        return function

    given = dict(COPY, effect="y[i] = f(x[i])")
    x = np.ones(100, np.float32)
    with sk_tile(by_address(0), context, **given) as tile:
        tile.check(x)
    behind = "tile 1 of 1 touches byte 0 behind the end of y"
    with (
        sk_tile(by_address(1), context, **given) as tile,
        pytest.raises(sk.TileError, match=behind),
    ):
        tile.check(x)


def test_a_check_of_a_function_of_pythons(context: sk.Context) -> None:
    threads = threading.active_count()
    calls = [0]

    def counts(x: np.ndarray, y: np.ndarray) -> None:
        calls[0] += 1
        y[:] = x + len(x)

    x = np.ones(100, np.float32)
    y = np.zeros(100, np.float32)
    with sk_tile(copy, context, **COPY) as tile:
        tile.check(x, y=y)
        assert not y.any()
    with sk_tile(counts, context, **dict(COPY, effect="y[i] = f(x[i])")) as tile:
        with pytest.raises(
            sk.TileError, match="not the same in tiles of 1 and in one: it depends on"
        ):
            tile.check(x)
        with pytest.raises(sk.InvalidArgumentError, match="timeout is 0; give seconds"):
            tile.check(x, timeout=0)
    assert calls == [0]  # Children's are theirs.
    assert threading.active_count() == threads


@contextlib.contextmanager
def sk_tile(function: Any, context: sk.Context, **given: Any) -> Iterator[sk.Tile]:
    tile = sk.tile(function, name="tried", context=context, **given)
    try:
        yield tile
    finally:
        tile.close()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"function": 3.5}, "function is 3.5; give a function, a ctypes function pointer"),
    ({"function": 0}, "function is null"),
    ({"name": "a b"}, 'name is "a b", it must be made of a to z'),
    ({"name": "caf\u00e9"}, "give a text of ASCII characters"),
    ({"over": "columns"}, 'over is \'columns\'; allowed is "rows", "blocks" or "all"'),
    ({"over": "blocks"}, "over blocks every region written has two axes, y has one"),
    ({"effect": "y[i] = x[i + 1]"}, "an index is an iterator alone"),
    ({"effect": 7}, "effect is 7; give a text of ASCII"),
    ({"reads": {"x": "f32"}}, "give types and shape"),
    ({"reads": 3}, "reads is 3; give a dict"),
    ({"reads": {"x": ("q8", "m")}}, 'the types of x are "q8"'),
    ({"reads": {f"x{i}": ("f32", "m") for i in range(17)}}, "region_count is 18, there may be"),
    ({"in_place": {"q": "x"}}, "in_place names 'q', which is not written"),
    ({"parameters": {"a": str}}, "give int or float, or with bounds"),
    ({"version": 0}, "version is 0, allowed are 1 to 65535"),
    ({"version": "1"}, "version is '1'; give an integer"),
    ({"tile_rows": -1}, "tile_rows is -1, it must be 0 or more"),
    ({"context": 3}, "context is 3; give a libsk.Context"),
]


def test_a_check_beside_other_threads(context: sk.Context) -> None:
    """They ask for the interpreter's lock, which a forked child must not hear of."""
    tile = sk.tile(copy, name="copied", context=context, **COPY)
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            tile.check(np.ones(100, np.float32), timeout=30)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    np.testing.assert_array_equal(tile(np.ones(3, np.float32)), np.ones(3))


@pytest.mark.parametrize(("change", "sentence"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_wrong_is_said(change: dict[str, Any], sentence: str, context: sk.Context) -> None:
    given = {"function": copy, "name": "copied", "context": context, **COPY, **change}
    with pytest.raises(sk.InvalidArgumentError) as raised:
        sk.tile(**given)
    assert sentence in str(raised.value)


def test_wrong_calls_are_told(context: sk.Context) -> None:
    tile = sk.tile(copy, name="copied", context=context, **COPY)
    x = np.ones(3, np.float32)
    for call, sentence in [
        (lambda: tile(), "copied() lacks x"),
        (lambda: tile(x, 3), "copied() takes x; it was given 2 things"),
        (lambda: tile(x, q=3), "copied() has no q; there are x, y"),
        (lambda: tile(x, x=x), "copied() was given x twice"),
        (lambda: tile(np.ones((2, 2), np.float32)), "x has shape (2, 2); it must have 1 dimension"),
        (lambda: tile(np.ones(3)), "x is f64, it must be f32"),
        (lambda: tile(x, y=np.ones(4, np.float32)), "y has shape (4,); it must have (3,)"),
    ]:
        with pytest.raises(sk.InvalidArgumentError) as raised:
            call()
        assert sentence in str(raised.value)


def test_the_example_runs() -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "own_tile.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "<libsk.Tile scaled_rows, operation 1000> mean square of a row: " in done.stdout


def test_numbas_cfunc_is_a_tile(context: sk.Context) -> None:
    numba = pytest.importorskip("numba")
    types = numba.types
    signature = types.int32(
        types.CPointer(types.voidptr), types.CPointer(types.int64), types.voidptr, types.voidptr
    )

    @numba.cfunc(signature)
    def doubled(data: Any, views: Any, values: Any, user: Any) -> Any:
        x = numba.carray(data[0], (views[1],), np.float32)
        y = numba.carray(data[1], (views[1],), np.float32)
        for i in range(views[1]):
            y[i] = 2 * x[i]
        return 1

    given = dict(COPY, effect="y[i] = doubled(x[i])")
    tile = sk.tile(doubled, name="doubled", context=context, **given)
    x = np.arange(10001, dtype=np.float32)
    np.testing.assert_array_equal(tile(x), 2 * x)


@pytest.mark.parametrize("over", ["rows", "blocks"])
def test_any_number_of_rows_has_one_of_few_plans(over: str) -> None:
    """In memory that ends at a page which nobody may touch, none and all of them in any order."""
    plans: list[str] = []
    context = sk.Context(log_level="info", log=lambda _level, _component, text: plans.append(text))
    calls: list[int] = []

    def doubled(x: np.ndarray, y: np.ndarray) -> None:
        calls.append(y.size)
        np.multiply(x, 2, out=y)

    tile = sk.tile(
        doubled,
        reads={"x": ("f32", "m, n")},
        writes={"y": ("x", "m, n")},
        effect="y[i, j] = doubled(x[i, j])",
        over=over,
        context=context,
    )
    rng = np.random.default_rng()
    for m in rng.permutation(1201):
        x, y = guarded.empty((m, 8), np.float32), guarded.empty((m, 8), np.float32)
        x[:] = rng.integers(-500, 500, (m, 8))
        calls.clear()
        tile(x, y=y)
        assert sum(calls) == y.size
        assert (y == 2 * x).all(), m
    made = [text for text in plans if "plan of doubled(" in text]
    assert 10 <= len(made) <= 40, made
