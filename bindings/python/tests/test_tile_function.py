"""Functions of Python's as tiles: signals at their edges, arrays that they keep, awkward names."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _core

COPY: dict[str, Any] = {
    "reads": {"x": ("f32", "m")},
    "writes": {"y": ("x", "m")},
    "effect": "y[i] = f(x[i])",
}


@pytest.fixture
def context() -> sk.Context:
    """One of the test's own, whose tiles go with it."""
    return sk.Context()


def run(program: str, limit_s: float = 100.0) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=limit_s
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_no_exception_of_a_handler_is_lost() -> None:
    """Wherever in a call it comes, in the function or at its edge, the call raises it, and the next
    one is as ever."""
    out = run("""
import random, signal
import numpy as np
import libsk as sk

class Alarm(Exception):
    pass

ran = seen = 0
armed = False

def handler(*_):
    global ran, armed
    ran, armed = ran + 1, False
    raise Alarm

@sk.tile(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")}, effect="y[i] = f(x[i])")
def f(x, y):
    y[...] = x

signal.signal(signal.SIGALRM, handler)
x = np.ones(3, np.float32)
while ran < 1500:
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 2e-4))
        while armed:
            f(x)
    except Alarm:
        seen += 1
print(ran - seen, f(x).sum())
""")
    assert out == "0 3.0\n"


_TURN = """
import os, signal, threading, time
import numpy as np
import libsk as sk

inside, release = threading.Event(), threading.Event()
x = np.ones(3, np.float32)

@sk.tile(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")}, effect="y[i] = f(x[i])")
def waits(x, y):
    inside.set()
    release.wait(60)
    y[...] = x

@sk.tile(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")}, effect="y[i] = g(x[i])")
def endless(x, y):
    while True:
        pass

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGUSR1, lambda *_: release.set())
thread = threading.Thread(target=waits, args=(x,), daemon=True)
def send(number):
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    return time.monotonic()
"""


@pytest.mark.parametrize("call", ["sk.rmsnorm(x, x)", "sk.rmsnorm(x.tolist(), x)", "waits(x)"])
def test_ctrl_c_ends_the_wait_for_a_turn(call: str) -> None:
    out = run(
        _TURN
        + f"""
thread.start()
inside.wait()
begun = send(signal.SIGINT)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", thread.is_alive(), time.monotonic() - begun < 20)
release.set()
thread.join()
print({call}.size)
"""
    )
    assert out == "interrupted True True\n3\n"


def test_a_handler_that_returns_lets_the_wait_for_a_turn_go_on() -> None:
    out = run(
        _TURN
        + """
thread.start()
inside.wait()
send(signal.SIGUSR1)  # What the other thread waits for.
print(sk.rmsnorm(x, x).size)
"""
    )
    assert out == "3\n"


def test_ctrl_c_ends_a_check_and_its_child() -> None:
    out = run(
        _TURN
        + """
begun = send(signal.SIGINT)
try:
    endless.check(x)
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 20)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
print(waits.name)
"""
    )
    assert out == "interrupted True\nno child\nwaits\n"


