"""GEMM fused with an all-reduce, two ranks, against the best pair of a peer's GEMM and an MPI."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from measure import goals, machine, placement, results, stats
from measure.goals import Row
from measure.launch import json_lines
from measure.rounds import Bench, Candidate, all_lines, of_class, run_rounds, samples, usable

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
DTYPES = ("f32", "bf16")
BATCHES = 2
SECONDS_MAX = 300.0  # Of rounds.
# Settings worth a launch beside the defaults: C has 0.25 to 16 MB.
SETTINGS = ("", "alg3")


def run(bench: Bench) -> list[Row]:
    """Rounds of libsk and of every MPI with all GEMM peers."""
    found = gemm_peers.build(bench)
    used = [v for v in mpi.variants(bench, bench.mpis) if v.setting in SETTINGS]
    budget_ms = 15 if bench.quick else 60
    shapes = SHAPES[:2] + SHAPES[3:5] if bench.quick else SHAPES
    listed = ",".join(_name(shape) for shape in (*shapes, OVERHEAD_SHAPE))
    own = [str(bench.build / "gemm_ar_bench"), str(RANKS), ",".join(_name(s) for s in shapes)]
    command = [*own, ",".join(DTYPES), str(budget_ms), str(BATCHES)]
    candidates = [Candidate("libsk", lambda: json_lines(command, timeout_s=600))]
    for variant in used if found.shims else []:
        parts = variant == used[0]  # A GEMM alone is the same beside every MPI.
        candidates.append(_pair(bench, variant, found, listed, budget_ms, parts))
    settings: dict[str, Any] = {"shapes": listed, "budget_ms": budget_ms, **bench.options}
    rounds = run_rounds(bench, "fused", candidates, settings, seconds_max=SECONDS_MAX)
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
            about["figures_us"][f"{dtype} {_name(shape)}"] = cell.as_dict()
            goal = goals.fused_goal(dtype, shape, amx)
            rows.append(cell.row(goal, name, bench.rounds_least))
    protocol = {
        "ranks": RANKS,
        "figure": "per call, mean over ranks, in microseconds; weights packed, C f32, symmetric",
        "budget_ms_per_case_and_visit": budget_ms,
        "sets": 3,
        "call_overhead": "oneDNN 3.13 (SYCL): its time at 16x16x16 is taken off gemm and pair",
        "overlap": "T_fused / max(T_gemm, T_comm) with the smaller of libsk's and the peers' times",
    }
    document = results.head(
        "fused", bench, protocol, {**mpi.published(used), **gemm_peers.published(found)}
    )
    document |= {"rounds": results.round_heads(rounds), "places": classes}
    results.write(bench, "fused", document, rows)
    return rows


def _name(shape: tuple[int, int, int]) -> str:
    return "x".join(str(n) for n in shape)


def _pair(
    bench: Bench,
    variant: mpi.Variant,
    found: gemm_peers.GemmPeers,
    shapes: str,
    budget_ms: int,
    parts: bool,
) -> Candidate:
    program = mpi.build(bench, variant.peer, "gemm_ar_mpi.cpp", ["-ldl"])
    arguments = [shapes, ",".join(DTYPES), str(budget_ms), str(BATCHES), str(int(parts))]
    arguments += [str(shim) for shim in found.shims]
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
        label = f"{dtype} {_name(shape)}"
        self.ours = {
            part: self._take("libsk", f"{label} {part}") for part in ("fused", "gemm", "comm")
        }
        self.pairs, self.gemms, self.comms = {}, {}, {}
        for variant in used:
            self.comms[variant.name] = self._take(variant.name, f"{label} comm")
            for peer in peers:
                overhead = self._overhead(used[0].name, peer)
                name = f"{peer} + {variant.name}"
                pair = self._take(variant.name, f"{label} pair {peer}")
                self.pairs[name] = _less(pair, overhead)
                if variant == used[0]:
                    gemm = self._take(variant.name, f"{label} gemm {peer}")
                    self.gemms[peer] = _less(gemm, overhead)

    def _take(self, program: str, case: str) -> list[stats.Visits]:
        return samples(self.rounds, program, lambda line: line.get("case") == case, "us")

    def _overhead(self, program: str, peer: str) -> float:
        """Only the SYCL build of oneDNN 3.13 has a call overhead to speak of."""
        if peer != "dnnl3":
            return 0.0
        visits = self._take(program, f"{self.dtype} {_name(OVERHEAD_SHAPE)} gemm {peer}")
        return _time(visits) if visits else 0.0

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
