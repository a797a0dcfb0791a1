"""An all-gather fused with a GEMM, two ranks, against that all-gather and then a peer's GEMM.

All is measured by one program, so that every ratio is of one launch. What a fused call can gain is
bounded: it cannot be faster than our own GEMM of all rows, so against a pair at most
(T_peer / T_own) * (1 + T_comm / T_peer).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from measure import placement, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

from stages import gemm_peers

RANKS = 2
SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024))
DTYPES = ("f32", "bf16")
OURS = ("fused", "fused symmetric")  # Where A lies.
BATCHES = 2
SECONDS_MAX = 300.0
SHARE = 0.97
"""Of the bound: the goal."""


def run(bench: Bench) -> list[Row]:
    """Rounds, and for each class of places the ratios with their bounds."""
    found = gemm_peers.build(bench)
    # The SYCL build's calls cost much by themselves, which nothing here takes off.
    found = found.only([name for name in found.names if name != "dnnl3"])
    budget_ms = 15 if bench.quick else 120
    shapes = SHAPES[:2] if bench.quick else SHAPES
    listed = ",".join(_name(shape) for shape in shapes)
    own = [str(bench.build / "gemm_ag_bench"), str(RANKS), listed, ",".join(DTYPES)]
    command = [*own, str(budget_ms), str(BATCHES), *(str(shim) for shim in found.shims)]
    visit = Candidate("libsk", lambda: json_lines(command, found.env, timeout_s=600))
    settings: dict[str, Any] = {"shapes": listed, "budget_ms": budget_ms, **bench.options}
    rounds = run_rounds(bench, "gathered", [visit], settings, seconds_max=SECONDS_MAX)
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    for name, about in classes["classes"].items():
        within = of_class(counted, places, name)
        about["figures_us"] = {}
        for dtype, shape in itertools.product(DTYPES, shapes):
            cell = Cell(within, f"{dtype} {_name(shape)}", found.names)
            about["figures_us"][cell.label] = cell.as_dict()
            rows += [cell.row(ours, name, bench.rounds_least) for ours in OURS]
    protocol = {
        "ranks": RANKS,
        "figure": "per call, mean over ranks, in microseconds; A is M x K at each rank; weights"
        " packed, C f32",
        "pair": "sk_allgather of symmetric memory into the A of a peer's GEMM of all rows",
        "bound": "(T_peer / T_own) * (1 + T_comm / T_peer), of the best peer's GEMM",
        "budget_ms_per_case_and_visit": budget_ms,
        "sets": 3,
    }
    document = results.head("gathered", bench, protocol, gemm_peers.published(found))
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "gathered", document, rows)
    return rows


def _name(shape: tuple[int, int, int]) -> str:
    return "x".join(str(n) for n in shape)


class Cell:
    """All figures of one type and shape."""

    def __init__(self, rounds: list[dict[str, Any]], label: str, peers: list[str]) -> None:
        self.label = label

        def take(case: str) -> list[stats.Visits]:
            wanted = f"{label} {case}"
            return samples(rounds, "libsk", lambda line: line.get("case") == wanted, "us")

        self.ours = {case: take(case) for case in (*OURS, "comm", "gemm libsk")}
        self.pairs = {peer: take(f"pair {peer}") for peer in peers}
        self.gemms = {peer: take(f"gemm {peer}") for peer in peers}

    def bound(self) -> float | None:
        """The most that a fused call of ours can gain on the best pair."""
        own, comm = self.ours["gemm libsk"], self.ours["comm"]
        peers = [_time(visits) for visits in self.gemms.values() if visits]
        if not own or not comm or not peers:
            return None
        return (min(peers) / _time(own)) * (1 + _time(comm) / min(peers))

    def row(self, ours: str, place: str, rounds_least: int) -> Row:
        """The ratio to the best pair; its bound and the share of it as a note."""
        dtype, _, shape = self.label.partition(" ")
        where = "symmetric A" if ours == "fused symmetric" else "ordinary A"
        area = f"all-gather + GEMM {dtype}, {RANKS} ranks, {where}, {place}"
        empty = Row(area, shape, None, "x best pair")
        times = {peer: _time(visits) for peer, visits in self.pairs.items() if visits}
        if not times or not self.ours[ours]:
            return replace(empty, why="no peer pair gave a figure")
        best = min(times, key=lambda peer: times[peer])
        c = stats.compare_if(self.ours[ours], self.pairs[best], rounds_least)
        if c is None:
            return replace(empty, why="too few rounds of both")
        bound = self.bound()
        note = f"bound {bound:.3f}, {c.ratio / bound:.1%} of it" if bound else ""
        goal = None if bound is None else round(SHARE * bound, 3)
        noise = "" if c.proven else ", within the noise"
        spread = f"{c.low:.2f}-{c.high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
        return replace(empty, goal=goal, measured=c.ratio, against=best, why=note, spread=spread)

    def as_dict(self) -> dict[str, Any]:
        """For the result file: summaries with samples."""
        bound = self.bound()
        figures: dict[str, Any] = {"bound": None if bound is None else round(bound, 4)}
        for name, group in (("libsk", self.ours), ("pairs", self.pairs), ("gemms", self.gemms)):
            figures[name] = {case: results.summary(v) for case, v in group.items() if v}
        return figures


def _time(visits: list[stats.Visits]) -> float:
    return stats.median(stats.round_medians(visits))
