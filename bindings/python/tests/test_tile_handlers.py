"""Handlers of signals, and forks, while a thread is inside a call of a tile, or waits
for its turn: whoever must not wait is refused, and nobody hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal, subprocess, threading
import numpy as np
import libsk as sk

COPY = dict(reads={"x": ("f32", "m")}, writes={"y": ("x", "m")})
x = np.ones(3, np.float32)
own = os.getpid()
inside, release = threading.Event(), threading.Event()


@sk.tile(**COPY)
def waits(x, y):
    inside.set()
    release.wait(60)
    y[:] = x


@sk.tile(**COPY)
def copies(x, y):
    y[:] = x


def forks():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def starts():
    return subprocess.run(["false"], preexec_fn=lambda: None).returncode


def checks():
    copies.check(x)
    return forks()
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM + program], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("work", ["forks", "starts", "checks"])
def test_a_handler_forks_while_its_thread_waits_for_a_check(work: str) -> None:
    """The child asks for the handler, and goes on when that is done."""
    out = run(f"""
done, write = os.pipe()
codes = []

def handler(*_):
    codes.append({work}())
    os.write(write, b"x")

signal.signal(signal.SIGUSR1, handler)

@sk.tile(**COPY)
def asks(x, y):
    os.kill(own, signal.SIGUSR1)
    os.read(done, 1)
    y[:] = x

asks.check(x)
print(len(codes) > 0, set(codes), copies(x), {work}())
""")
    code = 1 if work == "starts" else 7
    assert out == f"True {{{code}}} [1. 1. 1.] {code}\n"


@pytest.mark.parametrize("work", ["forks", "starts"])
def test_a_function_forks_while_it_is_checked(work: str) -> None:
    out = run(f"""
@sk.tile(**COPY)
def itself(x, y):
    {work}()
    y[:] = x

itself.check(x)
print(itself(x))
""")
    assert out == "[1. 1. 1.]\n"


def test_a_handler_calls_the_tile_whose_turn_its_thread_waits_for() -> None:
    """Signals come until one is refused; that one lets the other thread go on."""
    out = run("""
said = []

def handler(*_):
    try:
        copies(x)
    except sk.BusyError as error:
        said.append(str(error))
        release.set()

def sends():
    while not release.wait(0.05):
        os.kill(own, signal.SIGUSR1)

signal.signal(signal.SIGUSR1, handler)
threads = [threading.Thread(target=waits, args=(x,)), threading.Thread(target=sends)]
threads[0].start()
inside.wait()
threads[1].start()
print(copies(x))
for thread in threads:
    thread.join()
print(said[0])
print(copies(x))
""")
    assert out == (
        "[1. 1. 1.]\n"
        "tile copies was called by what interrupts this thread's call of it, as a handler of a"
        " signal does: that call is not over\n"
        "[1. 1. 1.]\n"
    )


def test_a_child_that_is_forked_while_another_thread_is_inside_a_tile() -> None:
    out = run("""
thread = threading.Thread(target=waits, args=(x,))
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(30)  # Ends it where it hangs.
    try:
        waits(x)
    except sk.ForkedError:
        made = sk.tile(waits._function, name="again", **COPY)
        release.set()
        os._exit(int(made(x).sum()))
    os._exit(0)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
release.set()
thread.join()
print(code, waits(x))
""")
    assert out == "3 [1. 1. 1.]\n"
