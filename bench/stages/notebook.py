"""Notebooks: start, cells, memory of ranks, floods, interrupts and deaths, beside ipykernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from measure import results, stats
from measure.goals import Row
from measure.launch import LaunchError
from measure.rounds import Bench, Candidate, Judge, run_rounds, samples
from notebook import kernels, visits

BASE = "ipykernel"
RANKS = (1, 4, 16, 100)
START_GOAL = {4: 1.0, 16: 2.0, 100: 8.0}  # Times ipykernel's, at most.
PRINT_GOAL = {4: 1.0, 16: 1.5, 100: 5.0}
PRINTS = {BASE: 60, "libsk-100": 20, "ipyparallel-16": 20, "stub-256": 20}
MEMORY_GOAL_MB = 20.0
STUB_RANKS, STUB_GOAL_MS = 256, 100.0
MANY_STUBS, CONTROLLER_GOAL_MB = 1000, 200.0
FLOOD_RANKS, FLOOD_LINES, FLOOD_GOAL_S, MESSAGES_GOAL = 64, 2000, 2.0, 20.0
VOLUME_MB = (1, 2, 4)
LINEAR_GOAL = 1.5  # Time per MB at the largest volume over that at the smallest: quadratic is 4.
WIRE_GOAL = 1.5  # Of long output.
TIMES, INTERRUPT_GOAL_MS, DEATH_GOAL_MS = 20, 100.0, 200.0


def run(bench: Bench) -> list[Row]:
    """Kernels in ABBA rounds; what has an absolute goal, by itself behind them."""
    if why := kernels.missing():
        raise LaunchError(why)
    candidates = _candidates(bench)
    settings = {"prints": PRINTS, **bench.options}
    for kernel in (kernels.ipykernel(), kernels.ours(1)):
        # The first start of all writes byte code that is missing; no figure is of it.
        visits.start_and_print(kernel, bench.scratch / "notebook", 1)
    # Not judged by probes: a cell is woken processes, not a loop on a core, and a ratio of medians
    # of one interleaved run holds on a busy machine. What others took is in the file.
    rounds = run_rounds(bench, "notebook", candidates, settings, judge=Judge.NOTHING)
    names = [each.name for each in candidates]
    alone = _alone(bench)
    rows = [*_ratios(rounds, names), *_ranks_alone(rounds), *_loads(alone)]
    protocol = {
        "start_s": "from the start of the kernel's process to reply and idle of its first cell, "
        "print(1), which is sent before the kernel listens; ipyparallel: with a cell before it "
        "that starts the cluster",
        "print_ms": "from the request to reply and idle, one after the other, right after the "
        "first cell: while the ranks still connect to each other",
        "connected_ms": "the same after a comm.barrier(), for which a cell waits until they have",
        "pss_mb_per_rank": "rank processes and template, by the number of ranks",
        "byte_code": "of both environments is there: one start of each went before",
        "client": "pyzmq and jupyter_client.session in one thread (bench/notebook/client.py)",
    }
    document = results.head("notebook", bench, protocol, _versions())
    document |= {
        "rounds": results.round_heads(rounds),
        "figures": _figures(rounds, names),
        "alone": alone,
    }
    results.write(bench, "notebook", document, rows)
    return rows


def _candidates(bench: Bench) -> list[Candidate]:
    ranks = (1, 4) if bench.quick else RANKS
    found = [kernels.ipykernel(), *map(kernels.ours, ranks)]
    found.append(kernels.stub(16 if bench.quick else STUB_RANKS))
    if not bench.quick:
        found += [kernels.ipyparallel(4), kernels.ipyparallel(16)]

    def visit(kernel: kernels.Candidate) -> Callable[[], visits.Lines]:
        prints = 5 if bench.quick else PRINTS.get(kernel.name, 40)
        return lambda: visits.start_and_print(kernel, bench.scratch / "notebook", prints)

    return [Candidate(each.name, visit(each)) for each in found]


def _versions() -> dict[str, Any]:
    return {"ipykernel": "7.4.0", "ipyparallel": "9.2.0"}


def _all(rounds: Sequence[dict[str, Any]], name: str, field: str) -> list[float]:
    return [
        value
        for entry in rounds
        for lines in entry["visits"].get(name, [])
        for line in lines
        for value in line[field]
    ]


def _figures(rounds: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in names:
        for field in ("start_s", "print_ms", "connected_ms", "pss_mb_per_rank"):
            visits_ = samples(list(rounds), name, lambda line: True, field)
            if visits_:
                figures.setdefault(name, {})[field] = results.summary(visits_)
    return figures


def _ratios(rounds: list[dict[str, Any]], names: Sequence[str]) -> list[Row]:
    """Times ipykernel's own, medians of the same run."""
    rows = []
    for field, base_field, area, goals_ in (
        ("start_s", "start_s", "notebook, start to first finished cell", START_GOAL),
        ("print_ms", "print_ms", "notebook, print(1) p50", PRINT_GOAL),
        ("connected_ms", "print_ms", "notebook, print(1) p50 of connected ranks", PRINT_GOAL),
    ):
        base = samples(rounds, BASE, lambda line: True, base_field)
        for name in names:
            if name == BASE or name.startswith("stub"):
                continue
            if field == "connected_ms" and not name.startswith("libsk"):
                continue
            ranks = int(name.rsplit("-", 1)[1])
            goal = goals_.get(ranks) if name.startswith("libsk") else None
            row = Row(area, name, goal, "x ipykernel", at_most=True, why="no figure")
            own = samples(rounds, name, lambda line: True, field)
            if base and own:
                compared = stats.compare(base, own)
                typical = stats.median(_all(rounds, name, field))
                unit = "s" if field == "start_s" else "ms"
                against = f"{typical:.3g} {unit}, ipykernel "
                against += f"{stats.median(_all(rounds, BASE, base_field)):.3g}"
                spread = f"{compared.low:.2f} to {compared.high:.2f}, A/A {compared.aa:.0%}"
                row = Row(
                    area, name, goal, "x ipykernel", at_most=True,
                    measured=compared.ratio, spread=spread, against=against,
                )  # fmt: skip
            rows.append(row)
    return rows


