"""Another user of this machine, who wishes us no good: a program run as nobody."""

from __future__ import annotations

import os
import subprocess

import pytest

NOBODY = 65534
LIMIT_S = 60


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Python `code` as nobody, its `arguments` in sys.argv[1:], its output in a pipe."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    return subprocess.Popen(
        ["/usr/bin/python3", "-I", "-S", "-c", code, *map(str, arguments)],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *arguments: object) -> str:
    """What it printed when it has ended."""
    process = start(code, *arguments)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    return out
