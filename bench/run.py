"""./dev bench: measures libsk against the strongest peers that run here.

Stages write bench/results/<stage>-<date>-<cpu>.json and pictures beside them; the table at the end
holds every goal with its measured ratio. A run that was cut off goes on where it stopped. README.md
in this folder says how figures are taken and what they mean.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import hashlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import peers
from measure import goals, machine
from measure.goals import Row
from measure.rounds import Bench
from options import STAGES, parse
from stages import (
    allreduce,
    fused,
    gathered,
    gemm,
    hosts,
    julia,
    julia_notebook,
    misc,
    notebook,
    preload,
    python,
    workers,
)
from stages import rows as rows_stage

HERE = Path(__file__).resolve().parent
REPO = HERE.parent
MEASURES: dict[str, Callable[[Bench], list[Row]]] = {
    "allreduce-2": lambda bench: allreduce.run(bench, 2),
    "allreduce-2-read": lambda bench: allreduce.run(bench, 2, read_outputs=True),
    "allreduce-4": lambda bench: allreduce.run(bench, 4),
    "allreduce-16": lambda bench: allreduce.run(bench, 16),
    "gemm": gemm.run,
    "fused": fused.run,
    "gathered": gathered.run,
    "workers": workers.run,
    "rows": rows_stage.run,
    "hosts": hosts.run,
    "misc": misc.run,
    "python": python.run,
    "julia": julia.run,
    "julia-notebook": julia_notebook.run,
    "notebook": notebook.run,
    "preload": preload.run,
}
assert tuple(MEASURES) == STAGES
WITHOUT_MPI = {
    "gathered", "workers", "rows", "misc", "julia", "julia-notebook", "notebook", "preload",
}  # fmt: skip
WITHOUT_PROGRAMS = {"julia-notebook", "notebook", "preload"}  # Kernels are started as a user's are.
PROGRAMS = (
    "bench_probe",
    "allreduce_bench",
    "gemm_bench",
    "gemm_ar_bench",
    "gemm_ag_bench",
    "gemm_workers_bench",
    "rows_bench",
    "misc_bench",
    "plan_bench",
    "net/hosts_link_bench",
    "net/hosts_allreduce_bench",
    "net/hosts_counts_bench",
    "net/hosts_fused_bench",
    "net/world_bench",
)


def say(line: str) -> None:
    """One progress line, with the time of day."""
    print(f"[{datetime.datetime.now():%H:%M:%S}] {line}", flush=True)


def build_programs(stages: list[str]) -> Path:
    """Our programs: built by ./dev bench, which says where; else here, from the bench preset."""
    if set(stages) <= WITHOUT_PROGRAMS:
        return REPO / "build"
    given = os.environ.get("SK_BENCH_BUILD")
    folder = Path(given) if given else REPO / "build" / "bench"
    if not given:
        say(f"building into {folder}")
        subprocess.run(["cmake", "--preset", "bench"], cwd=REPO, check=True, capture_output=True)
        subprocess.run(["cmake", "--build", str(folder), "-j2"], cwd=REPO, check=True)
    programs = folder / "bench"
    missing = [name for name in PROGRAMS if not (programs / name).exists()]
    if missing:
        raise RuntimeError(f"{programs} lacks {', '.join(missing)}")
    return programs


def digest(programs: Path) -> str:
    """Changes when a program or the library does: rounds of another build are not gone on with."""
    files = [programs / name for name in PROGRAMS if (programs / name).exists()]
    files += [path for path in sorted(programs.parent.glob("libsk.so*")) if not path.is_symlink()]
    total = hashlib.sha256()
    for path in files:
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def install(options: argparse.Namespace) -> None:
    """Peers that the chosen stages need; a missing one is said and left out."""
    names = list(options.mpis) if set(options.stages) - WITHOUT_MPI - {"hosts"} else []
    if "hosts" in options.stages and "ompi" in options.mpis and "ompi" not in names:
        names.append("ompi")
    if {"gemm", "fused", "gathered"} & set(options.stages):
        names.append("oneapi")
    if "python" in options.stages:
        names.append("mpi4py")
    if "notebook" in options.stages:
        names.append("notebook")
    if names and not options.no_install:
        for name, why in peers.install_all(names, say).items():
            say(f"without {name}: {why}")


def run_stages(options: argparse.Namespace, bench: Bench) -> tuple[list[Row], list[str]]:
    """All rows, and the stages that could not be measured, each with its reason."""
    rows: list[Row] = []
    broken: list[str] = []
    for name in options.stages:
        start = time.monotonic()
        say(f"stage {name}")
        try:
            rows += MEASURES[name](bench)
        except Exception as error:  # noqa: BLE001  A stage must not take the others down.
            traceback.print_exc()
            broken.append(f"{name}: {type(error).__name__}: {error}")
        say(f"stage {name} took {time.monotonic() - start:.0f} s")
    return rows, broken


def draw(results: Path) -> None:
    """Pictures of the newest results; without matplotlib a sentence instead."""
    try:
        import plots
    except ImportError as error:
        say(f"no pictures: {error}; ./dev bench uses build/venv, which has matplotlib")
        return
    drawn, failed = plots.draw_all(results)
    for path in drawn:
        say(f"drew {path}")
    for line in failed:
        say(f"no picture of {line}")


def main(arguments: list[str]) -> int:
    """Exit status 0 when every stage ran, whatever its figures; 1 when one could not."""
    options = parse(arguments)
    scratch = REPO / "build" / "bench-scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    results = scratch / "quick" if options.quick else HERE / "results"
    if options.plots_only:
        draw(results)
        return 0
    with (scratch / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # Two at once measure each other.
        except BlockingIOError:
            say("another benchmark runs in this checkout")
            return 1
        install(options)
        programs = build_programs(options.stages)
        rounds = options.rounds or (2 if options.quick else 7)
        bench = Bench(
            build=programs,
            scratch=scratch,
            results=HERE / "results",
            say=say,
            quick=options.quick,
            rounds=rounds,
            rounds_max=rounds if options.quick else 3 * rounds,
            mpis=options.mpis,
            fresh=options.fresh,
            options={
                "quick": options.quick,
                "commit": machine.commit(REPO),
                "programs": digest(programs),
                "day": datetime.date.today().isoformat(),
            },
        )
        about = machine.describe()
        say(f"{about['cpu']}, {about['cores']} cores, {' '.join(about['flags'])}")
        rows, broken = run_stages(options, bench)
    print(goals.table(rows), flush=True)
    if options.quick:
        say("a quick run shows that everything runs; its figures are no measurement")
    met = sum(1 for row in rows if row.verdict == goals.MET)
    set_ = sum(1 for row in rows if row.goal is not None)
    print(f"{met} of {set_} goals met", flush=True)
    for line in broken:
        print(f"not measured: {line}", flush=True)
    draw(results)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
