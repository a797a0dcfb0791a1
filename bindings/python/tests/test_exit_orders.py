"""The interpreter's end with objects in any state, in any order, by any way out: a quiet one."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

SEED = int(os.environ.get("SK_TEST_SEED", str(random.SystemRandom().randrange(1 << 30))))
ORDERS = 8  # Of each way out.
LIMIT_S = 120

# Makes objects, lets go of some in an order, and ends while the others live: as globals, behind a
# hook of exit, in a circle, or held by a thread.
_PROGRAM = """
import atexit, os, random, sys, threading
import numpy as np
import libsk as sk

way, draw = sys.argv[1], random.Random(int(sys.argv[2]))
x = np.ones(8, np.float32)
COPY = dict(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")})


def copies(x, y):
    y[...] = x


context = sk.Context()
comm = sk.Comm(context=context)
kept = {
    "context": context,
    "comm": comm,
    "plan": comm.plan("allreduce", count=8),
    "prepared": comm.prepare("allreduce", x),
    "packed": comm.pack(np.ones((8, 8), np.float32)),
    "empty": comm.empty(8),
    "tile": sk.tile(copies, **COPY),
    "result": comm.allreduce(x),
}
del context, comm
names = list(kept)
draw.shuffle(names)


class Circle:
    def __init__(self, what):
        self.what, self.self = what, self


for name in names[: draw.randrange(len(names) + 1)]:
    what = kept.pop(name)
    how = draw.randrange(5)
    if how == 0:
        del what
    elif how == 1:
        Circle(what)
    elif how == 2:
        globals()["global_" + name] = what
    elif how == 3:
        atexit.register(lambda what=what: getattr(what, "free", getattr(what, "close", int))())
    else:
        threading.Thread(target=lambda what=what: threading.Event().wait(), daemon=True).start()
if draw.random() < 0.5 and "comm" in kept:
    kept["comm"].free()

if way == "returns":
    pass
elif way == "exits":
    sys.exit(7)
elif way == "raises":
    raise KeyError("an error of the program's")
elif way == "exits at once":
    os._exit(7)
elif way == "exits in a hook":
    atexit.register(os._exit, 7)
elif way == "is told to end":
    os.kill(os.getpid(), 15)
"""

WAYS = {
    "returns": 0,
    "exits": 7,
    "raises": 1,
    "exits at once": 7,
    "exits in a hook": 7,
    "is told to end": -15,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_ends_whatever_it_still_has(way: str) -> None:
    for seed in range(SEED, SEED + ORDERS):
        print(f"SK_TEST_SEED={seed}")
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, way, str(seed)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == WAYS[way], done.stderr
        if way == "raises":
            assert done.stderr.count("Traceback") == 1
            assert done.stderr.splitlines()[-1] == 'KeyError: "an error of the program\'s"'
        else:
            assert done.stderr == ""
