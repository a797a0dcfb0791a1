"""Pure statistics of the protocol: ABBA orders, medians, spreads, the discard rule, verdicts.

A *round* runs every candidate twice, in an order that reads the same backwards (A B C C B A), so
that a drift of the machine within the round falls on all alike. A candidate's figure in a round is
the median of both visits' samples; the two visits against each other give the A/A spread, which is
what the machine does to a ratio without any cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PROBE_MOVE_MAX = 0.03  # Of the clock probe, between a round's two ends.
FOREIGN_CPU_MAX = 0.05  # Cores, taken by processes that are not the benchmark's.
ROUNDS_MIN = 3  # That hold both candidates of a comparison.
WIN_SPREADS = 2.0  # A difference counts when it exceeds this many A/A spreads.


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number, the mean of the two in the middle."""
    if not values:
        raise ValueError("median of no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics; share 0 is the least value, 1 the largest."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(values: Sequence[float]) -> float:
    """Half the distance of the quartiles over the median: 0.02 reads as "±2 %"."""
    return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / median(values)


def abba(candidates: Sequence[str]) -> list[str]:
    """The palindromic order of one round: every candidate twice."""
    return [*candidates, *reversed(candidates)]


def aa_spread(first: Sequence[float], second: Sequence[float]) -> float:
    """How far two visits of the same candidate are apart: larger median over smaller, less one."""
    a, b = median(first), median(second)
    return max(a, b) / min(a, b) - 1.0


def discard_reason(
    clock_before: Mapping[int, float],
    clock_after: Mapping[int, float],
    foreign_cores: float,
    stolen_cores: float = 0.0,
) -> str:
    """Why a round does not count, or "". Clocks are per core, in any unit that follows the clock.

    A core that one reading lacks makes the round invalid: it cannot be judged.
    """
    if set(clock_before) != set(clock_after) or not clock_before:
        return "the clock was not read on the same cores before and after"
    for core, before in clock_before.items():
        moved = abs(clock_after[core] / before - 1.0)
        if moved > PROBE_MOVE_MAX:
            return f"the clock of core {core} moved by {moved:.1%}"
    return taken_reason(foreign_cores, stolen_cores)


def taken_reason(foreign_cores: float, stolen_cores: float) -> str:
    """Why what ran meanwhile does not count, or "": others had too much of the cores."""
    if foreign_cores > FOREIGN_CPU_MAX:
        return f"other processes took {foreign_cores:.0%} of a core"
    if stolen_cores > FOREIGN_CPU_MAX:
        return f"the host took {stolen_cores:.0%} of a core"
    return ""


@dataclass(frozen=True)
class Comparison:
    """One candidate against another over all rounds that count."""

    ratio: float  # Of medians: other / ours. Above 1, ours is faster.
    low: float  # Quartiles of the rounds' own ratios.
    high: float
    aa: float  # Median A/A spread, the larger of the two candidates'.
    rounds: int

    @property
    def proven(self) -> bool:
        """Whether the difference is larger than what the machine does without a cause."""
        return abs(self.ratio - 1.0) > WIN_SPREADS * self.aa

    def as_dict(self) -> dict[str, float | int | bool]:
        """For the result file."""
        return {
            "ratio": round(self.ratio, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "aa_spread": round(self.aa, 4),
            "rounds": self.rounds,
            "beyond_aa": self.proven,
        }


# The samples of a round's two visits; a visit may have none that count, and so may a round.
Visits = tuple[Sequence[float], Sequence[float]]


def pooled(rounds: Sequence[Visits]) -> list[float]:
    """All samples."""
    return [value for pair in rounds for visit in pair for value in visit]


def round_medians(rounds: Sequence[Visits]) -> list[float]:
    """Of the rounds that have samples."""
    return [median([*pair[0], *pair[1]]) for pair in rounds if pair[0] or pair[1]]


def _aa(rounds: Sequence[Visits]) -> float:
    """Over the rounds with samples in both visits; infinite without any, so nothing is proven."""
    spreads = [aa_spread(*pair) for pair in rounds if pair[0] and pair[1]]
    return median(spreads) if spreads else math.inf


def compare_if(
    ours: Sequence[Visits], other: Sequence[Visits], rounds_least: int
) -> Comparison | None:
    """None where too few rounds have both."""
    if not ours or not other:
        return None
    both = sum(1 for a, b in zip(ours, other, strict=True) if any(a) and any(b))
    return compare(ours, other) if both >= rounds_least else None


def compare(ours: Sequence[Visits], other: Sequence[Visits]) -> Comparison:
    """`ours[i]` and `other[i]` are the visits of round i. Rounds that lack one of the two are left
    out of the ratio, for a drift from round to round must fall on both."""
    if len(ours) != len(other):
        raise ValueError(f"{len(ours)} rounds of one candidate and {len(other)} of the other")
    both = [(a, b) for a, b in zip(ours, other, strict=True) if any(a) and any(b)]
    if not both:
        raise ValueError("no rounds with samples of both candidates")
    ours, other = [a for a, _ in both], [b for _, b in both]
    our_medians, other_medians = round_medians(ours), round_medians(other)
    ratios = [b / a for a, b in zip(our_medians, other_medians, strict=True)]
    aa = max(_aa(ours), _aa(other))
    return Comparison(
        ratio=median(other_medians) / median(our_medians),
        low=quantile(ratios, 0.25),
        high=quantile(ratios, 0.75),
        aa=aa,
        rounds=len(ratios),
    )


def thin(samples: Sequence[float], keep: int) -> list[float]:
    """At most `keep` of the samples, evenly spaced in time; all of them when there are fewer."""
    if len(samples) <= keep:
        return list(samples)
    step = len(samples) / keep
    return [samples[int(i * step)] for i in range(keep)]


def geometric_mean(values: Sequence[float]) -> float:
    """For averages of ratios."""
    if not values:
        raise ValueError("geometric mean of no values")
    return math.exp(sum(math.log(value) for value in values) / len(values))
