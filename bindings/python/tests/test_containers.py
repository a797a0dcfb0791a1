"""Ranks in containers of their own on one network: one host, which they share memory on."""

import os
import socket
import subprocess
import sys

import pytest

UNSHARE = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]

PROGRAM = """
import os, sys, time
import numpy as np
import libsk
comm = libsk.comm()
x = np.full(1000, comm.rank + 1.0, np.float32)
info = comm.info()
print(info["mapped"], info["local_size"], float(comm.allreduce(x)[0]), flush=True)
if sys.argv[1:] == ["dies"]:
    if comm.rank == 1:
        sys.stdin.readline()
        os._exit(9)  # The first process of its PIDs, which no signal from there kills.
    try:
        comm.barrier()
    except libsk.PeerLostError as lost:
        print(lost, flush=True)
else:
    comm.barrier()
"""


def start(rank: int, size: int, port: int, contained: bool, *arguments: str) -> subprocess.Popen:
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "SK_JOB_SECRET": "a secret of the tests",
    }
    return subprocess.Popen(
        [*(UNSHARE if contained else []), sys.executable, "-c", PROGRAM, *arguments],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(autouse=True)
def _needs_unshare() -> None:
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        pytest.skip("no container can be made here: unshare refuses")


def test_containers_share_memory() -> None:
    port = free_port()
    ranks = [start(rank, 3, port, contained=rank != 1) for rank in range(3)]
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        assert (rank.returncode, out) == (0, "True 3 6.0\n"), err


def test_the_end_of_one_is_seen_where_pids_are_not() -> None:
    port = free_port()
    ranks = [start(rank, 3, port, True, "dies") for rank in range(3)]
    for rank in ranks:
        assert rank.stdout is not None
        assert rank.stdout.readline() == "True 3 6.0\n"
    assert ranks[1].stdin is not None
    ranks[1].stdin.write("\n")
    ranks[1].stdin.flush()
    for rank in (ranks[0], ranks[2]):
        out, err = rank.communicate(timeout=60)
        assert out == "rank 1 died\n", (out, err)
    ranks[1].kill()
    ranks[1].communicate(timeout=60)
