"""From the lines of gpu_bench to figures and goals. Needs nothing but Python.

A line is one candidate of one case: {"part", "case", "candidate", "note", "runs", "rounds"}, where
rounds[round][visit][sample] is microseconds of one run; or {"absent": why} in place of rounds; or a
list by its unit, {"us": [...]}, {"share": [...]}; or of watched kernels {"launch", "stalls"}, that
is medians of microseconds since the work before, and of shares of a role's time; or of a check
{"part", "case", "checked"}.
"""

from __future__ import annotations

from typing import Any

from measure import stats
from measure.goals import Row

Line = dict[str, Any]

# Times cuBLASLt's speed, by shape.
GEMM_GOALS = {
    "8192x8192x8192": 1.00,
    "4096x4096x4096": 0.97,
    "8192x28672x8192": 0.97,
    "1000x777x3333": 0.92,
    "16x8192x8192": 0.92,
    "128x8192x8192": 0.92,
    "4096x4096x512": 0.92,
    "300x5000x4100": 0.92,
}
PLAN_COST_MAX = 1.02  # Times the bare kernel of the same tile.
FUSED_COST_MAX = 1.10  # Times the longer of product and all-reduce.
COPY_SHARE = 0.9
REPLAY_US_MAX = 5.0
ABORT_US_MAX = 10_000.0


def cases(lines: list[Line], part: str) -> dict[str, dict[str, Line]]:
    """Of one part: case, then candidate, to its line; in their order."""
    found: dict[str, dict[str, Line]] = {}
    for line in lines:
        if line["part"] == part and "candidate" in line:
            found.setdefault(line["case"], {})[line["candidate"]] = line
    return found


def visits(line: Line) -> list[stats.Visits]:
    """The samples of a line by round; two visits each."""
    rounds = line["rounds"]
    if not rounds or any(len(pair) != 2 for pair in rounds):
        raise ValueError(f"{line['case']}, {line['candidate']}: not two visits in every round")
    return [(first, second) for first, second in rounds]


def median_us(line: Line) -> float:
    """Of all samples of all rounds."""
    return stats.median([value for pair in line["rounds"] for visit in pair for value in visit])


def figures(lines: list[Line]) -> dict[str, dict[str, Any]]:
    """By "part case": each candidate's median, or why there is none."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        if "candidate" not in line:  # Of a check.
            continue
        cell = found.setdefault(f"{line['part']} {line['case']}", {})
        if "rounds" in line:
            cell[line["candidate"]] = round(median_us(line), 3)
        elif "absent" in line:
            cell[line["candidate"]] = f"absent: {line['absent']}"
        elif "stalls" in line:
            cell[line["candidate"]] = {"launch": line["launch"], "stalls": line["stalls"]}
        elif unit := next((each for each in ("us", "share") if each in line), ""):
            samples = line[unit]
            cell[line["candidate"]] = {
                "unit": unit,
                "median": stats.median(samples),
                "max": max(samples),
                "count": len(samples),
            }
    return found


def _why_not(cell: dict[str, Line], *names: str) -> str:
    """ "" when all of them were measured."""
    for name in names:
        if name not in cell:
            return f"{name} was not measured"
        if "absent" in cell[name]:
            return f"{name}: {cell[name]['absent']}"
    return ""


def _spread(comparison: stats.Comparison) -> str:
    return (
        f"{comparison.low:.3f} to {comparison.high:.3f} over {comparison.rounds} rounds, "
        f"A/A {comparison.aa:.1%}"
    )


def _ratio(
    area: str, case: str, cell: dict[str, Line], over: str, under: str, goal: float, *, most: bool
) -> Row:
    """The time of `over` by that of `under`."""
    unit = f"x {under}" if most else f"x the speed of {over}"
    why = _why_not(cell, over, under)
    if why:
        return Row(area, case, goal, unit, at_most=most, why=why)
    found = stats.compare(visits(cell[under]), visits(cell[over]))
    return Row(
        area, case, goal, unit, at_most=most, measured=found.ratio, spread=_spread(found),
        against=cell[over if not most else under].get("note", ""),
    )  # fmt: skip


def versus_rows(lines: list[Line]) -> list[Row]:
    """The kernel without a plan beside cuBLASLt: what plans can reach at most."""
    rows = []
    for part in ("versus", "versus_pairs"):
        for case, cell in cases(lines, part).items():
            names = [name for name in ("bare", "bare_pairs") if name in cell]
            rows += [
                _ratio(
                    f"GEMM bf16, {name}, no plan", case, cell, "cublaslt", name, 0.0, most=False
                ).without_goal()
                for name in names
            ]
    return rows


def gemm_rows(lines: list[Line]) -> list[Row]:
    """What a plan costs, and how its product stands beside cuBLASLt's."""
    rows = []
    for case, cell in cases(lines, "gemm").items():
        cost = _ratio("GEMM bf16, plan", case, cell, "plan", "bare", PLAN_COST_MAX, most=True)
        goal = GEMM_GOALS.get(case)
        peer = _ratio("GEMM bf16", case, cell, "cublaslt", "plan", goal or 0.0, most=False)
        rows += [cost, peer if goal is not None else peer.without_goal()]
    return rows


