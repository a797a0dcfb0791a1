"""What ranks of launched.c and launched.py say, and what they are to say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

COUNT = 70001
PLACE = re.compile(r"place of rank (\d+): (\S+), (\d+) of (\d+) there")


@dataclass
class Said:
    """Lines of a world, sorted by what they are."""

    results: list[str] = field(default_factory=list)
    places: dict[int, tuple[str, int, int]] = field(default_factory=dict)


def read(text: str) -> Said:
    """Of all that a launcher printed."""
    said = Said()
    for line in text.splitlines():
        if place := PLACE.fullmatch(line):
            rank, host, local_rank, local_size = place.groups()
            said.places[int(rank)] = (host, int(local_rank), int(local_size))
        elif line.startswith("rank "):
            said.results.append(line)
    said.results.sort()
    return said


def due(size: int) -> list[str]:
    """The results of a world, computed without a rank."""
    total = sum(
        sum((i + 1) * (r + 1) % 1009 for r in range(size)) * (i % 17 + 1) for i in range(COUNT)
    )
    each = [100 + r * r for r in range(size)]
    gathered = " ".join(map(str, each))
    return [
        f"rank {r} of {size}: sum {total}, gathered {gathered}, from the left {each[r - 1]}"
        for r in range(size)
    ]
