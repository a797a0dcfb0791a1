"""A rank of any launcher: says the same as launched.c, of the same numbers."""

from __future__ import annotations

import os
import socket

import libsk as sk
import numpy as np

COUNT = 70001


def pass_on(comm: sk.Comm, mine: np.ndarray) -> np.ndarray:
    """What the left neighbour had. Even ranks send first, for a send waits for its receiver."""
    size = comm.world_size
    right, left = (comm.rank + 1) % size, (comm.rank - 1) % size
    got = mine.copy()
    if size == 1:
        return got
    if comm.rank % 2 == 0:
        comm.send(mine, right)
        comm.recv(got, left)
    else:
        comm.recv(got, left)
        comm.send(mine, right)
    return got


def main() -> None:
    """Prints in one write, for launchers put the lines of ranks together as they come."""
    comm = sk.Comm(bootstrap="env", timeout=60.0)
    index = np.arange(COUNT, dtype=np.int64)
    total = comm.allreduce((index + 1) * (comm.rank + 1) % 1009)
    mine = np.array([100 + comm.rank**2], dtype=np.int64)
    gathered = " ".join(str(each) for each in comm.allgather(mine).ravel())
    text = f"rank {comm.rank} of {comm.world_size}: sum {(total * (index % 17 + 1)).sum()}, "
    text += f"gathered {gathered}, from the left {pass_on(comm, mine)[0]}\n"
    text += f"place of rank {comm.rank}: {socket.gethostname()}, "
    text += f"{comm.local_rank} of {comm.info()['local_size']} there\n"
    os.write(1, text.encode())
    comm.free()


if __name__ == "__main__":
    main()
