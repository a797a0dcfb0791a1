"""Calls in place whose arrays lie differently on different ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest

Ranks = Callable[..., list[Any]]
WORLD = 3


def unaligned(shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape)) * 4
    return np.frombuffer(bytearray(size + 3), np.uint8)[3:].view(np.float32).reshape(shape)


LAYOUTS: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "by columns": lambda shape: np.zeros(shape, np.float32, order="F"),
    "rows apart": lambda shape: np.zeros((shape[0], 2, *shape[1:]), np.float32)[:, 1],
    "backwards": lambda shape: np.zeros(shape, np.float32)[::-1],
    "unaligned": unaligned,
}


def place(comm: sk.Comm, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Rank 1's in that layout, the others' row-major, with numbers of the rank's."""
    made = LAYOUTS[layout](shape) if comm.rank == 1 else np.zeros(shape, np.float32)
    made[...] = np.arange(made.size).reshape(shape) + 100 * comm.rank
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_the_input_is(ranks: Ranks, layout: str) -> None:
    shape = (WORLD, 4)
    numbers = np.arange(12).reshape(shape)

    def body(comm: sk.Comm) -> None:
        x = place(comm, layout, shape)
        assert comm.allreduce(x, out=x) is x
        assert np.array_equal(x, WORLD * numbers + 300)
        x = place(comm, layout, shape)
        comm.broadcast(x, 1, out=x)
        assert np.array_equal(x, numbers + 100)
        x = place(comm, layout, shape)
        plan = comm.plan("allreduce", count=12, in_place=True)
        assert plan.run(x, out=x) is x
        assert np.array_equal(x, WORLD * numbers + 300)

    ranks(WORLD, body, timeout=5.0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(WORLD, 4), (WORLD, 2, 3), (WORLD, 1)])
def test_where_the_input_is_a_part(ranks: Ranks, layout: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    numbers = np.arange(size).reshape(shape)

    def body(comm: sk.Comm) -> None:
        out = place(comm, layout, shape)
        comm.allgather(out[comm.rank], out=out)
        for rank in range(WORLD):
            assert np.array_equal(out[rank], numbers[rank] + 100 * rank)
        x = place(comm, layout, shape)
        mine = x[comm.rank : comm.rank + 1]
        assert comm.reduce_scatter(x, out=mine) is mine
        assert np.array_equal(mine[0], WORLD * numbers[comm.rank] + 300)

    ranks(WORLD, body, timeout=5.0)
