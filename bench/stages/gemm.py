"""GEMM on one core, weights packed: libsk, oneDNN 2.6, oneDNN 3.13 and MKL in one process."""

from __future__ import annotations

from typing import Any

from measure import goals, machine, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, Judge, run_rounds, usable

from stages import gemm_peers

SIZES = (256, 512, 1024, 2048)
QUICK_SIZES = (256, 512)
OVERHEAD_SIZE = 16  # A product so small that its time is the cost of the call.
PEAK_GOAL = 95.0  # Percent of the f32 peak read beside the sample, n = 512 to 2048.
# Peaks read before and after a sample may differ by this much, or the sample is dropped; long f32
# calls heat the core and get more.
PEAK_MOVE_MAX = {"bf16": 0.03, "f32": 0.03}
LONG_CALL_US, LONG_CALL_MOVE_MAX = 5000.0, 0.10


def run(bench: Bench) -> list[Row]:
    """Rounds, samples kept or dropped by their peaks, ratios and shares of the peak."""
    found = gemm_peers.build(bench)
    budget_ms = 60 if bench.quick else 400
    sizes = QUICK_SIZES if bench.quick else SIZES
    shapes = ",".join(f"{n}x{n}x{n}" for n in (OVERHEAD_SIZE, *sizes))
    program = [str(bench.build / "gemm_bench"), shapes, "f32,bf16", str(budget_ms)]
    command = [*program, *(str(shim) for shim in found.shims)]
    visit = Candidate("gemm", lambda: json_lines(command, found.env, timeout_s=600))
    settings: dict[str, Any] = {"shapes": shapes, "budget_ms": budget_ms, **bench.options}
    rounds = run_rounds(bench, "gemm", [visit], settings, judge=Judge.ROUNDS)
    counted = usable(rounds, bench)
    amx = "amx_bf16" in machine.describe()["flags"]
    rows, figures = [], {}
    for dtype in ("f32", "bf16"):
        for n in sizes:
            cell = _cell(counted, dtype, n)
            figures[f"{dtype} {n}"] = cell
            rows += _rows(cell, dtype, n, amx)
    protocol = {
        "figure": "microseconds of one product on one core; peaks in GFLOP/s around each",
        "peak_move_max": PEAK_MOVE_MAX,
        "long_call": [LONG_CALL_US, LONG_CALL_MOVE_MAX],
        "call_overhead": f"time at n={OVERHEAD_SIZE}, taken off the oneDNN 3.13 (SYCL) build",
        "budget_ms": budget_ms,
        "sets": 3,
    }
    document = results.head("gemm", bench, protocol, gemm_peers.published(found))
    document |= {"rounds": results.round_heads(rounds), "figures": figures}
    results.write(bench, "gemm", document, rows)
    return rows


def kept(line: dict[str, Any]) -> list[tuple[float, float]]:
    """(microseconds, peak) of the samples whose two peaks agree."""
    good = []
    for us, before, after in zip(line["us"], line["peak_before"], line["peak_after"], strict=True):
        move = PEAK_MOVE_MAX[line["dtype"]] if us < LONG_CALL_US else LONG_CALL_MOVE_MAX
        if line["dtype"] == "bf16":
            move = PEAK_MOVE_MAX["bf16"]
        if abs(after / before - 1.0) <= move:
            good.append((us, (before + after) / 2))
    return good


def _lines(rounds: list[dict[str, Any]], dtype: str, n: int) -> list[list[dict[str, Any]]]:
    """Per visit, the lines of one type and size."""
    return [
        [line for line in lines if line["dtype"] == dtype and line["shape"][0] == n]
        for entry in rounds
        for lines in entry["visits"].get("gemm", [])
    ]


def _overhead(rounds: list[dict[str, Any]], dtype: str, name: str) -> float:
    """Microseconds of a call without work; only the SYCL build has any to speak of."""
    if name != "dnnl3":
        return 0.0
    visits = _lines(rounds, dtype, OVERHEAD_SIZE)
    times = [us for lines in visits for line in lines if line["case"] == name for us in line["us"]]
    return stats.median(times) if times else 0.0


def _cell(rounds: list[dict[str, Any]], dtype: str, n: int) -> dict[str, Any]:
    """Per candidate: median time, share of the peak, thinned samples, per-visit medians."""
    visits = _lines(rounds, dtype, n)
    names = {line["case"] for lines in visits for line in lines}
    cell: dict[str, Any] = {}
    for name in sorted(names):
        chosen = [line for lines in visits for line in lines if line["case"] == name]
        per_visit = [kept(line) for line in chosen]
        good = [sample for samples in per_visit for sample in samples]
        overhead = _overhead(rounds, dtype, name)
        cell[name] = {
            "info": chosen[0]["info"],
            "samples_taken": sum(len(line["us"]) for line in chosen),
            "samples_kept": len(good),
            "overhead_us": round(overhead, 2),
        }
        if not good:
            continue
        shares = [2.0 * n**3 / ((us - overhead) * 1e3) / peak for us, peak in good]
        cell[name] |= {
            "median_us": round(stats.median([us for us, _ in good]), 3),
            "percent_of_peak": round(100 * stats.median(shares), 2),
            "percent_of_peak_quartiles": [
                round(100 * stats.quantile(shares, q), 2) for q in (0.25, 0.75)
            ],
            "visit_medians_percent": [
                round(100 * stats.median([_share(n, s, overhead) for s in samples]), 2)
                for samples in per_visit
                if samples
            ],
            "samples_us": [
                [round(us, 2) for us in stats.thin([us for us, _ in samples], results.KEEP)]
                for samples in per_visit
            ],
        }
    return cell


def _share(n: int, sample: tuple[float, float], overhead: float) -> float:
    us, peak = sample
    return 2.0 * n**3 / ((us - overhead) * 1e3) / peak


def _rows(cell: dict[str, Any], dtype: str, n: int, amx: bool) -> list[Row]:
    """The ratio is of shares of the peak, so that a clock that moved between samples cancels."""
    area = f"GEMM {dtype}, one core, packed"
    shares = {name: c["percent_of_peak"] for name, c in cell.items() if "percent_of_peak" in c}
    rivals = {name: share for name, share in shares.items() if name != "libsk"}
    rows = []
    goal = goals.gemm_goal(dtype, n, amx)
    if goal is not None:
        row = Row(area, f"n={n}", goal, "x best peer", why="libsk or every peer gave no figure")
        if "libsk" in shares and rivals:
            best = max(rivals, key=lambda name: rivals[name])
            row = Row(
                area, f"n={n}", goal, "x best peer",
                measured=shares["libsk"] / rivals[best],
                against=f"{best} {rivals[best]:.1f} %, libsk {shares['libsk']:.1f} % of peak",
                spread=_aa(cell, best),
            )  # fmt: skip
        rows.append(row)
    if dtype == "f32" and n >= 512:
        why = "" if "libsk" in shares else "libsk gave no figure"
        share = shares.get("libsk")
        rows.append(Row(area, f"n={n}", PEAK_GOAL, "% of peak", measured=share, why=why))
    return rows


def _aa(cell: dict[str, Any], peer: str) -> str:
    """How far the visits of one candidate are apart: the larger of the two candidates'."""
    spreads = []
    for name in ("libsk", peer):
        visits = cell[name]["visit_medians_percent"]
        pairs = [stats.aa_spread([a], [b]) for a, b in zip(visits, visits[1:], strict=False)]
        spreads.append(stats.median(pairs) if pairs else 0.0)
    return f"A/A {max(spreads):.1%}"
