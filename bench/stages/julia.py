"""Small calls from Julia beside the same calls in C, in one process."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import placement, results, stats
from measure.goals import Row
from measure.launch import LaunchError, json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

REPO = Path(__file__).resolve().parent.parent.parent
PROGRAM = REPO / "bench" / "e2e" / "julia_calls.jl"
GOAL_US = 1.0  # Beyond C's.
CASES = ("allreduce of 16", "rmsnorm of 64 x 4", "allreduce_gemm of 8 x 16 x 4")
BATCHES = 3


def find_julia() -> str:
    """What ./dev test --suite julia installed, else the one on the PATH."""
    installed = REPO / "build" / "julia" / "bin" / "julia"
    found = str(installed) if installed.exists() else shutil.which("julia")
    if not found:
        raise LaunchError("no Julia here; ./dev test --suite julia --install gets it")
    return found


def run(bench: Bench) -> list[Row]:
    """Rounds of short programs: each has both languages, in turns, on the same memory."""
    julia, library = find_julia(), bench.build.parent / "libsk.so.0"
    loops = bench.build / "julia_calls.so"
    calls = 5_000 if bench.quick else 50_000
    env = {
        "JULIA_LOAD_PATH": f"{REPO / 'bindings' / 'julia'}:@stdlib",
        "JULIA_DEPOT_PATH": str(bench.scratch / "depot"),
        "SK_LIBRARY": str(library),
        "SK_WORKERS": "1",
    }
    arguments = [julia, "--startup-file=no", str(PROGRAM), str(loops), str(calls), str(BATCHES)]
    candidate = Candidate("calls", lambda: json_lines(arguments, env, timeout_s=300))
    rounds = run_rounds(bench, "julia", [candidate], {"calls": calls, **bench.options})
    counted = usable(rounds, bench)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    for name, about in classes["classes"].items():
        table, about["calls_us"] = _rows(of_class(counted, places, name), name)
        rows += table
    version = subprocess.run(
        [julia, "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()[-1]
    protocol = {
        "call": "a world of one with one worker, arrays reused; C makes tensors and arguments anew",
        "figure": "mean of a batch of calls, in microseconds; the difference of both languages",
        "calls_per_batch": calls,
        "julia": version,
    }
    document = results.head("julia", bench, protocol, {})
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "julia", document, rows)
    return rows


def _rows(rounds: list[dict[str, Any]], place: str) -> tuple[list[Row], dict[str, Any]]:
    def take(case: str, language: str) -> list[stats.Visits]:
        def wanted(line: dict[str, Any]) -> bool:
            return line.get("case") == case and line.get("language") == language

        return samples(rounds, "calls", wanted, "us")

    rows, figures = [], {}
    for case in CASES:
        row = Row(f"call from Julia beyond C's, {place}", case, GOAL_US, "us", at_most=True)
        both = {language: take(case, language) for language in ("C", "Julia")}
        if not all(both.values()):
            rows.append(replace(row, why="no figure"))
            continue
        figures[case] = {language: results.summary(visits) for language, visits in both.items()}
        medians = {name: stats.median(stats.pooled(visits)) for name, visits in both.items()}
        against = f"Julia {medians['Julia']:.2f} us, C {medians['C']:.2f} us"
        rows.append(replace(row, measured=medians["Julia"] - medians["C"], against=against))
    return rows, figures