def raw_rows(lines: list[Line]) -> list[Row]:
    """A B that nobody packs over a packed one, and beside cuBLASLt's of the same layout."""
    beside = (("plan_nk", "plan"), ("plan_kn", "plan"), ("plan_nk", "cublaslt"),
              ("plan_kn", "cublaslt_kn"))  # fmt: skip
    return [
        _ratio(f"GEMM bf16, {name}", case, cell, other, name, 0.0, most=False).without_goal()
        for case, cell in cases(lines, "raw").items()
        for name, other in beside
    ]


def pairs_rows(lines: list[Line]) -> list[Row]:
    """Pairs of blocks over single ones: no goal, for it is a choice."""
    return [
        _ratio(
            "GEMM bf16, pairs", case, cell, name, f"{name}_pairs", 0.0, most=False
        ).without_goal()
        for case, cell in cases(lines, "pairs").items()
        for name in ("plan", "bare")
    ]


def fused_rows(lines: list[Line]) -> list[Row]:
    """The fused call over its longer half, and beside the two halves one behind the other."""
    rows = []
    for case, cell in cases(lines, "fused").items():
        why = _why_not(cell, "plan", "gemm", "comm")
        if why:
            rows.append(Row("fused", case, FUSED_COST_MAX, "x max", at_most=True, why=why))
        else:
            longer = max(("gemm", "comm"), key=lambda name: median_us(cell[name]))
            rows.append(_ratio("fused", case, cell, "plan", longer, FUSED_COST_MAX, most=True))
        rows.append(_ratio("fused", case, cell, "pair", "plan", 1.0, most=False))
        shares = cell.get("overlap", {}).get("share", [])
        rows.append(
            Row(
                "fused, tiles summed before the last handed-over one", case, 0.01, "of them",
                measured=stats.median(shares) if shares else None,
            )
        )  # fmt: skip
    return rows


def collective_rows(lines: list[Line]) -> list[Row]:
    """Each beside a copy of the bytes that it must move."""
    return [
        _ratio("collective", case, cell, "copy", "plan", COPY_SHARE, most=False)
        for case, cell in cases(lines, "collectives").items()
    ]


def latency_rows(lines: list[Line]) -> list[Row]:
    """Of aborts the slowest counts."""
    rows = []
    found = cases(lines, "latency")
    replayed = found.get("replayed run", {}).get("plan")
    rows.append(
        Row(
            "replayed run of one tile, whole", "128x256x64", REPLAY_US_MAX, "us", at_most=True,
            measured=median_us(replayed) if replayed else None,
            why="an upper bound of launch to first tile",
        )
    )  # fmt: skip
    aborts = found.get("abort", {}).get("plan", {}).get("us", [])
    rows.append(
        Row(
            "abort to the end of the launch, slowest", f"{len(aborts)} aborts", ABORT_US_MAX, "us",
            at_most=True, measured=max(aborts) if aborts else None,
        )
    )  # fmt: skip
    return rows


def no_rows(_lines: list[Line]) -> list[Row]:
    """Figures for a reader alone."""
    return []


ROWS = {
    "versus": versus_rows,
    "versus_pairs": no_rows,  # Among those of "versus".
    "gemm": gemm_rows,
    "fused": fused_rows,
    "collectives": collective_rows,
    "latency": latency_rows,
    "raw": raw_rows,
    "pairs": pairs_rows,
    "order": no_rows,
    "stalls": no_rows,
}


def all_rows(lines: list[Line]) -> tuple[list[Row], list[str]]:
    """The rows of every part that was measured, and why a part has none."""
    rows: list[Row] = []
    problems = []
    parts = {line["part"] for line in lines}
    for part, rows_of in ROWS.items():
        if part not in parts:
            continue
        try:
            rows += rows_of(lines)
        except (KeyError, ValueError) as problem:  # What was measured is kept in any case.
            problems.append(f"{part}: {type(problem).__name__}: {problem}")
    return rows, problems
