"""Planning, calls without work, and what an idle rank costs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from measure import results, stats
from measure.goals import Row
from measure.launch import LaunchError, json_lines
from measure.rounds import Bench, Candidate, run_rounds, samples, usable

REPO = Path(__file__).resolve().parent.parent.parent
PLAN_RANKS, PLAN_GOAL_US = 16, 1000.0
CALL_GOAL_US = 2.0
IDLE_CPU_GOAL, IDLE_MB_GOAL = 1.0, 40.0
CALLS = (
    ("barrier", "raw barrier"),
    ("allreduce of 1, symmetric", "raw allreduce of 1"),
    ("allreduce of 1, ordinary", "raw allreduce of 1"),
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
comm = libsk.init() if hasattr(libsk, 'init') else None
after = pss()
usage = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
cpu, start = usage(), time.monotonic()
time.sleep(float(sys.argv[1]))
print(json.dumps({'case': 'python', 'libsk_mb': after - with_numpy, 'numpy_mb': with_numpy - bare,
    'cpu_percent': 100 * (usage() - cpu) / (time.monotonic() - start), 'comm': comm is not None}))
"""


def run(bench: Bench) -> list[Row]:
    """Three small programs; plans and calls in rounds like everything else."""
    program = str(bench.build / "misc_bench")
    plan_count = 5 if bench.quick else 20
    idle_seconds = 2 if bench.quick else 5
    candidates = [
        Candidate(
            "plans",
            lambda: json_lines([program, "plans", str(PLAN_RANKS), str(plan_count)], timeout_s=300),
        ),
        Candidate("calls", lambda: json_lines([program, "calls", "60", "3"], timeout_s=300)),
    ]
    rounds = run_rounds(bench, "misc", candidates, {"plans": plan_count, **bench.options})
    counted = usable(rounds, bench)
    plan_rows, plan_figures = _plans(counted)
    call_rows, call_figures = _calls(counted)
    idle_rows, idle_figures = _idle(bench, program, idle_seconds)
    protocol = {
        "plans": f"sk_plan_create() in a world of {PLAN_RANKS} threads, each of another size; "
        "parse_and_validate is sk_plan_check() of its text",
        "calls": "2 ranks, one core each; raw is the same exchange of flags without libsk",
        "idle": f"{idle_seconds} s of a rank that calls nothing; PSS beyond the process before it",
    }
    document = results.head("misc", bench, protocol, {})
    document |= {
        "rounds": results.round_heads(rounds),
        "plans_us": plan_figures,
        "calls_us": call_figures,
        "idle": idle_figures,
    }
    rows = [*plan_rows, *call_rows, *idle_rows]
    results.write(bench, "misc", document, rows)
    return rows


def _plans(rounds: list[dict[str, Any]]) -> tuple[list[Row], dict[str, Any]]:
    lines = [
        line for entry in rounds for visit in entry["visits"].get("plans", []) for line in visit
    ]
    rows, figures = [], {}
    for case in dict.fromkeys(line["case"] for line in lines):
        create, check = [], []
        for line in lines:
            if line["case"] == case:
                create += line["create_us"]
                check += line["parse_and_validate_us"]
        typical = stats.median(create)
        figures[case] = {
            "create_median": round(typical, 2),
            "create_min": round(min(create), 2),
            "create_p90": round(stats.quantile(create, 0.9), 2),
            "parse_and_validate_median": round(stats.median(check), 2),
            "count": len(create),
            "samples": stats.thin(create, 60),
        }
        note = f"sk_plan_check of its text {stats.median(check):.0f} us"
        area = f"plan creation, {PLAN_RANKS} ranks"
        rows.append(Row(area, case, PLAN_GOAL_US, "us", at_most=True, measured=typical, why=note))
    if not rows:
        area = f"plan creation, {PLAN_RANKS} ranks"
        rows.append(Row(area, "all", PLAN_GOAL_US, "us", at_most=True, why="no figure"))
    return rows, figures


def _calls(rounds: list[dict[str, Any]]) -> tuple[list[Row], dict[str, Any]]:
    def take(case: str) -> list[stats.Visits]:
        return samples(rounds, "calls", lambda line: line.get("case") == case, "us")

    def typical(visits: list[stats.Visits]) -> float:
        return stats.median([value for pair in visits for visit in pair for value in visit])

    rows, figures = [], {}
    for case, raw in CALLS:
        ours, floor = take(case), take(raw)
        for name, visits in ((case, ours), (raw, floor)):
            if visits:
                figures[name] = results.summary(visits)
        row = Row("call beyond the work", case, CALL_GOAL_US, "us", at_most=True, why="no figure")
        if ours and floor:
            beyond = typical(ours) - typical(floor)
            against = f"{typical(ours):.2f} us, {raw} {typical(floor):.2f} us"
            row = Row(
                "call beyond the work", case, CALL_GOAL_US, "us", at_most=True,
                measured=beyond, against=against,
            )  # fmt: skip
        rows.append(row)
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
