"""Small calls from Python beside mpi4py, over each MPI that runs here."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import peers
from measure import placement, results, stats
from measure.goals import Row, size_name
from measure.launch import LaunchError, json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

from stages import mpi

PROGRAM = Path(__file__).resolve().parent.parent / "e2e" / "python_calls.py"
RANKS = 2
GOALS = {8: 1.2, 64: None, 4096: 1.0, 65536: None}  # Times mpi4py's, at most.
OURS = ("libsk", "plan")
BATCHES = 3
SECONDS_MAX = 240.0


def run(bench: Bench) -> list[Row]:
    """Rounds of short launches: each has both libraries, so that a ratio is of one launch."""
    python = peers.REPO / "build" / "venv" / "bin" / "python"
    modules = peers.mpi4py_modules()
    if not python.exists() or modules is None:
        raise LaunchError("build/venv or mpi4py is not there")
    used = mpi.variants(bench, bench.mpis)
    used = [variant for variant in used if not variant.setting]
    sizes = ",".join(map(str, GOALS))
    budget_ms = 10 if bench.quick else 25

    def candidate(variant: mpi.Variant) -> Candidate:
        command = [*variant.peer.launch, "-n", str(RANKS), str(python), "-B", str(PROGRAM)]
        command += [sizes, str(budget_ms), str(BATCHES)]
        env = {**variant.env, "PYTHONPATH": str(modules)}
        return Candidate(variant.name, lambda: json_lines(command, env, timeout_s=120))

    candidates = [candidate(variant) for variant in used]
    settings: dict[str, Any] = {"sizes": sizes, "budget_ms": budget_ms, **bench.options}
    rounds = run_rounds(bench, "python", candidates, settings, seconds_max=SECONDS_MAX)
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    names = [variant.name for variant in used]
    for name, about in classes["classes"].items():
        within = of_class(counted, places, name)
        about["figures_us"] = figures(within, names)
        for ours in OURS:
            rows += [row(within, names, ours, size, name, bench.rounds_least) for size in GOALS]
    protocol = {
        "ranks": RANKS,
        "pinning": "rank r on core r % cores",
        "call": "sum of f64, arrays of NumPy's, the same ones in every call",
        "figure": "per call, mean over ranks and a batch of calls, in microseconds",
        "budget_ms_per_batch": budget_ms,
        "python": sys.version.split()[0],
        "mpi4py": peers.MPI4PY,
    }
    document = results.head("python", bench, protocol, mpi.published(used))
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "python", document, rows)
    return rows


def _take(rounds: list[dict[str, Any]], name: str, case: str, size: int) -> list[stats.Visits]:
    def wanted(line: dict[str, Any]) -> bool:
        return line.get("case") == case and line.get("bytes") == size

    return samples(rounds, name, wanted, "us")


def figures(rounds: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """For the result file: by MPI, case and size, summaries with samples."""
    found: dict[str, Any] = {}
    for name in names:
        for case in ("mpi4py", *OURS):
            for size in GOALS:
                if visits := _take(rounds, name, case, size):
                    found.setdefault(name, {}).setdefault(case, {})[size] = results.summary(visits)
    return found


def row(
    rounds: list[dict[str, Any]], names: list[str], ours: str, size: int, place: str, least: int
) -> Row:
    """Our time over mpi4py's, in the launches of the MPI under which that is fastest."""
    what = "all-reduce" if ours == "libsk" else "plan.run"
    area = f"{what} from Python, {RANKS} ranks, {place}"
    empty = Row(area, size_name(size), GOALS[size], "x mpi4py's time", at_most=True)
    peer = {name: _take(rounds, name, "mpi4py", size) for name in names}
    times = {name: stats.median(stats.round_medians(v)) for name, v in peer.items() if v}
    if not times:
        return replace(empty, why="mpi4py gave no figure")
    best = min(times, key=lambda name: times[name])
    c = stats.compare_if(_take(rounds, best, ours, size), peer[best], least)
    if c is None:
        return replace(empty, why="too few rounds of both")
    noise = "" if c.proven else ", within the noise"
    spread = f"{1 / c.high:.2f}-{1 / c.low:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
    return replace(empty, measured=1 / c.ratio, against=f"mpi4py, {best}", spread=spread)
