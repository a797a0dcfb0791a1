"""A second interpreter of the process: refused, and the first one goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import _xxsubinterpreters as interpreters
import libsk as sk

comm = sk.Comm(rank=0, world_size=1, bootstrap="threads", name="main")
second = interpreters.create()
for text in ("from libsk import _core", "import libsk; libsk.Comm"):
    try:
        interpreters.run_string(second, text)
    except interpreters.RunFailedError as error:
        print(error)
    print(comm.allreduce(2.0))
interpreters.destroy(second)
print(comm.allreduce(3.0))
"""


def test_a_second_interpreter_is_refused() -> None:
    pytest.importorskip("_xxsubinterpreters")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    refused, first, _, second, third = done.stdout.splitlines()
    assert "main interpreter of a process only" in refused
    assert (first, second, third) == ("2.0", "2.0", "3.0")