@pytest.mark.parametrize("by_itself", [False, True], ids=["called", "called by others"])
def test_arrays_that_it_keeps_stay(context: sk.Context, by_itself: bool) -> None:
    kept: list[np.ndarray] = []

    def keeps(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = 2 * x
        kept.extend((x, y[::3], y))

    tile = sk.tile(keeps, context=context, **{**COPY, "effect": None})  # All in one call.
    sizes = (7, 1000, 300_000)
    for size in sizes:
        for step in (1, 2):
            x = np.arange(step * size, dtype=np.float32)[::step]
            if by_itself:  # Not through the object, which knows the arrays.
                fields, (result,), inputs = tile._fields((x,), {})
                _core.call_alone(context._handle, tile.op, *fields)
                y = result.finish()
                del result, inputs
            else:
                y = tile(x)
            np.testing.assert_array_equal(y, 2 * x)
            del x, y
    gc.collect()
    poison = [np.full(step * size, -1, np.float32) for size in sizes for step in (1, 2) * 4]
    for number, (x, part, y) in enumerate(zip(kept[::3], kept[1::3], kept[2::3], strict=True)):
        want = np.arange(sizes[number // 2], dtype=np.float32) * (1 + number % 2)
        np.testing.assert_array_equal(x, want)
        np.testing.assert_array_equal(y, 2 * want)
        np.testing.assert_array_equal(part, 2 * want[::3])
        assert not x.flags.writeable
        y[...] = 0
    assert all((each == -1).all() for each in poison)


def test_a_refused_replacement_leaves_what_was_there(context: sk.Context) -> None:
    def f(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x

    x = np.ones(3, np.float32)
    first = sk.tile(f, name="one", context=context, **COPY)
    for wrong in (
        {"effect": "y[i] = x[i + 1]"},
        {"reads": {"x": ("q8", "m")}},
        {"reads": {"x": ("f32", "m"), "y": ("f32", "m")}},
        {"tile_rows": -1},
        {"over": "blocks"},
    ):
        with pytest.raises(sk.InvalidArgumentError):
            sk.tile(f, name="one", context=context, replace=True, **{**COPY, **wrong})
        np.testing.assert_array_equal(first(x), x)

    def inside(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x
        sk.tile(f, name="two", context=context, replace=True, **COPY)

    second = sk.tile(inside, name="two", context=context, **COPY)
    with pytest.raises(sk.BusyError, match="are inside a call of tile two"):
        second(x)
    third = sk.tile(f, name="two", context=context, replace=True, **COPY)
    np.testing.assert_array_equal(third(x), x)
    again = sk.tile(f, name="two", context=context, replace=True, **COPY)
    np.testing.assert_array_equal(again(x), x)
    with pytest.raises(sk.InvalidArgumentError, match=f"op is {third.op}, which is no tile of"):
        third(x)
    third.close()  # Was gone with its replacement; what has its name now is not touched.
    np.testing.assert_array_equal(again(x), x)


@pytest.mark.parametrize("name", ["self", "args", "given", "timeout", "out", "values", "x1"])
def test_names_of_arrays_and_numbers(context: sk.Context, name: str) -> None:
    def f(x: np.ndarray, y: np.ndarray, number: float) -> None:
        y[...] = number * x

    x = np.arange(5, dtype=np.float32)
    arrays = sk.tile(
        f,
        name="arrays",
        reads={name: ("f32", "m")},
        writes={"y": (name, "m")},
        parameters={"number": float},
        effect=f"y[i] = f({name}[i])",
        context=context,
    )
    np.testing.assert_array_equal(arrays(**{name: x, "number": 2}), 2 * x)
    np.testing.assert_array_equal(arrays(x, 3), 3 * x)
    arrays.check(**{name: x, "number": 2})
    arrays.check(x, 2)
    numbers = sk.tile(f, name="numbers", context=context, parameters={name: float}, **COPY)
    np.testing.assert_array_equal(numbers(x, **{name: 4.0}), 4 * x)
    numbers.check(x, **{name: 4.0})
    numbers.check(x, 4.0)


@pytest.mark.parametrize("axis", ["in", "if", "lambda", "is", "min1", "cdivs"])
def test_dimensions_may_be_words_of_pythons(context: sk.Context, axis: str) -> None:
    def f(x: np.ndarray, y: np.ndarray) -> None:
        y[...] = x.sum()

    shape = f"{axis}"
    try:
        tile = sk.tile(
            f,
            name="sums",
            reads={"x": ("f32", shape)},
            writes={"y": ("x", f"cdiv({axis}, 4) + max({axis}, 2)")},
            context=context,
        )
    except sk.InvalidArgumentError as error:  # A word that the library keeps, too.
        assert axis in str(error)
        return
    assert tile(np.ones(9, np.float32)).tolist() == [9.0] * 12


def test_shapes_that_are_divided_by_nothing(context: sk.Context) -> None:
    def f(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> None:
        y[...] = 1

    tile = sk.tile(
        f,
        reads={"x": ("f32", "m"), "w": ("f32", "n")},
        writes={"y": ("x", "cdiv(m, n)")},
        context=context,
    )
    full, empty = np.ones(5, np.float32), np.ones(0, np.float32)
    assert tile(full, full[:2]).size == 3
    assert tile(empty, full).size == 0
    with pytest.raises(sk.InvalidArgumentError, match="y .cdiv.m, n.. is divided by 0: m is 5, n"):
        tile(full, empty)


def test_results_that_share_memory_are_refused(context: sk.Context) -> None:
    """Also where copies go in the end, of which the library knows nothing."""

    def f(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
        y[...], z[...] = x, -x

    tile = sk.tile(
        f,
        reads={"x": ("f32", "m")},
        writes={"y": ("x", "m"), "z": ("x", "m")},
        effect="y[i] = f(x[i]); z[i] = g(x[i])",
        context=context,
    )
    x = np.arange(6, dtype=np.float32)
    room = np.zeros(40, np.float32)
    apart = [(room[0:12:2], room[1:12:2]), (room[0:6], room[6:18:2]), (room[11:5:-1], room[0:6])]
    for y, z in apart:
        tile(x, y=y, z=z)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(z, -x)
    before = room.copy()
    together = [
        (room[0:12:2], room[0:12:2]),
        (room[0:12:2], room[4:16:2]),
        (room[0:6], room[5:17:2]),
        (room[5:17:2], room[0:6]),
        (room[5::-1], room[0:6]),
        (room[0:6], room[3:9]),
        (room[0:18:3], room[0:12:2]),
    ]
    for y, z in together:
        with pytest.raises(sk.InvalidArgumentError):
            tile(x, y=y, z=z)
        np.testing.assert_array_equal(room, before)
    with pytest.raises(sk.InvalidArgumentError, match="z and y have elements in the same memory"):
        tile(x, y=room[0:12:2], z=room[4:16:2])
