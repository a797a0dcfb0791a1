"""Modules that ranks share: sixteen ranks with PyTorch, preloaded and imported by each."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import results, stats
from measure.goals import Row
from measure.launch import LaunchError
from measure.rounds import Bench, Candidate, Judge, run_rounds, samples
from notebook import kernels, processes
from notebook.client import environment

PYTHON = kernels.REPO / "build" / "venv-torch" / "bin" / "python"
BASE = "python -c import torch"
RANKS, ONE = 16, 1
READY_GOAL, MEMORY_GOAL_MB = 2.0, 60.0
READY = "import torch\nprint(torch.get_num_threads() > 0)"
OPERATION = "print(float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()))"
LIMIT_S = 300.0
SECONDS_MAX = 1500.0


def run(bench: Bench) -> list[Row]:
    """Kernels with and without, and one plain import, in ABBA rounds."""
    sk = kernels.build() / "tools" / "sk" / "sk"
    for path, how in ((sk, "./dev test builds it"), (PYTHON, "./dev test --suite torch --install")):
        if not path.exists():
            raise LaunchError(f"there is no {path} ({how})")
    _import()  # The first writes the byte code that is missing, and fills the page cache.
    candidates = [Candidate(BASE, _import)]
    shapes = ((RANKS, True), (RANKS, False), (ONE, True), (ONE, False))
    candidates += [Candidate(_name(*shape), _visit(bench, sk, *shape)) for shape in shapes]
    rounds = run_rounds(
        bench, "preload", candidates, dict(bench.options),
        judge=Judge.NOTHING, seconds_max=SECONDS_MAX,
    )  # fmt: skip
    names = [each.name for each in candidates]
    rows = [_ready(rounds, True), _ready(rounds, False), _memory(rounds, True)]
    rows.append(_memory(rounds, False))
    protocol = {
        "ready_s": f"from the start of the kernel's process to the end of its first cell, {READY!r}"
        f"; of {BASE!r}: of the process",
        "operation_ms": f"of the cell behind it: {OPERATION!r}",
        "pss_mb": "after that cell: of all processes of the kernel's ranks, template included",
        "memory per rank": "PSS of 16 ranks less that of one, by 15; medians",
        "torch": _version(),
    }
    document = results.head("preload", bench, protocol, {})
    document |= {"rounds": results.round_heads(rounds), "figures": _figures(rounds, names)}
    results.write(bench, "preload", document, rows)
    return rows


def _name(ranks: int, shared: bool) -> str:
    return f"{ranks} {'rank' if ranks == 1 else 'ranks'}, {'preloaded' if shared else 'by itself'}"


def _import() -> list[dict[str, Any]]:
    begun = time.perf_counter()
    # A session of its own, as a kernel is: where others compute, each session has its share.
    command = [str(PYTHON), "-c", "import torch"]
    subprocess.run(command, check=True, env=environment({}), start_new_session=True)
    return [{"case": "import", "ready_s": [time.perf_counter() - begun]}]


def _version() -> str:
    code = "import torch; print(torch.__version__)"
    done = subprocess.run([str(PYTHON), "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _visit(bench: Bench, sk: Path, ranks: int, shared: bool) -> Callable[[], list[dict[str, Any]]]:
    command = (str(sk), "kernel", "-f", "{connection_file}", "--ranks", str(ranks))
    command += ("--preload", "torch") if shared else ()
    command += ("--", str(PYTHON), "-m", "libsk.kernel")
    kernel_of = kernels.Candidate(_name(ranks, shared), command, ranks, {"SK_PROGRAM": str(sk)})

    def visit() -> list[dict[str, Any]]:
        with kernel_of.open(bench.scratch / "preload") as kernel:
            cells = [kernel.first(READY, LIMIT_S), kernel.run(OPERATION, LIMIT_S)]
            for cell, text in zip(cells, ("True", "262144.0"), strict=True):
                if cell.reply.get("status") != "ok" or text not in cell.text:
                    raise LaunchError(f"a cell ended as {cell.reply} with {cell.text[:200]!r}")
            pids = list(processes.descendants(kernel.process.pid))
            own = [pid for pid in pids if "-m libsk.kernel" in processes.command(pid)]
            return [
                {
                    "case": "kernel",
                    "ready_s": [cells[0].seconds],
                    "operation_ms": [1000 * cells[1].seconds],
                    "pss_mb": [sum(map(processes.pss_mb, own))],
                }
            ]

    return visit


def _of(rounds: list[dict[str, Any]], name: str, field: str) -> list[stats.Visits]:
    return samples(rounds, name, lambda line: True, field)


def _ready(rounds: list[dict[str, Any]], shared: bool) -> Row:
    area, case = "16 ranks with torch ready", "preloaded" if shared else "each by itself"
    goal = READY_GOAL if shared else None
    base, own = _of(rounds, BASE, "ready_s"), _of(rounds, _name(RANKS, shared), "ready_s")
    if not base or not own:
        return Row(area, case, goal, f"x {BASE}", at_most=True, why="no figure")
    compared = stats.compare(base, own)
    return Row(
        area, case, goal, f"x {BASE}", at_most=True, measured=compared.ratio,
        spread=f"{compared.low:.2f} to {compared.high:.2f}, A/A {compared.aa:.0%}",
        against=f"{stats.median(stats.pooled(own)):.3g} s, import "
        f"{stats.median(stats.pooled(base)):.3g}",
    )  # fmt: skip


def _memory(rounds: list[dict[str, Any]], shared: bool) -> Row:
    area, case = "PSS of a rank beyond the first", "preloaded" if shared else "each by itself"
    goal = MEMORY_GOAL_MB if shared else None
    many, one = (_of(rounds, _name(ranks, shared), "pss_mb") for ranks in (RANKS, ONE))
    if not many or not one:
        return Row(area, case, goal, "MB", at_most=True, why="no figure")
    both = [stats.median(stats.pooled(each)) for each in (many, one)]
    return Row(
        area, case, goal, "MB", at_most=True, measured=(both[0] - both[1]) / (RANKS - ONE),
        against=f"{RANKS} ranks {both[0]:.0f} MB, one {both[1]:.0f}",
    )  # fmt: skip


def _figures(rounds: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in names:
        for field in ("ready_s", "operation_ms", "pss_mb"):
            if name == BASE and field != "ready_s":
                continue
            if found := _of(rounds, name, field):
                figures.setdefault(name, {})[field] = results.summary(found)
    return figures
