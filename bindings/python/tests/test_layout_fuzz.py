"""The fuzzer of layouts runs for seconds, and finds what was planted."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_layouts import heap

_FUZZER = Path(__file__).with_name("fuzz_layouts.py")
_OVERFLOWS = {
    "glibc": """
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = libc.malloc(100)
ctypes.memset(block, 0, 101)
libc.free(ctypes.c_void_p(block))
""",
    "Python": """
text = bytes(range(100))
ctypes.memset(id(text) + sys.getsizeof(text), 0, 1)
del text
""",
}
_SECONDS = os.environ.get("SK_FUZZ_SECONDS", "8")


def run(*options: str) -> tuple[int, str]:
    """Its status, and all it said."""
    done = subprocess.run(
        [sys.executable, "-B", str(_FUZZER), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=float(_SECONDS) + 240,
    )
    print(done.stdout)
    return done.returncode, done.stdout


def test_random_layouts_in_a_checked_heap() -> None:
    seed = os.environ.get("SK_TEST_SEED", str(random.randrange(2**32)))
    status, said = run("--seconds", _SECONDS, "--seed", seed)
    assert status == 0, said
    assert "0 failures in " in said


@pytest.mark.parametrize("allocator", _OVERFLOWS)
def test_the_heap_checks_itself(allocator: str) -> None:
    """One byte behind a block of each allocator ends the process when the block is given back."""
    checked = heap.environment()
    if allocator == "glibc" and "LD_PRELOAD" not in checked:
        pytest.skip(checked[heap.NAME])
    program = f"import ctypes, sys{_OVERFLOWS[allocator]}"
    env = {key: value for key, value in os.environ.items() if key not in checked}
    assert subprocess.run([sys.executable, "-c", program], env={**env, **checked}).returncode == -6


# A product of bf16 bits into a new f32 array, on two ranks.
_CASE = ("--seed", "3", "--case", "51", "--ranks", "2")


@pytest.mark.parametrize(
    ("bug", "sentence"),
    [
        ("size", "InternalError: the call would touch"),
        ("span", "Segmentation fault"),  # At the page behind the array.
    ],
)
def test_a_planted_bug_is_found(bug: str, sentence: str) -> None:
    assert run(*_CASE)[0] == 0
    status, said = run(*_CASE, "--plant", bug)
    assert status == 1 and sentence in said
    assert f"in: {' '.join(_CASE)}" in said
