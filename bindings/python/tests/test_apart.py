"""Arrays of lists that are copied share no memory with what is written: by whichever way it is
found."""

from __future__ import annotations

from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _apart
from libsk._operand import Operand, laid_out

BYTES = 4


def place(name: str, view: np.ndarray, written: bool) -> _apart.Place:
    address = view.__array_interface__["data"][0]
    return name, laid_out(address, view.shape, view.strides, 1, False, view), written


def cells(view: np.ndarray) -> set[int]:
    """Where its elements lie."""
    address = view.__array_interface__["data"][0]
    at = np.array([address], np.int64)
    for size, step in zip(view.shape, view.strides, strict=True):
        at = (at[:, np.newaxis] + step * np.arange(size)).reshape(-1)
    return {int(each) for each in at}


def random_view(random: np.random.Generator, memory: np.ndarray) -> np.ndarray:
    """Of two dimensions, that may be turned or go backwards."""
    rows, columns = memory.shape
    (a, b), (c, d) = (sorted(random.integers(0, size + 1, 2)) for size in (rows, columns))
    step, turn = random.choice([1, 2, 3, 5, -1, -2], 2)
    view = memory[a:b][:: int(step), c:d][:, :: int(turn)]
    return view.T if random.integers(2) else view


def pairs_of(views: list[tuple[np.ndarray, bool]]) -> set[tuple[int, int]]:
    """Those that overlap, of which one is written."""
    return {
        (i, j)
        for j, (later, is_written) in enumerate(views)
        for i, (before, was_written) in enumerate(views[:j])
        if (is_written or was_written) and cells(later) & cells(before)
    }


@pytest.mark.parametrize("way", ["check_apart", "by_pairs", "by_runs"])
def test_both_ways_find_what_overlaps(way: str) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    random = np.random.default_rng(seed)
    seen = {True: 0, False: 0}
    for _ in range(400):
        memory = np.zeros((int(random.integers(1, 9)), int(random.integers(1, 9))), np.float32)
        views = [
            (random_view(random, memory), bool(random.integers(2)))
            for _ in range(int(random.integers(2, 5)))
        ]
        wanted = pairs_of(views)
        places = [place(str(i), *each) for i, each in enumerate(views)]
        extents = sorted(
            (*memory.extent(), i) for i, (_, memory, _) in enumerate(places) if memory.count
        )
        seen[bool(wanted)] += 1
        try:
            if way == "check_apart":
                _apart.check_apart(places)
            elif extents:
                getattr(_apart, way)(places, extents)
        except sk.InvalidArgumentError as error:
            first, _, second, *_ = str(error).split()
            assert (int(first), int(second)) in wanted, f"seed {seed}"
        else:
            assert not wanted, f"seed {seed}"
    assert min(seen.values()) > 20


def test_many_views_between_each_other_are_not_held_against_each_other(monkeypatch: Any) -> None:
    looks = 0
    overlaps = Operand.overlaps

    def counted(self: Operand, other: Operand) -> bool:
        nonlocal looks
        looks += 1
        return overlaps(self, other)

    monkeypatch.setattr(Operand, "overlaps", counted)
    count = 300
    wide = np.ones((40, count), np.float32)
    params = [wide[:, i] for i in range(count)]
    others = [[np.ones(40, np.float32) for _ in params] for _ in range(3)]
    sk.adamw(params, *others, lr=0.5, step=1)
    assert looks < 10 * count
    assert np.ptp(wide) == 0 and wide[0, 0] != 1
    params[7] = wide[:, 200]
    before = wide.copy()
    with pytest.raises(sk.InvalidArgumentError, match=r"params\[7\] and params\[200\] overlap"):
        sk.adamw(params, *others, lr=0.5, step=1)
    np.testing.assert_array_equal(wide, before)


def test_few_large_ones_are_held_against_each_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(_apart, "by_runs", None)
    line = np.ones(60000, np.float32)
    params = [line[::2], line[1::2]]
    others = [[np.ones(p.shape, np.float32) for p in params] for _ in range(3)]
    sk.adamw(params, *others, lr=0.5, step=1)
    assert np.ptp(line) == 0