def _ranks_alone(rounds: list[dict[str, Any]]) -> list[Row]:
    rows = []
    for ranks in RANKS:
        memory = _all(rounds, f"libsk-{ranks}", "pss_mb_per_rank")
        if memory:
            goal = MEMORY_GOAL_MB if ranks > 1 else None
            rows.append(_at_most("notebook, PSS per rank", f"{ranks} ranks", goal, "MB", memory))
    stub = _all(rounds, f"stub-{STUB_RANKS}", "print_ms")
    case = f"{STUB_RANKS} stub ranks"
    rows.append(_at_most("notebook, print p50", case, STUB_GOAL_MS, "ms", stub))
    return rows


def _at_most(
    area: str, case: str, goal: float | None, unit: str, values: Sequence[float], why: str = ""
) -> Row:
    if not values:
        return Row(area, case, goal, unit, at_most=True, why=why or "no figure")
    spread = f"{min(values):.3g} to {max(values):.3g}, {len(values)} values"
    return Row(
        area, case, goal, unit, at_most=True,
        measured=stats.median(values), spread=spread, why=why,
    )  # fmt: skip


def _alone(bench: Bench) -> dict[str, Any]:
    """By group, the lines of every repeat; a group that failed has its reason instead."""
    scratch = bench.scratch / "notebook"
    few = bench.quick
    groups: dict[str, tuple[int, Callable[[], visits.Lines]]] = {
        "controller": (1, lambda: visits.controller_memory(scratch, 50 if few else MANY_STUBS)),
        "flood": (1 if few else 3, lambda: visits.flood(scratch, 4 if few else FLOOD_RANKS, 2000)),
        "volume": (
            1 if few else 3,
            lambda: visits.volume(scratch, 4, (*VOLUME_MB, *reversed(VOLUME_MB))),
        ),
        "interrupt": (1, lambda: visits.interrupts(scratch, 4, 2 if few else TIMES)),
        "death": (1, lambda: visits.deaths(scratch, 4, 2 if few else TIMES)),
    }
    found: dict[str, Any] = {}
    for name, (repeats, visit) in groups.items():
        bench.say(f"notebook: {name}")
        try:
            found[name] = [line for _ in range(repeats) for line in visit()]
        except LaunchError as error:
            bench.say(f"notebook: {name}: {error}")
            found[name] = str(error)
    return found


