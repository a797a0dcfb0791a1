"""Processes whose address space or files are limited: worlds that ask for nothing special fit."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys, threading
import numpy as np
import libsk as sk

kind, gigabytes = getattr(resource, sys.argv[1]), float(sys.argv[2])
limit = int(gigabytes * 2**30)
resource.setrlimit(kind, (limit, limit))


def rank(number):
    with sk.Comm(rank=number, world_size=2, bootstrap="threads", timeout=20) as comm:
        x = comm.empty(1 << 16)
        x[:] = number + 1
        sums[number] = comm.allreduce(x).sum() + comm.allreduce(np.ones(1 << 20))[0]


sums = [0, 0]
threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sums)
"""


@pytest.mark.parametrize(("kind", "gigabytes"), [("RLIMIT_AS", "8"), ("RLIMIT_FSIZE", "1")])
def test_what_is_reserved_fits_the_limit(kind: str, gigabytes: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind, gigabytes],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(float(3 * 2**16 + 2))] * 2, done.stderr
