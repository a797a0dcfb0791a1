"""Processes as the tests see them: who lives, below whom, and waiting for a change."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT = 60.0


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, by the kernel's own lists."""
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").glob("*/children"))
    except (FileNotFoundError, ProcessLookupError):
        return []  # It has ended since it was listed.
    for children in threads:
        for child in map(int, _read(children).split()):
            found += [child, *descendants(child)]
    return found


def _read(path: Path) -> str:
    """A file of a process or thread; empty when that has ended meanwhile."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # The latter: between open() and read().
        return ""


def number_within(pid: int) -> int:
    """The number that a process has in the innermost space of numbers that it is in."""
    lines = _read(Path(f"/proc/{pid}/status")).splitlines()
    return next(int(line.split()[-1]) for line in lines if line.startswith("NSpid:"))


def alive(pid: int) -> bool:
    """Whether `pid` still runs (a zombie does not)."""
    stat = _read(Path(f"/proc/{pid}/stat"))
    return stat != "" and stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def wait_until(condition: Callable[[], bool], seconds: float = TIMEOUT) -> bool:
    """Polls `condition`; False when it did not come true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return condition()
