"""Where the two cores lay while a batch of calls ran, and which batches may be compared.

A host may move its virtual cores between one physical core and two within a second, and all that
passes between cores changes severalfold with it. Nothing is thrown away for that: every batch
stands between two looks at the cores (e2e/place.h) and belongs to the class that both agree on;
figures, ratios and goals are of one class each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from measure.stats import PROBE_MOVE_MAX, median

NEAR, MID, FAR = "near", "mid", "far"
ONLY = "all"  # Where nobody looked: one core, or what is not judged by its place.
TITLES = {
    NEAR: "near: both on one physical core",
    MID: "mid: two cores that share a cache",
    FAR: "far: two cores",
    ONLY: "",
}
SHARED_MAX = 0.75  # Pace beside the other core over pace alone: 0.5 on one physical core, else 1.
GAP_MIN = (
    1.6  # Between the hand-off times of cores that share a last cache and of those that do not.
)
CALM_SHARE_MIN = 0.05  # Of the looks, on either side of such a gap; fewer are outliers.


@dataclass(frozen=True)
class Look:
    """One look at the cores, as programs print it."""

    handoff_ns: float
    together: float
    chain_us: float


def looks_of(line: dict[str, Any]) -> tuple[Look, Look] | None:
    """Those before and after the calls of a line; None where there were none."""
    pair = line.get("place")
    return (Look(*pair[0]), Look(*pair[1])) if pair else None


@dataclass(frozen=True)
class Placement:
    """How a run's looks fall into classes."""

    boundary_ns: float = 0.0  # Between mid and far; 0: two cores are just far.

    def of(self, look: Look) -> str:
        if look.together < SHARED_MAX:
            return NEAR
        return MID if look.handoff_ns < self.boundary_ns else FAR

    def of_line(self, line: dict[str, Any]) -> str:
        """The class of a batch; "" where the cores or their clock moved while it ran."""
        looks = looks_of(line)
        if looks is None:
            return ONLY
        before, after = looks
        if abs(after.chain_us / before.chain_us - 1.0) > PROBE_MOVE_MAX:
            return ""
        name = self.of(before)
        return name if self.of(after) == name else ""


def boundary(handoffs_ns: Sequence[float]) -> float:
    """The middle of the widest gap between two groups of hand-off times; 0 where there is none."""
    ordered = sorted(value for value in handoffs_ns if value > 0.0)
    least = max(1, round(CALM_SHARE_MIN * len(ordered)))
    widest, middle = GAP_MIN, 0.0
    for at in range(least, len(ordered) - least + 1):
        low, high = ordered[at - 1], ordered[at]
        if high / low >= widest:
            widest, middle = high / low, (low * high) ** 0.5
    return middle


def placement_of(lines: Iterable[dict[str, Any]]) -> Placement:
    """From all looks of a run at two separate cores."""
    looks = [look for line in lines for look in looks_of(line) or ()]
    return Placement(boundary([x.handoff_ns for x in looks if x.together >= SHARED_MAX]))


def tally(lines: Iterable[dict[str, Any]], placement: Placement) -> dict[str, Any]:
    """Per class, how many batches it holds and its usual look; "moved" counts the others."""
    held: dict[str, list[tuple[Look, Look] | None]] = {}
    for line in lines:
        held.setdefault(placement.of_line(line), []).append(looks_of(line))
    moved = len(held.pop("", []))
    classes = {name: _about(pairs) for name, pairs in sorted(held.items())}
    return {"boundary_ns": round(placement.boundary_ns, 1), "moved": moved, "classes": classes}


def _about(pairs: list[tuple[Look, Look] | None]) -> dict[str, Any]:
    looks = [look for pair in pairs if pair for look in pair]
    if not looks:
        return {"batches": len(pairs)}
    return {
        "batches": len(pairs),
        "handoff_ns": round(median([look.handoff_ns for look in looks]), 1),
        "together": round(median([look.together for look in looks]), 3),
    }
