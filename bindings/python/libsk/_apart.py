"""Whether arrays of one call share memory, of which one is written: for those that are copied.

The library says so of memory that it sees, which is not that of arrays that were copied.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

import numpy as np

from libsk._errors import Error, invalid
from libsk._operand import Operand

Place = tuple[str, Operand, bool]
"""Its name, its memory, and whether it is written."""
_Extent = tuple[int, int, int]
"""Where a place begins and ends, and its number."""

_RUNS_OF_A_PAIR = 100
"""So many runs are sorted while two places are held against each other."""


def check_apart(places: list[Place]) -> None:
    """That what is written shares no byte with anything else.

    Places whose extents are apart are. Others may lie between each other, as columns do: few are
    held against each other one by one, and many laid out run by run, in the order of addresses.
    """
    extents = [(*place.extent(), i) for i, (_, place, _) in enumerate(places) if place.count]
    for group in _meeting(sorted(extents)):
        if not any(places[i][2] for _, _, i in group):
            continue
        begins = [begin for begin, _, _ in group]
        pairs = sum(bisect_left(begins, end) - at - 1 for at, (_, end, _) in enumerate(group))
        runs = sum(_run_count(places[i][1]) for _, _, i in group)
        (by_runs if runs < _RUNS_OF_A_PAIR * pairs else by_pairs)(places, group)


def _meeting(extents: Iterable[_Extent]) -> Iterator[list[_Extent]]:
    """Those of two places or more of which each reaches into others."""
    group: list[_Extent] = []
    reach = 0
    for extent in extents:
        if extent[0] >= reach:
            if len(group) > 1:
                yield group
            group = []
        group.append(extent)
        reach = max(reach, extent[1])
    if len(group) > 1:
        yield group


def by_pairs(places: list[Place], group: list[_Extent]) -> None:
    """One against the other, wherever their extents meet."""
    met: list[tuple[int, int]] = []  # Those that reach to where the next one begins, by their ends.
    for begin, end, i in group:
        _, place, written = places[i]
        met = [each for each in met if each[0] > begin]
        for _, j in met:
            _, before, is_written = places[j]
            if (written or is_written) and place.overlaps(before):
                raise _overlap(places, i, j)
        met.append((end, i))


def by_runs(places: list[Place], group: list[_Extent]) -> None:
    """All runs of bytes in one order: what is written begins behind all that began before, and
    everything behind what is written."""
    numbers = [i for _, _, i in group]
    found = [_runs(places[i][1]) for i in numbers]
    begins = np.concatenate([each for each, _ in found])
    counts = [each.size for each, _ in found]
    ends = begins + np.repeat([length for _, length in found], counts)
    owners = np.repeat(numbers, counts)
    order = np.argsort(begins, kind="stable")
    begins, ends, owners = begins[order], ends[order], owners[order]
    written = np.repeat([places[i][2] for i in numbers], counts)[order]
    none = begins[0]  # Nothing begins before that.
    all_ends, written_ends = ends, np.where(written, ends, none)
    reach, written_reach = (np.maximum.accumulate(each)[:-1] for each in (all_ends, written_ends))
    wrong = (begins[1:] < written_reach) | (written[1:] & (begins[1:] < reach))
    if not wrong.any():
        return
    at = int(wrong.argmax()) + 1
    before = all_ends if written[at] else written_ends
    raise _overlap(places, int(owners[at]), int(owners[before[:at].argmax()]))


def _overlap(places: list[Place], i: int, j: int) -> Error:
    first, second = (places[number][0] for number in sorted((i, j)))
    return invalid(
        f"{first} and {second} overlap: they have elements in the same memory; give each its own"
    )


def _sides(place: Operand) -> tuple[int, list[tuple[int, int]]]:
    """Bytes of one run, and how the runs lie: by how many bytes apart, and how many of them."""
    run = place.itemsize
    sides = []
    steps = place.strides or ()
    for step, size in sorted((abs(s), n) for s, n in zip(steps, place.shape, strict=False)):
        if step == run and not sides:
            run *= size
        elif step and size > 1:
            sides.append((step, size))
    return (run if steps else place.span[1]), sides


def _run_count(place: Operand) -> int:
    count = 1
    for _, size in _sides(place)[1]:
        count *= size
    return count


def _runs(place: Operand) -> tuple[np.ndarray, int]:
    """Where each begins, and the bytes of one."""
    run, sides = _sides(place)
    begins = np.array([place.extent()[0]], np.int64)
    for step, size in sides:
        begins = (begins[:, np.newaxis] + step * np.arange(size, dtype=np.int64)).reshape(-1)
    return begins, run
