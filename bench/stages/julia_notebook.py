"""A notebook's Julia ranks: their start beside one Julia's, their cells beside Python's."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from measure import results, stats
from measure.goals import Row
from measure.launch import LaunchError
from measure.rounds import Bench, Candidate, Judge, run_rounds, samples
from notebook import kernels, visits

from stages.julia import find_julia

RANKS = 4
ALONE, PYTHON = "julia", f"libsk-{RANKS}"
IMAGE, BARE = f"julia-image-{RANKS}", f"julia-{RANKS}"
START_GOAL = {IMAGE: 2.5, BARE: 4.0}  # Times one `julia -e 1`, at most.
PRINT_GOAL = 2.0  # Times the Python kernel's, at most.
PRINTS = 40
INSTALL_S = 1800


def run(bench: Bench) -> list[Row]:
    """Kernels in ABBA rounds, with a system image and without."""
    julia = find_julia()
    folder = bench.scratch / "julia-notebook"
    bench.say("julia-notebook: the system image, some minutes")
    found = [
        _installed(IMAGE, julia, folder / "image"),
        _installed(BARE, julia, folder / "bare", "--no-image"),
        kernels.ours(RANKS),
    ]

    def visit(kernel: kernels.Candidate) -> visits.Lines:
        return visits.start_and_print(kernel, folder, 5 if bench.quick else PRINTS)

    for kernel in found:
        visits.start_and_print(kernel, folder, 1)  # What a first start writes is there now.
    candidates = [Candidate(ALONE, lambda: _alone(julia))]
    candidates += [Candidate(each.name, lambda each=each: visit(each)) for each in found]
    rounds = run_rounds(bench, "julia-notebook", candidates, {**bench.options}, judge=Judge.NOTHING)
    rows = [
        *(_row(rounds, name, ALONE, "start_s", goal) for name, goal in START_GOAL.items()),
        *(_row(rounds, name, PYTHON, "print_ms", PRINT_GOAL) for name in START_GOAL),
    ]
    version = subprocess.run(
        [julia, "--version"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()[-1]
    protocol = {
        "start_s": "from the start of the kernel's process to reply and idle of its first cell, "
        "print(1), which is sent before the kernel listens; of julia: the whole of `julia -e 1`",
        "print_ms": "from the request to reply and idle, one after the other",
        "julia": version,
    }
    document = results.head("julia-notebook", bench, protocol, {"julia": version})
    document |= {"rounds": results.round_heads(rounds), "figures": _figures(rounds)}
    results.write(bench, "julia-notebook", document, rows)
    return rows


def _installed(name: str, julia: str, prefix: Path, *more: str) -> kernels.Candidate:
    """As `sk install` makes it."""
    build = kernels.build()
    command = [str(build / "tools" / "sk" / "sk"), "install", "--language", "julia"]
    command += ["--julia", julia, "--prefix", str(prefix), *more]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=INSTALL_S, check=False,
        env={**os.environ, "SK_LIBRARY": str(build / "libsk.so.0")},
    )  # fmt: skip
    if done.returncode != 0:
        raise LaunchError(f"sk install --language julia: {done.stderr.strip()}")
    folder = prefix / "share" / "jupyter" / "kernels" / "superkernel-julia"
    spec = json.loads((folder / "kernel.json").read_text())
    env = {**spec.get("env", {}), "SK_NRANKS": str(RANKS), "JULIA_LOAD_PATH": "@stdlib"}
    return kernels.Candidate(name, tuple(spec["argv"]), RANKS, env)


def _alone(julia: str) -> visits.Lines:
    begun = time.perf_counter()
    subprocess.run([julia, "--startup-file=no", "-e", "1"], check=True, timeout=120)
    return [{"case": "cells", "start_s": [time.perf_counter() - begun]}]


def _row(rounds: list[dict[str, Any]], name: str, base: str, field: str, goal: float) -> Row:
    what = "start to first finished cell" if field == "start_s" else "print(1) p50"
    unit = f"x {'julia -e 1' if base == ALONE else base}"
    row = Row(f"Julia notebook, {what}", name, goal, unit, at_most=True, why="no figure")
    of_base = samples(rounds, base, lambda line: True, field)
    own = samples(rounds, name, lambda line: True, field)
    if not of_base or not own:
        return row
    compared = stats.compare(of_base, own)
    return Row(
        row.area, name, goal, unit, at_most=True, measured=compared.ratio,
        spread=f"{compared.low:.2f} to {compared.high:.2f}, A/A {compared.aa:.0%}",
    )  # fmt: skip


def _figures(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in (ALONE, PYTHON, IMAGE, BARE):
        for field in ("start_s", "print_ms", "pss_mb_per_rank"):
            found = samples(rounds, name, lambda line, field=field: field in line, field)
            if found:
                figures.setdefault(name, {})[field] = results.summary(found)
    return figures
