"""Processes and their memory, as the kernel of the operating system tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def descendants(pid: int) -> Iterator[int]:
    """All processes below `pid`, parents first."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = [int(word) for word in children.read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in found:
            yield child
            yield from descendants(child)


def command(pid: int) -> str:
    """Its command line, words apart by blanks; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kilobytes(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise ValueError(f"no {name} in {text[:80]!r}")


def pss_mb(pid: int) -> float:
    """Proportional set size: shared pages count by their share."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss") / 1024


def rss_mb(pid: int) -> float:
    """Resident set size."""
    return _kilobytes(Path(f"/proc/{pid}/status").read_text(), "VmRSS") / 1024
