"""rmsnorm and its gradient beside a copy by as many threads, and beside torch where that is there.

What rows can reach is what memory gives, so the bar is a copy of the same bytes: the share of its
bandwidth is (bytes of the call / its time) / (bytes of the copy / its time).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import peers
from measure import placement, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

PROGRAM = Path(__file__).resolve().parent.parent / "e2e" / "rows_torch.py"
THREADS = 2
MIB = 64  # Of x: beyond the caches.
COLUMNS = (1024, 4096, 16384)
BYTES = {"f32": 4, "bf16": 2}
ARRAYS = {"copy": 2, "forward": 2, "backward, dweight": 3}  # Read or written once each.
GOALS = {"forward": 0.85, "backward, dweight": 0.75}
TORCH = ("eager", "compiled")
SECONDS_MAX = 300.0


def run(bench: Bench) -> list[Row]:
    """Rounds of libsk's program, which has the copy as well, and of torch's."""
    visits = 1 if bench.quick else 3
    own = [str(bench.build / "rows_bench"), "--rounds", str(visits), "--workers", str(THREADS)]
    command = [*own, "--mib", str(MIB)]
    candidates = [Candidate("libsk", lambda: json_lines(command, timeout_s=300))]
    python = peers.torch_python()
    if python is None:
        bench.say("rows: without torch: it is not in build/peers/torch")
    else:
        shapes = ",".join(map(str, COLUMNS))
        other = [str(python), "-B", str(PROGRAM), shapes, str(MIB), str(THREADS), str(visits)]
        candidates.append(Candidate("torch", lambda: json_lines(other, timeout_s=600)))
    settings: dict[str, Any] = {"visits": visits, "mib": MIB, **bench.options}
    rounds = run_rounds(bench, "rows", candidates, settings, seconds_max=SECONDS_MAX)
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    for name, about in classes["classes"].items():
        within = of_class(counted, places, name)
        about["figures_us"] = {}
        for dtype, columns in itertools.product(BYTES, COLUMNS):
            cell = Cell(within, dtype, columns)
            about["figures_us"][cell.label] = cell.as_dict()
            for case in GOALS:
                rows.append(cell.of_copy(case, name, bench.rounds_least))
                rows += cell.of_torch(case, name, bench.rounds_least)
    protocol = {
        "figure": "per call, in microseconds; x has 64 MiB, y, dy and dx as much, rstd is given",
        "copy": "memcpy by as many threads, a part each",
        "threads": THREADS,
        "torch": "torch.nn.functional.rms_norm and its gradients of x and weight, as it comes"
        " (eager) and through torch.compile (compiled); the gradient's time is that of"
        " torch.autograd.grad alone",
    }
    about_torch = {"torch": peers.TORCH if python is not None else "not installed"}
    document = results.head("rows", bench, protocol, about_torch)
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "rows", document, rows)
    return rows


class Cell:
    """All figures of one type and length of rows."""

    def __init__(self, rounds: list[dict[str, Any]], dtype: str, columns: int) -> None:
        self.dtype, self.columns = dtype, columns
        self.label = f"{dtype} {(MIB << 20) // BYTES[dtype] // columns}x{columns}"

        def take(who: str, case: str) -> list[stats.Visits]:
            wanted = f"{self.label} {case}"
            return samples(rounds, who, lambda line: line.get("case") == wanted, "us")

        self.ours = {case: take("libsk", case) for case in ARRAYS}
        self.torch = {
            f"{case} {how}": take("torch", f"{case} {how}") for case in GOALS for how in TORCH
        }

    def of_copy(self, case: str, place: str, least: int) -> Row:
        """The share of the copy's bandwidth."""
        goal = None if place == placement.NEAR else GOALS[case]
        empty = self._row(case, place, goal, "of the copy's bandwidth")
        c = stats.compare_if(self.ours[case], self.ours["copy"], least)
        if c is None:
            return replace(empty, why="too few rounds of both")
        more = ARRAYS[case] / ARRAYS["copy"]
        return replace(empty, measured=more * c.ratio, spread=_spread(c, more))

    def of_torch(self, case: str, place: str, least: int) -> list[Row]:
        """Times faster than torch; ahead of it is above 1. Nothing where it is not there."""
        rows = []
        for how in TORCH:
            c = stats.compare_if(self.ours[case], self.torch[f"{case} {how}"], least)
            if c is not None:
                empty = self._row(case, place, 1.0, f"x torch {how}")
                rows.append(replace(empty, measured=c.ratio, spread=_spread(c, 1.0)))
        return rows

    def _row(self, case: str, place: str, goal: float | None, unit: str) -> Row:
        area = f"rmsnorm {case} {self.dtype}, {THREADS} threads, {place}"
        return Row(area, self.label.split()[1], goal, unit)

    def as_dict(self) -> dict[str, Any]:
        """For the result file: summaries with samples."""
        both = (("libsk", self.ours), ("torch", self.torch))
        return {
            name: {case: results.summary(v) for case, v in group.items() if v}
            for name, group in both
        }


def _spread(c: stats.Comparison, times: float) -> str:
    noise = "" if c.proven else ", within the noise"
    low, high = times * c.low, times * c.high
    return f"{low:.2f}-{high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
