"""Planning, calls without work, and what an idle rank costs."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from measure import placement, results, stats
from measure.goals import Row
from measure.launch import LaunchError, json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

REPO = Path(__file__).resolve().parent.parent.parent
PLAN_RANKS, PLAN_GOAL_US = 16, 1000.0
CALL_GOAL_US = 2.0
IDLE_CPU_GOAL, IDLE_MB_GOAL = 1.0, 40.0
CALLS = (
    ("barrier", "raw barrier"),
    ("allreduce of 1, symmetric", "raw allreduce of 1"),
    ("allreduce of 1, ordinary", "raw allreduce of 1"),
)
# The generic path does what the frozen functions do, by number or kept ready.
GENERIC_GOAL_US = 0.1
GENERIC = tuple(
    (f"{how}, {memory}", f"allreduce of 1, {memory}")
    for how in ("sk_call", "sk_op_run")
    for memory in ("symmetric", "ordinary")
)
# One interpreter, once without and once with libsk and a world of one. Prints JSON.
PYTHON_PROGRAM = """
import json, resource, sys, time
def pss():
    for line in open('/proc/self/smaps_rollup'):
        if line.startswith('Pss:'):
            return int(line.split()[1]) / 1024
bare = pss()
import numpy
with_numpy = pss()
import libsk
comm = libsk.Comm()
comm.allreduce(numpy.ones(16, numpy.float32))
after = pss()
usage = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
cpu, start = usage(), time.monotonic()
time.sleep(float(sys.argv[1]))
print(json.dumps({'case': 'python', 'libsk_mb': after - with_numpy, 'numpy_mb': with_numpy - bare,
    'cpu_percent': 100 * (usage() - cpu) / (time.monotonic() - start)}))
