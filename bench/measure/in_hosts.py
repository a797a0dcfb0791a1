"""Measuring programs in hosts that are namespaces (tests/support/hosts.py): one process a rank."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.launch import LaunchError

REPO = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPO / "tests" / "support"))

from hosts import Host, Hosts, NoHostsError, why_not  # noqa: E402

__all__ = ["Host", "Hosts", "NoHostsError", "as_rank", "json_lines_of", "why_not"]

BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}


def as_rank(places: Sequence[Host], rank: int, port: int) -> dict[str, str]:
    """The environment by which libsk's ranks find each other; `places` has a host for each rank."""
    return {
        "SK_BOOTSTRAP": "env",
        "SK_JOB_SECRET": "nobody else is on these links",
        "RANK": str(rank),
        "WORLD_SIZE": str(len(places)),
        "LOCAL_WORLD_SIZE": str(list(places).count(places[rank])),
        "MASTER_ADDR": places[0].ip4,
        "MASTER_PORT": str(port),
    }


def json_lines_of(
    places: Sequence[Host],
    command: Callable[[int], Sequence[str]],
    env: Callable[[int], Mapping[str, str]],
    timeout_s: float,
) -> list[dict[str, Any]]:
    """The JSON objects that the ranks print, one rank after the other; all have ended."""
    pipe = subprocess.PIPE
    ranks = [
        place.popen(command(rank), env={**BASE, **env(rank)}, stdout=pipe, stderr=pipe)
        for rank, place in enumerate(places)
    ]
    end = time.monotonic() + timeout_s
    name = Path(command(0)[0]).name
    failed, lines = "", []
    for rank, program in enumerate(ranks):
        try:
            # Who has to wait for one that failed is not waited for.
            left = end - time.monotonic() if not failed else 2.0
            out, err = program.communicate(timeout=max(left, 0.1))
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()
            failed = failed or f"{name}: rank {rank} did not end within {timeout_s:.0f} s"
            continue
        if program.returncode != 0 and not failed:
            tail = " | ".join(err.strip().splitlines()[-3:])
            failed = f"{name}: rank {rank} ended with {program.returncode}: {tail}"
        lines += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    for place in set(places):
        place.programs = [each for each in place.programs if each.poll() is None]
    if failed:
        raise LaunchError(failed)
    if not lines:
        raise LaunchError(f"{name} printed no result")
    return lines
