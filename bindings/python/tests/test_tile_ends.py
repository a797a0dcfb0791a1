"""What Python's collector ends wherever it happens to run: while a tile is made, and inside one,
where the library lets nobody wait. Nothing hangs, and nothing stays for good."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = '''
import gc, os, random, signal, weakref
import numpy as np
import libsk as sk

COPY = dict(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")})
x = np.ones(3, np.float32)


def copy(x, y):
    y[:] = x


def in_cycle(*held):
    held[0].append(held)  # Only the collector ends this.


def until_handled(times, handle, body):
    """The body again and again, until a handler has interrupted it so many times."""
    ran = 0

    def handler(*_):
        nonlocal ran
        handle()
        ran += 1

    signal.signal(signal.SIGALRM, handler)
    while ran < times:
        before = ran
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 2e-4))
        while ran == before:
            body()


# What is collected inside of it, once it is asked for.
collects = False
around = sk.Context()


@sk.tile(**COPY, context=around)
def outer(x, y):
    if collects:
        gc.collect()
    y[:] = x


def rss_mib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20


gc.collect()
'''


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM + program], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_collector_ends_tiles_while_others_are_made() -> None:
    out = run("""
for number in range(5000):
    in_cycle([], sk.tile(copy, name=f"made{number}", context=around, **COPY))
gc.collect()
print(sk.tile(copy, name="made7", context=around, **COPY)(x))
""")
    assert out == "[1. 1. 1.]\n"


def test_a_handler_makes_and_closes_tiles_while_its_thread_does() -> None:
    out = run("""
numbers = iter(range(10**6))
def makes():
    sk.tile(copy, name=f"made{next(numbers)}", context=around, **COPY).close()
until_handled(300, makes, makes)
print(sk.tile(copy, name="made7", context=around, **COPY)(x))
""")
    assert out == "[1. 1. 1.]\n"


def test_a_handler_needs_the_default_context_while_its_thread_makes_it() -> None:
    out = run("""
from libsk import _context
def again():
    _context._default = None
    assert type(_context.default_context()) is sk.Context
until_handled(300, _context.default_context, again)
print(sk.rmsnorm(x, x, eps=0.0))
""")
    assert out == "[1. 1. 1.]\n"


@pytest.mark.parametrize("how", ["collected", "dropped"])
def test_a_communicator_and_its_context_end_behind_a_tile(how: str) -> None:
    """With all that is of them: the context's log function goes when it has ended, and it does not
    end before its communicators."""
    out = run(f"""
gc.disable()

def log(*_):
    pass

context = sk.Context(log=log)
comm = sk.Comm(bootstrap="threads", rank=0, world_size=1, name="goes", context=context)
made = [comm, comm.pack(np.ones((4, 4), np.float32)), comm.prepare("allreduce", x, out=x),
        comm.plan("allreduce", count=3), sk.tile(copy, name="goes", context=context, **COPY)]
seen = weakref.ref(log)
if {how == "collected"}:
    in_cycle(made)
    collects = True
    del log, context, comm, made
    outer(x)
else:
    @sk.tile(**COPY, context=around)
    def drops(x, y):
        globals().pop("made"), globals().pop("comm"), globals().pop("context")
        y[:] = x
    del log
    drops(x)
sk.rmsnorm(x, x)
print(seen())
""")
    assert out == "None\n"


def test_weights_are_given_back_behind_a_tile() -> None:
    out = run("""
gc.disable()
comm, collects = sk.Comm(context=around), True
for number in range(40):
    in_cycle([], comm.pack(np.ones((1024, 1024), np.float32)))
    outer(x)
    if number == 0:
        before = rss_mib()
print(rss_mib() - before)
""")
    assert int(out) < 80  # Of 160 that went.


@pytest.mark.parametrize(
    "make", ['comm.prepare("allreduce", x, out=x)', 'comm.plan("allreduce", count=3)']
)
def test_handles_of_calls_are_given_back_behind_a_tile(make: str) -> None:
    """Of which there are 16,384 in a process."""
    out = run(f"""
gc.disable()
comm, collects = sk.Comm(context=around), True
for _ in range(2):
    in_cycle([{make} for _ in range(9000)])
    outer(x)
print(comm.allreduce(x))
""")
    assert out == "[1. 1. 1.]\n"


def test_an_end_that_a_tile_is_in_the_way_of_is_said_to_who_asks() -> None:
    out = run("""
comm = sk.Comm(context=around)

@sk.tile(**COPY, context=around)
def frees(x, y):
    comm.free()

try:
    frees(x)
except sk.BusyError:
    print(comm.allreduce(x))
comm.free()
""")
    assert out == "[1. 1. 1.]\n"
