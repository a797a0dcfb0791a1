"""All-reduce f32 of 2, 4 and 16 ranks against three MPIs and the direct loop."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from measure import goals, placement, results, stats
from measure.goals import Row, size_name
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

from stages import mpi

SIZES = (512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)
OURS = ("symmetric", "ordinary")
DIRECT_GOAL = 1.15  # Times the direct loop's time, at most.
BATCHES = 3
SECONDS_MAX = 300.0  # Of rounds.


def run(bench: Bench, ranks: int, *, read_outputs: bool = False) -> list[Row]:
    """One rank count: rounds, comparisons, result file, goals.

    With `read_outputs` every rank also loads its whole result between two calls, as a consumer
    would: writers of mapped outputs then find the lines in the reader's cache. Beside the goals,
    which are set for inputs rewritten only; its rows are figures without one.
    """
    label = f"allreduce-{ranks}" + ("-read" if read_outputs else "")
    budget_ms = 25 if bench.quick else 60
    batches = 1 if ranks > 4 else BATCHES
    sizes_used = SIZES[:-1] if ranks > 4 else SIZES
    cores = os.cpu_count() or 1
    # MPICH spins without yielding: with ranks beyond cores a call takes as long as time slices do.
    names = [name for name in bench.mpis if not (name == "mpich" and ranks > 2 * cores)]
    used = mpi.variants(bench, names)
    if ranks > 4:  # Where cores are shared eightfold settings do not matter, and rounds are long.
        used = [v for v in used if not v.setting]
    sizes = ",".join(str(size) for size in sizes_used)
    reads = str(int(read_outputs))
    own = [str(bench.build / "allreduce_bench"), str(ranks), sizes, str(budget_ms), str(batches)]
    arguments = [*own, ",".join((*OURS, "direct")), reads]
    candidates = [Candidate("libsk", lambda: json_lines(arguments, timeout_s=300))]
    for variant in used:
        candidates.append(
            _peer(bench, variant, ranks, [sizes, str(budget_ms), str(batches)], reads)
        )
    settings: dict[str, Any] = {
        "sizes": sizes,
        "budget_ms": budget_ms,
        "reads": reads,
        **bench.options,
    }
    rounds = run_rounds(bench, label, candidates, settings, seconds_max=SECONDS_MAX)
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    found = placement.tally(all_lines(counted), places)
    names = [*OURS, "direct", "direct_nt", *(v.name for v in used)]
    rows: list[Row] = []
    for name, about in found["classes"].items():
        within = of_class(counted, places, name)
        table = [_rows(Class(bench, within, name), ranks, size, used) for size in sizes_used]
        rows += [row.without_goal() if read_outputs else row for part in table for row in part]
        about["figures_us"] = _figures(within, names, sizes_used)
    protocol = {
        "ranks": ranks,
        "pinning": "rank r on core r % cores",
        "inputs": "rewritten before every call",
        "outputs": "read by their owner between calls" if read_outputs else "not read",
        "budget_ms_per_case_and_visit": budget_ms,
        "figure": "per call, mean over ranks of the time inside the call, in microseconds",
    }
    document = results.head(label, bench, protocol, mpi.published(used))
    document |= {"rounds": results.round_heads(rounds), "places": found}
    results.write(bench, label, document, rows)
    return rows


@dataclass(frozen=True)
class Class:
    """The rounds of one class of places."""

    bench: Bench
    rounds: list[dict[str, Any]]
    name: str

    def area(self, ranks: int, kind: str) -> str:
        return f"all-reduce f32, {ranks} ranks, {kind}, {self.name}"

    def compare(
        self, ours: list[stats.Visits], other: list[stats.Visits]
    ) -> stats.Comparison | None:
        return stats.compare_if(ours, other, self.bench.rounds_least)


def _figures(
    rounds: list[dict[str, Any]], names: list[str], sizes: tuple[int, ...]
) -> dict[str, Any]:
    return {
        name: {
            size_name(size): results.summary(visits)
            for size in sizes
            if (visits := _visits(rounds, name, size))
        }
        for name in names
    }


def _peer(
    bench: Bench, variant: mpi.Variant, ranks: int, sizes: list[str], reads: str
) -> Candidate:
    program = mpi.build(bench, variant.peer, "allreduce_mpi.c")
    oversubscribed = ranks > (os.cpu_count() or 1)
    give_up_ms = 100 if variant.peer.name == "mpich" and oversubscribed else 3000
    arguments = [*sizes, str(give_up_ms), reads]
    return Candidate(
        variant.name, lambda: mpi.run(variant, ranks, program, arguments, timeout_s=300)
    )


def _visits(rounds: list[dict[str, Any]], name: str, size: int) -> list[stats.Visits]:
    ours = name in (*OURS, "direct", "direct_nt")
    case = name if ours else "mpi"
    program = "libsk" if ours else name
    return samples(
        rounds, program, lambda line: line.get("case") == case and line["bytes"] == size, "us"
    )


def _rows(of: Class, ranks: int, size: int, used: list[mpi.Variant]) -> list[Row]:
    rows = []
    for kind in OURS:
        goal = goals.allreduce_goal(ranks, kind, size)
        if goal is not None:
            rivals = [v for v in used if ranks < 16 or v.peer.name == "ompi"]
            rows.append(_against_mpi(of, ranks, kind, size, goal, rivals))
        if kind == "symmetric" and ranks == 2:
            c = of.compare(_floor(of.rounds, size), _visits(of.rounds, kind, size))
            row = Row(
                of.area(ranks, kind), size_name(size), DIRECT_GOAL, "x direct loop", at_most=True
            )
            if c:
                row = replace(row, measured=c.ratio, spread=_spread(c))
            else:
                row = replace(row, why="too few rounds of both")
            rows.append(row)
    return rows


def _floor(rounds: list[dict[str, Any]], size: int) -> list[stats.Visits]:
    """The better of plain and non-temporal stores at this size."""
    found = [_visits(rounds, name, size) for name in ("direct", "direct_nt")]
    present = [visits for visits in found if visits]
    return min(present, key=_time, default=[])


def _time(visits: list[stats.Visits]) -> float:
    return stats.median(stats.round_medians(visits))


def _against_mpi(
    of: Class, ranks: int, kind: str, size: int, goal: float, rivals: list[mpi.Variant]
) -> Row:
    unit = "x Open MPI" if ranks == 16 else "x best MPI"
    empty = Row(of.area(ranks, kind), size_name(size), goal, unit)
    ours = _visits(of.rounds, kind, size)
    compared = {
        v.name: (c, _time(visits), not v.setting)
        for v in rivals
        if (visits := _visits(of.rounds, v.name, size)) and (c := of.compare(ours, visits))
    }
    defaults = [name for name, (_, _, as_it_comes) in compared.items() if as_it_comes]
    if not defaults:
        return replace(empty, why="too few rounds of libsk and a peer")
    best = min(defaults, key=lambda name: compared[name][1])
    c = compared[best][0]
    strongest = min(compared, key=lambda name: compared[name][1])
    tuned = compared[strongest][0].ratio if strongest != best else None
    against = best if strongest == best else f"{best}, tuned {strongest}"
    return replace(empty, measured=c.ratio, tuned=tuned, spread=_spread(c), against=against)


def _spread(c: stats.Comparison) -> str:
    noise = "" if c.proven else ", within the noise"
    return f"{c.low:.2f}-{c.high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
