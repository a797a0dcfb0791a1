"""Runs one measuring program and reads its JSON lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class LaunchError(RuntimeError):
    """A program failed, printed nonsense, or did not end in time. The sentence says which."""


def json_lines(
    command: Sequence[str], env: Mapping[str, str] | None = None, timeout_s: float = 300.0
) -> list[dict[str, Any]]:
    """The JSON objects on the program's stdout. Its whole process group ends with it.

    `env` replaces PATH and adds variables; nothing else of the caller's environment that could
    steer a peer (OMP_*, MKL_*, I_MPI_*) is passed on.
    """
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    program = subprocess.Popen(
        list(command),
        env={**base, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    name = Path(command[0]).name
    try:
        out, err = program.communicate(timeout=timeout_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
        os.killpg(program.pid, signal.SIGKILL)
        program.communicate()
        if isinstance(stop, KeyboardInterrupt):
            raise
        raise LaunchError(f"{name} did not end within {timeout_s:.0f} s") from None
    if program.returncode != 0:
        tail = " | ".join(err.strip().splitlines()[-3:])
        raise LaunchError(f"{name} ended with {program.returncode}: {tail}")
    lines = []
    for line in out.splitlines():
        if not line.startswith("{"):
            continue  # An MPI's own greeting.
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise LaunchError(f"{name} printed a broken line: {error}") from None
    if not lines:
        raise LaunchError(f"{name} printed no result")
    return lines


class Area:
    """The file that the ranks of one launch map (harness.h), zero-filled, gone afterwards."""

    BYTES = 2 << 20  # At least sizeof(bench_area); the program checks nothing beyond mapping.

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"sk-bench-{os.getpid()}.area"

    def __enter__(self) -> str:
        with self.path.open("wb") as file:
            file.truncate(self.BYTES)
        return str(self.path)

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
