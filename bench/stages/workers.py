"""A product of one rank by two workers, against one: what the second core gains."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from measure import placement, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

WORKERS = 2
GOAL = 1.9
SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024))
DTYPES = ("f32", "bf16")
BATCHES = 3
SECONDS_MAX = 240.0


def run(bench: Bench) -> list[Row]:
    """Rounds of one program, which has both: a ratio is of calls in turn."""
    budget_ms = 30 if bench.quick else 300
    shapes = SHAPES[:2] if bench.quick else SHAPES
    listed = ",".join(_name(shape) for shape in shapes)
    command = [str(bench.build / "gemm_workers_bench"), listed, ",".join(DTYPES)]
    command += [str(WORKERS), str(budget_ms), str(BATCHES)]
    visit = Candidate("libsk", lambda: json_lines(command, timeout_s=600))
    settings: dict[str, Any] = {"shapes": listed, "budget_ms": budget_ms, **bench.options}
    rounds = run_rounds(bench, "workers", [visit], settings, seconds_max=SECONDS_MAX)
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    for name, about in classes["classes"].items():
        within = of_class(counted, places, name)
        about["figures_us"] = {}
        for dtype, shape in itertools.product(DTYPES, shapes):
            label = f"{dtype} {_name(shape)}"
            about["figures_us"][label] = {
                str(workers): results.summary(visits)
                for workers in (1, WORKERS)
                if (visits := take(within, label, workers))
            }
            rows.append(row(within, label, name, bench.rounds_least))
    protocol = {
        "figure": "per call of sk_allreduce_gemm in a world of one, in microseconds; weights"
        " packed, C f32",
        "order": "three calls by one worker, six by two, three by one",
        "workers": WORKERS,
        "budget_ms_per_shape_and_visit": budget_ms,
        "sets": 3,
    }
    document = results.head("workers", bench, protocol, {})
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "workers", document, rows)
    return rows


def _name(shape: tuple[int, int, int]) -> str:
    return "x".join(str(n) for n in shape)


def take(rounds: list[dict[str, Any]], label: str, workers: int) -> list[stats.Visits]:
    """The samples of one product by so many workers."""
    wanted = f"{label} by {workers}"
    return samples(rounds, "libsk", lambda line: line.get("case") == wanted, "us")


def row(rounds: list[dict[str, Any]], label: str, place: str, least: int) -> Row:
    """Times faster than one worker; two hyper-threads of one core have no goal."""
    dtype, _, shape = label.partition(" ")
    goal = None if place == placement.NEAR else GOAL
    empty = Row(f"product {dtype}, {WORKERS} workers, {place}", shape, goal, "x one worker")
    c = stats.compare_if(take(rounds, label, WORKERS), take(rounds, label, 1), least)
    if c is None:
        return replace(empty, why="too few rounds of both")
    noise = "" if c.proven else ", within the noise"
    spread = f"{c.low:.2f}-{c.high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
    return replace(empty, measured=c.ratio, spread=spread)
