"""The interpreter's end while daemon threads are inside calls of the library: quiet, whatever they
do just then."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# The thread calls for ever, and the main thread ends once it has begun. Before Python 3.14 a thread
# that asks for the interpreter's lock from then on is ended in there.
_PROGRAM = """
import sys, threading, time
import numpy as np
import libsk as sk

x = np.ones(8, np.float32)
begun = threading.Event()
COPY = dict(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")})


def pair(rank, name="pair"):
    return sk.Comm(rank=rank, world_size=2, bootstrap="threads", name=name, timeout=60)


def waits():
    comm = pair(0)
    begun.set()
    comm.barrier()


def is_alone():
    comm = sk.Comm()
    while True:
        comm.allreduce(x)
        begun.set()


def searches():
    begun.set()
    pair(0, "nobody else")


def is_refused():
    comm = sk.Comm()
    while True:
        try:
            comm.broadcast(x, root=3)
        except sk.Error:
            begun.set()


def is_local():
    while True:
        sk.rmsnorm(x, x)
        begun.set()


def fills(x, y):
    begun.set()
    for _ in range(100):
        y[...] = x


def has_a_tile():
    tile = sk.tile(fills, **COPY)
    while True:
        tile(x)


def sleeps(x, y):
    begun.set()
    time.sleep(0.4)  # tidy: allow sleep: the end is to come while a tile is in it


def has_a_tile_that_sleeps():
    sk.tile(sleeps, **COPY)(x)


def has_a_tile_in_rows():
    many = np.ones((1000, 1000), np.float32)
    tile = sk.tile(fills, reads={"x": ("f32", "m, n")}, writes={"y": ("x", "m, n")},
                   effect="y[i, j] = f(x[i, j])")
    while True:
        tile(many)


def logs():
    def log(*_):
        begun.set()
        sum(range(1000))

    while True:
        sk.Comm(context=sk.Context(log_level="debug", log=log)).free()


def plans():
    comm = sk.Comm()
    plan = comm.plan("allreduce", count=8)
    ready = comm.prepare("allreduce", x)
    while True:
        plan.run(x)
        ready.run()
        comm.pack(np.ones((8, 8), np.float32))
        begun.set()


if sys.argv[1] == "waits":
    peers = []
    threading.Thread(target=lambda: peers.append(pair(1)), daemon=True).start()
for _ in range(int(sys.argv[2])):
    threading.Thread(target=globals()[sys.argv[1]], daemon=True).start()
assert begun.wait(30)
time.sleep(0.05)  # tidy: allow sleep: any moment of the calls is right, the first least of all
"""


@pytest.mark.parametrize(
    ("what", "many"),
    [
        ("waits", 1),
        ("is_alone", 1),
        ("is_alone", 3),
        ("searches", 1),
        ("is_refused", 3),
        ("is_local", 1),
        ("is_local", 3),
        ("has_a_tile", 1),
        ("has_a_tile_that_sleeps", 1),
        ("has_a_tile_in_rows", 1),
        ("logs", 1),
        ("plans", 3),
    ],
)
def test_a_daemon_thread_inside_a_call(what: str, many: int) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, what, str(many)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_all_of_the_module_asks_for_the_lock_in_one_way() -> None:
    """That survives the end; what nanobind and Python have for it does not."""
    sources = Path(__file__).resolve().parents[1] / "src"
    if not sources.is_dir():
        pytest.skip("no sources here")
    others = re.compile(r"gil_scoped|PyGILState_Ensure|PyEval_(Save|Restore)Thread|ALLOW_THREADS")
    found = {path.name for path in sources.iterdir() if others.search(path.read_text())}
    assert found == {"gil.h", "local.cpp"}  # That forks, between the two halves.