"""


def run(bench: Bench) -> list[Row]:
    """Small programs; plans and calls in rounds like everything else."""
    program = str(bench.build / "misc_bench")
    parts = [str(bench.build / "plan_bench"), str(PLAN_RANKS)]
    plan_count = 5 if bench.quick else 20
    idle_seconds = 2 if bench.quick else 5
    candidates = [
        Candidate(
            "plans",
            lambda: json_lines([program, "plans", str(PLAN_RANKS), str(plan_count)], timeout_s=300),
        ),
        Candidate("calls", lambda: json_lines([program, "calls", "60", "3"], timeout_s=300)),
        Candidate("parts", lambda: json_lines([*parts, str(plan_count)], timeout_s=300)),
    ]
    rounds = run_rounds(bench, "misc", candidates, {"plans": plan_count, **bench.options})
    counted = usable(rounds, bench)
    plan_rows, plan_figures = _plans(counted)
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    call_rows: list[Row] = []
    for name, about in classes["classes"].items():
        table, about["calls_us"] = _calls(of_class(counted, places, name), name)
        call_rows += table
    idle_rows, idle_figures = _idle(bench, program, idle_seconds)
    protocol = {
        "plans": f"sk_plan_create() in a world of {PLAN_RANKS} threads, each of another size; "
        "check_us is sk_plan_check() of its text, plan_us and validate_us the rooms by themselves",
        "calls": "2 ranks, one core each; raw is the same exchange of flags without libsk; sk_call"
        " and sk_op_run are the same all-reduce, by its number and kept ready",
        "idle": f"{idle_seconds} s of a rank that calls nothing; PSS beyond the process before it",
    }
    document = results.head("misc", bench, protocol, {})
    document |= {
        "rounds": results.round_heads(rounds),
        "plans_us": plan_figures,
        "places": classes,
        "idle": idle_figures,
    }
    rows = [*plan_rows, *call_rows, *idle_rows]
    results.write(bench, "misc", document, rows)
    return rows


def _plan_lines(rounds: list[dict[str, Any]], program: str) -> dict[str, dict[str, Any]]:
    """By case, all samples of all visits under their names; `error` where a plan was refused."""
    found: dict[str, dict[str, Any]] = {}
    for entry in rounds:
        for line in [line for visit in entry["visits"].get(program, []) for line in visit]:
            case = found.setdefault(line["case"], {})
            for name, values in line.items():
                if isinstance(values, list):
                    case.setdefault(name, []).extend(values)
                elif name == "error":
                    case["error"] = values
    return found


def _plans(rounds: list[dict[str, Any]]) -> tuple[list[Row], dict[str, Any]]:
    calls, parts = _plan_lines(rounds, "plans"), _plan_lines(rounds, "parts")
    area = f"plan creation, {PLAN_RANKS} ranks"
    rows, figures = [], {}
    for case in dict.fromkeys([*calls, *parts]):
        figure: dict[str, Any] = {}
        figures[case] = figure
        both = {**parts.get(case, {}), **calls.get(case, {})}
        error = both.pop("error", "")
        for name, samples_us in both.items():
            figure[name] = {
                "median": round(stats.median(samples_us), 2),
                "min": round(min(samples_us), 2),
                "p90": round(stats.quantile(samples_us, 0.9), 2),
                "count": len(samples_us),
                "samples": stats.thin(samples_us, 5 * results.KEEP),
            }
        note = "; ".join(
            f"{label} {figure[name]['median']:.0f} us"
            for name, label in (("plan_us", "planner"), ("validate_us", "validation"))
            if name in figure
        )
        note = f"refused: {error}" if error else note
        measured = figure["create_us"]["median"] if "create_us" in figure else None
        rows.append(Row(area, case, PLAN_GOAL_US, "us", at_most=True, measured=measured, why=note))
    if not rows:
        rows.append(Row(area, "all", PLAN_GOAL_US, "us", at_most=True, why="no figure"))
    return rows, figures


def _calls(rounds: list[dict[str, Any]], place: str) -> tuple[list[Row], dict[str, Any]]:
    def take(case: str) -> list[stats.Visits]:
        return samples(rounds, "calls", lambda line: line.get("case") == case, "us")

    def typical(visits: list[stats.Visits]) -> float:
        return stats.median(stats.pooled(visits))

    figures: dict[str, Any] = {}

    def beyond(area: str, case: str, raw: str, goal: float) -> Row:
        ours, floor = take(case), take(raw)
        for name, visits in ((case, ours), (raw, floor)):
            if visits:
                figures[name] = results.summary(visits)
        row = Row(f"{area}, {place}", case, goal, "us", at_most=True, why="no figure")
        if not ours or not floor:
            return row
        against = f"{typical(ours):.2f} us, {raw} {typical(floor):.2f} us"
        return replace(row, measured=typical(ours) - typical(floor), against=against, why="")

    rows = [beyond("call beyond the work", case, raw, CALL_GOAL_US) for case, raw in CALLS]
    rows += [
        beyond("generic call beyond the function", case, function, GENERIC_GOAL_US)
        for case, function in GENERIC
    ]
    return rows, figures


def _idle(bench: Bench, program: str, seconds: int) -> tuple[list[Row], dict[str, Any]]:
    figures: dict[str, Any] = {}
    rows = []
    try:
        lines = json_lines([program, "idle", str(seconds)], timeout_s=120)
        figures["program"] = lines
        cpu = max(line["cpu_percent"] for line in lines)
        memory = max(line["pss_mb"] for line in lines)
        rows += _idle_rows("C program, 2 ranks", cpu, memory)
    except LaunchError as error:
        rows += _idle_rows("C program, 2 ranks", None, None, str(error))
    figures["python"], why = _python(seconds)
    if figures["python"]:
        python = figures["python"]
        rows += _idle_rows("Python rank", python["cpu_percent"], python["libsk_mb"])
    else:
        rows += _idle_rows("Python rank", None, None, why)
    return rows, figures


def _idle_rows(who: str, cpu: float | None, memory: float | None, why: str = "") -> list[Row]:
    area = "idle rank"
    return [
        Row(area, who, IDLE_CPU_GOAL, "% of a core", at_most=True, measured=cpu, why=why),
        Row(area, who, IDLE_MB_GOAL, "MB beyond it", at_most=True, measured=memory, why=why),
    ]


def _python(seconds: int) -> tuple[dict[str, Any] | None, str]:
    """The same in build/venv's interpreter, where the demo and the tests install libsk."""
    python = REPO / "build" / "venv" / "bin" / "python"
    if not python.exists():
        return None, "build/venv is not there"
    done = subprocess.run(
        [str(python), "-c", PYTHON_PROGRAM, str(seconds)],
        capture_output=True, text=True, check=False, timeout=60 + seconds,
    )  # fmt: skip
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return None, f"libsk is not in build/venv: {last[0]}"
    return json.loads(done.stdout), ""
