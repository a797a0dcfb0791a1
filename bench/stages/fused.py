"""GEMM fused with an all-reduce, two ranks, against the best pair of a peer's GEMM and an MPI.

A heat runs every pair for a short time; the rounds measure the fastest two of each shape and type
and what these consist of, for all pairs together take minutes a round.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from measure import goals, machine, placement, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, Judge, all_lines, of_class, run_rounds, samples, usable

from stages import gemm_peers, mpi

RANKS = 2
SHAPES = (
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 1024),
    (256, 256, 256),
    (1000, 777, 333),
    (4096, 512, 1024),
)
OVERHEAD_SHAPE = (16, 16, 16)
# The SYCL build of oneDNN 3.13: a call by itself costs what a small product does.
COSTLY_CALLS = ("dnnl3",)
DTYPES = ("f32", "bf16")
BATCHES = 2
SECONDS_MAX = 300.0  # Of the heat and the rounds.
HEAT_BUDGET_MS = 10  # Enough to tell which pairs may be the fastest somewhere.
FINALISTS = 2  # Per shape and type.
# Settings worth a launch beside the defaults: C has 0.25 to 16 MB.
SETTINGS = ("", "alg3")


def run(bench: Bench) -> list[Row]:
    """Rounds of libsk and of every MPI with all GEMM peers."""
    found = gemm_peers.build(bench)
    every = [v for v in mpi.variants(bench, bench.mpis) if v.setting in SETTINGS]
    budget_ms = 15 if bench.quick else 60
    shapes = SHAPES[:2] + SHAPES[3:5] if bench.quick else SHAPES
    listed = ",".join(_name(shape) for shape in (*shapes, OVERHEAD_SHAPE))
    own = [str(bench.build / "gemm_ar_bench"), str(RANKS), ",".join(_name(s) for s in shapes)]
    command = [*own, ",".join(DTYPES), str(budget_ms), str(BATCHES)]
    settings: dict[str, Any] = {"shapes": listed, "budget_ms": budget_ms, **bench.options}
    heat = _heat(bench, every, found, shapes, settings) if every and found.shims else []
    chosen = finalists(heat, shapes, every, found.names)
    candidates = [Candidate("libsk", lambda: json_lines(command, timeout_s=600))]
    for variant, cases in chosen:
        candidates.append(_pair(bench, variant, found, shapes, cases, budget_ms, BATCHES))
    settings |= {"pairs": [[variant.name, *cases] for variant, cases in chosen]}
    left = SECONDS_MAX - sum(entry["seconds"] for entry in heat)
    rounds = run_rounds(bench, "fused", candidates, settings, seconds_max=left)
    used = [variant for variant, _ in chosen]
    counted = usable(rounds, bench)
    amx = "amx_bf16" in machine.describe()["flags"]
    places = placement.placement_of(all_lines(counted))
    classes = placement.tally(all_lines(counted), places)
    rows: list[Row] = []
    for name, about in classes["classes"].items():
        within = of_class(counted, places, name)
        about["figures_us"] = {}
        for dtype, shape in itertools.product(DTYPES, shapes):
            cell = Cell(within, dtype, shape, used, found.names)
            about["figures_us"][_label(dtype, shape)] = cell.as_dict()
            goal = goals.fused_goal(dtype, shape, amx)
            rows.append(cell.row(goal, name, bench.rounds_least))
    protocol = {
        "ranks": RANKS,
        "figure": "per call, mean over ranks, in microseconds; weights packed, C f32, symmetric",
        "budget_ms_per_case_and_visit": budget_ms,
        "pairs": f"of a heat of {HEAT_BUDGET_MS} ms a case, the fastest {FINALISTS} of each case",
        "sets": 3,
        "call_overhead": "oneDNN 3.13 (SYCL): its time at 16x16x16 is taken off gemm and pair",
        "overlap": "T_fused / max(T_gemm, T_comm) with the smaller of libsk's and the peers' times",
    }
    document = results.head(
        "fused", bench, protocol, {**mpi.published(every), **gemm_peers.published(found)}
    )
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    document |= {"heat": _heat_figures(heat, shapes, every, found.names)}
    results.write(bench, "fused", document, rows)
    return rows


def _name(shape: tuple[int, int, int]) -> str:
    return "x".join(str(n) for n in shape)


def _label(dtype: str, shape: tuple[int, int, int]) -> str:
    return f"{dtype} {_name(shape)}"


def _heat(
    bench: Bench,
    every: list[mpi.Variant],
    found: gemm_peers.GemmPeers,
    shapes: Sequence[tuple[int, int, int]],
    settings: dict[str, Any],
) -> list[dict[str, Any]]:
    """One short round of all pairs, wherever the cores lie: it only chooses."""
    once = replace(bench, rounds=1, rounds_max=1)
    cases = [
        f"{_label(dtype, shape)} pair {peer}"
        for dtype, shape, peer in itertools.product(DTYPES, shapes, found.names)
    ]
    candidates = []
    for variant in every:
        own = [*cases, *_overheads(found.names)] if variant == every[0] else cases
        candidates.append(_pair(bench, variant, found, shapes, own, HEAT_BUDGET_MS, 1))
    return run_rounds(once, "fused-heat", candidates, settings, judge=Judge.NOTHING)


def _overheads(peers: Sequence[str]) -> list[str]:
    """What Cell takes off the times of a peer whose calls cost much by themselves."""
    return [
        f"{_label(dtype, OVERHEAD_SHAPE)} gemm {peer}"
        for dtype, peer in itertools.product(DTYPES, peers)
        if peer in COSTLY_CALLS
    ]


def finalists(
    heat: list[dict[str, Any]],
    shapes: Sequence[tuple[int, int, int]],
    every: list[mpi.Variant],
    peers: list[str],
) -> list[tuple[mpi.Variant, list[str]]]:
    """Each MPI with its cases: the fastest pairs of each type and shape, and their halves.

    A GEMM alone is the same beside every MPI, so the first that has any case measures them all.
    """
    wanted: dict[str, list[str]] = {}
    gemms: list[str] = []
    for dtype, shape in itertools.product(DTYPES, shapes):
        times = Cell(heat, dtype, shape, every, peers).pair_times()
        label = _label(dtype, shape)
        best = sorted(times, key=lambda name: times[name])[:FINALISTS]
        for peer, variant in itertools.product(peers, every):
            if _pair_name(peer, variant) in best:
                wanted.setdefault(variant.name, []).append(f"{label} pair {peer}")
                gemms.append(f"{label} gemm {peer}")
    for cases in wanted.values():
        cases += [f"{_label(d, shape)} comm" for d, shape in itertools.product(DTYPES, shapes)]
    chosen = [(variant, wanted[variant.name]) for variant in every if variant.name in wanted]
    if chosen:
        used = {case.rpartition(" ")[2] for case in gemms}
        chosen[0][1].extend([*dict.fromkeys(gemms), *_overheads([p for p in peers if p in used])])
    return chosen


def _heat_figures(
    heat: list[dict[str, Any]],
    shapes: Sequence[tuple[int, int, int]],
    every: list[mpi.Variant],
    peers: list[str],
) -> dict[str, dict[str, float]]:
    return {
        _label(dtype, shape): Cell(heat, dtype, shape, every, peers).pair_times()
        for dtype, shape in itertools.product(DTYPES, shapes)
    }


def _pair_name(peer: str, variant: mpi.Variant) -> str:
    return f"{peer} + {variant.name}"


def _pair(
    bench: Bench,
    variant: mpi.Variant,
    found: gemm_peers.GemmPeers,
    shapes: Sequence[tuple[int, int, int]],
    cases: Sequence[str],
    budget_ms: int,
    batches: int,
) -> Candidate:
    program = mpi.build(bench, variant.peer, "gemm_ar_mpi.cpp", ["-ldl"])
    listed = ",".join(_name(shape) for shape in (*shapes, OVERHEAD_SHAPE))
    arguments = [listed, ",".join(DTYPES), str(budget_ms), str(batches), ",".join(cases)]
    named = {case.rpartition(" ")[2] for case in cases}
    arguments += [str(shim) for shim in found.only(list(named)).shims]
    env = found.joined(variant.env)
    return Candidate(
        variant.name,
        lambda: mpi.run(variant, RANKS, program, arguments, timeout_s=600, env=env),
    )


class Cell:
    """All figures of one type and shape."""

    def __init__(
        self,
        rounds: list[dict[str, Any]],
        dtype: str,
        shape: tuple[int, int, int],
        used: list[mpi.Variant],
        peers: list[str],
    ) -> None:
        self.rounds, self.dtype, self.shape = rounds, dtype, shape
        label = _label(dtype, shape)
        self.ours = {
            part: self._take("libsk", f"{label} {part}") for part in ("fused", "gemm", "comm")
        }
        self.pairs, self.gemms, self.comms = {}, {}, {}
        for variant in used:
            self.comms[variant.name] = self._take(variant.name, f"{label} comm")
            for peer in peers:
                overhead = self._overhead(used[0].name, peer)
                name = _pair_name(peer, variant)
                pair = self._take(variant.name, f"{label} pair {peer}")
                self.pairs[name] = _less(pair, overhead)
                if variant == used[0]:
                    gemm = self._take(variant.name, f"{label} gemm {peer}")
                    self.gemms[peer] = _less(gemm, overhead)

    def _take(self, program: str, case: str) -> list[stats.Visits]:
        return samples(self.rounds, program, lambda line: line.get("case") == case, "us")

    def _overhead(self, program: str, peer: str) -> float:
        if peer not in COSTLY_CALLS:
            return 0.0
        visits = self._take(program, f"{_label(self.dtype, OVERHEAD_SHAPE)} gemm {peer}")
        return _time(visits) if visits else 0.0

    def pair_times(self) -> dict[str, float]:
        """Microseconds of each pair that gave a figure."""
        return {name: round(_time(v), 2) for name, v in self.pairs.items() if v}

    def _best(self, group: dict[str, list[stats.Visits]]) -> tuple[str, float] | None:
        times = {name: _time(visits) for name, visits in group.items() if visits}
        return min(times.items(), key=lambda item: item[1]) if times else None

    def parts(self) -> dict[str, Any]:
        """T_gemm and T_comm, each the smaller of libsk's and the best peer's, and the overlap."""
        out: dict[str, Any] = {}
        for part, group in (("gemm", self.gemms), ("comm", self.comms)):
            best = self._best({**group, "libsk": self.ours[part]})
            if best:
                out[f"t_{part}_by"], out[f"t_{part}"] = best[0], round(best[1], 2)
        if self.ours["fused"] and "t_gemm" in out and "t_comm" in out:
            fused = _time(self.ours["fused"])
            out["t_fused"] = round(fused, 2)
            longest = max(out["t_gemm"], out["t_comm"])
            out["fused_over_max"] = round(fused / longest, 4)
            out["fused_over_sum"] = round(fused / (out["t_gemm"] + out["t_comm"]), 4)
            out["hidden"] = round(1 - (fused - out["t_gemm"]) / out["t_comm"], 4)
        own = {part: visits for part, visits in self.ours.items() if visits}
        if len(own) == 3:
            longest = max(_time(own["gemm"]), _time(own["comm"]))
            out["fused_over_own_max"] = round(_time(own["fused"]) / longest, 4)
        return out

    def row(self, goal: float, place: str, rounds_least: int) -> Row:
        """The ratio to the best pair; the overlap as a note."""
        area = f"GEMM + all-reduce {self.dtype}, 2 ranks, {place}"
        empty = Row(area, _name(self.shape), goal, "x best pair")
        best = self._best(self.pairs)
        if best is None or not self.ours["fused"]:
            why = "libsk gave no figure" if best else "no peer pair gave a figure"
            return replace(empty, why=why)
        c = stats.compare_if(self.ours["fused"], self.pairs[best[0]], rounds_least)
        if c is None:
            return replace(empty, why="too few rounds of both")
        parts = self.parts()
        note = f"T_fused/max {parts['fused_over_max']:.2f}" if "fused_over_max" in parts else ""
        noise = "" if c.proven else ", within the noise"
        spread = f"{c.low:.2f}-{c.high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
        return replace(empty, measured=c.ratio, against=best[0], why=note, spread=spread)

    def as_dict(self) -> dict[str, Any]:
        """For the result file: summaries with samples for libsk and pairs, times for the parts."""

        def present(group: dict[str, list[stats.Visits]]) -> dict[str, Any]:
            return {name: results.summary(visits) for name, visits in group.items() if visits}

        def times(group: dict[str, list[stats.Visits]]) -> dict[str, float]:
            return {name: round(_time(visits), 2) for name, visits in group.items() if visits}

        return {
            **self.parts(),
            "libsk": present(self.ours),
            "pairs": present(self.pairs),
            "gemm_alone": times(self.gemms),
            "comm_alone": times(self.comms),
        }


def _less(visits: list[stats.Visits], overhead: float) -> list[stats.Visits]:
    return [tuple([us - overhead for us in visit] for visit in pair) for pair in visits]


def _time(visits: list[stats.Visits]) -> float:
    return stats.median(stats.round_medians(visits))
