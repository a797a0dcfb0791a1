"""All-reduce f32 of 2, 4 and 16 ranks against three MPIs and the direct loop."""

from __future__ import annotations

import os
from typing import Any

from measure import goals, results, stats
from measure.goals import Row, size_name
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, run_rounds, samples, usable

from stages import mpi

SIZES = (512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)
OURS = ("symmetric", "ordinary")
DIRECT_GOAL = 1.15  # Times the direct loop's time, at most.
BATCHES = 3


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
    rounds = run_rounds(bench, label, candidates, settings)
    counted = usable(rounds, bench)
    rows = [row for size in sizes_used for row in _rows(counted, ranks, size, used)]
    if read_outputs:
        rows = [row.without_goal() for row in rows]
    figures = {
        name: {
            size_name(size): results.summary(visits)
            for size in sizes_used
            if (visits := _visits(counted, name, size))
        }
        for name in (*OURS, "direct", "direct_nt", *(v.name for v in used))
    }
    protocol = {
        "ranks": ranks,
        "pinning": "rank r on core r % cores",
        "inputs": "rewritten before every call",
        "outputs": "read by their owner between calls" if read_outputs else "not read",
        "budget_ms_per_case_and_visit": budget_ms,
        "figure": "per call, mean over ranks of the time inside the call, in microseconds",
    }
    document = results.head(label, bench, protocol, mpi.published(used))
    document |= {"rounds": results.round_heads(rounds), "figures_us": figures}
    results.write(bench, label, document, rows)
    return rows


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


def _rows(
    rounds: list[dict[str, Any]], ranks: int, size: int, used: list[mpi.Variant]
) -> list[Row]:
    rows = []
    for kind in OURS:
        ours = _visits(rounds, kind, size)
        goal = goals.allreduce_goal(ranks, kind, size)
        if goal is not None:
            rivals = [v for v in used if ranks < 16 or v.peer.name == "ompi"]
            rows.append(_against_mpi(rounds, ranks, kind, size, goal, rivals))
        if kind == "symmetric" and ranks == 2:
            floor = _floor(rounds, size)
            area, case = f"all-reduce f32, {ranks} ranks, {kind}", size_name(size)
            row = Row(area, case, DIRECT_GOAL, "x direct loop", at_most=True)
            if ours and floor:
                c = stats.compare(floor, ours)
                row = Row(**{**row.__dict__, "measured": c.ratio, "spread": _spread(c)})
            else:
                row = Row(**{**row.__dict__, "why": "no rounds of both"})
            rows.append(row)
    return rows


def _floor(rounds: list[dict[str, Any]], size: int) -> list[stats.Visits]:
    """The better of plain and non-temporal stores at this size."""
    found = [_visits(rounds, name, size) for name in ("direct", "direct_nt")]
    present = [visits for visits in found if visits]
    return min(present, key=_time, default=[])


def _time(visits: list[stats.Visits]) -> float:
    return stats.median([stats.median([*first, *second]) for first, second in visits])


def _against_mpi(
    rounds: list[dict[str, Any]],
    ranks: int,
    kind: str,
    size: int,
    goal: float,
    rivals: list[mpi.Variant],
) -> Row:
    area = f"all-reduce f32, {ranks} ranks, {kind}"
    unit = "x Open MPI" if ranks == 16 else "x best MPI"
    ours = _visits(rounds, kind, size)
    present = {v.name: visits for v in rivals if (visits := _visits(rounds, v.name, size))}
    defaults = [v.name for v in rivals if not v.setting and v.name in present]
    if not ours or not defaults:
        missing = "libsk" if not ours else "a peer"
        return Row(area, size_name(size), goal, unit, why=f"{missing} gave no figure")
    best = min(defaults, key=lambda name: _time(present[name]))
    c = stats.compare(ours, present[best])
    strongest = min(present, key=lambda name: _time(present[name]))
    tuned = stats.compare(ours, present[strongest]).ratio if strongest != best else None
    against = best if strongest == best else f"{best}, tuned {strongest}"
    return Row(
        area, size_name(size), goal, unit,
        measured=c.ratio, tuned=tuned, spread=_spread(c), against=against,
    )  # fmt: skip


def _spread(c: stats.Comparison) -> str:
    noise = "" if c.proven else ", within the noise"
    return f"{c.low:.2f}-{c.high:.2f}, A/A {c.aa:.1%}{noise}"