def _loads(alone: dict[str, Any]) -> list[Row]:
    """Rows of what has an absolute goal."""

    def values(group: str, case: str, field: str) -> list[float]:
        lines = alone.get(group, [])
        if isinstance(lines, str):
            return []
        return [value for line in lines if line["case"] == case for value in line[field]]

    why = {name: lines for name, lines in alone.items() if isinstance(lines, str)}
    rows = [
        _at_most(
            "notebook, controller RSS", f"{MANY_STUBS} stub ranks", CONTROLLER_GOAL_MB, "MB",
            values("controller", "controller", "rss_mb"), why.get("controller", ""),
        )
    ]  # fmt: skip
    area = f"notebook, {FLOOD_RANKS} ranks x {FLOOD_LINES} lines"
    for field, goal, unit in (
        ("seconds", FLOOD_GOAL_S, "s"),
        ("messages_per_s", MESSAGES_GOAL, "messages/s"),
        ("wire_over_shown", None, "bytes sent per byte shown"),
    ):
        for case in ("lines alike", "lines apart"):
            own = goal if case == "lines alike" or field != "seconds" else None
            found = values("flood", case, field)
            rows.append(_at_most(area, case, own, unit, found, why.get("flood", "")))
    rows += _volume_rows(alone)
    for group, what, goal in (
        ("interrupt", f"{TIMES} interrupts of time.sleep, slowest", INTERRUPT_GOAL_MS),
        ("death", f"{TIMES} deaths in a cell, slowest", DEATH_GOAL_MS),
    ):
        taken = values(group, group, "ms")
        row = _at_most("notebook, 4 ranks", what, goal, "ms", taken, why.get(group, ""))
        rows.append(row if not taken else _slowest(row, taken))
    return rows


def _slowest(row: Row, values: Sequence[float]) -> Row:
    """ "20 of 20" is a promise about the slowest one."""
    within = sum(1 for value in values if row.goal is not None and value <= row.goal)
    return Row(
        row.area, row.case, row.goal, row.unit, at_most=True, measured=max(values),
        spread=f"median {stats.median(values):.3g}", why=f"{within} of {len(values)} within",
    )  # fmt: skip


def _volume_rows(alone: dict[str, Any]) -> list[Row]:
    lines = alone.get("volume", [])
    area, case = "notebook, 4 ranks, long output", f"{VOLUME_MB[-1]} MB per rank"
    if isinstance(lines, str) or not lines:
        return [Row(area, case, LINEAR_GOAL, "time per MB over that at 1 MB", why=str(lines))]
    per_mb = {
        mb: stats.median([s / mb for line in lines if line["mb"] == mb for s in line["seconds"]])
        for mb in VOLUME_MB
    }
    growth = [per_mb[VOLUME_MB[-1]] / per_mb[VOLUME_MB[0]]]
    note = ", ".join(f"{mb} MB: {seconds:.3g} s/MB" for mb, seconds in per_mb.items())
    wire = [ratio for line in lines for ratio in line["wire_over_shown"]]
    unit = "bytes sent per byte shown"
    return [
        _at_most(area, case, LINEAR_GOAL, "time per MB over that at 1 MB", growth, note),
        _at_most(area, "bytes to the front end", WIRE_GOAL, unit, wire),
    ]
