"""The stage of fused products: a heat chooses the pairs, the rounds measure those alone."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from measure import machine
from measure.rounds import Bench, Candidate, Judge
from stages import fused, gemm_peers

SHAPES = ((512, 512, 512), (256, 256, 256))
PEERS = ["dnnl2", "dnnl3", "mkl"]


def variant(name: str) -> fused.mpi.Variant:
    return fused.mpi.Variant(type("Peer", (), {"name": name, "title": name, "env": {}})(), "")


EVERY = [variant("impi"), variant("ompi"), variant("mpich")]


def lines(of: str, peers: Sequence[str], us: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    """What one MPI prints: pairs as in `us`, else 100 us; every GEMM alone takes 10 us."""
    found = []
    for dtype, shape in itertools.product(fused.DTYPES, (*SHAPES, fused.OVERHEAD_SHAPE)):
        label = f"{dtype} {fused._name(shape)}"
        found.append({"case": f"{label} comm", "us": [5.0]})
        for peer in peers:
            found.append({"case": f"{label} pair {peer}", "us": [us.get((of, peer), 100.0)]})
            found.append({"case": f"{label} gemm {peer}", "us": [10.0]})
    return found


def heat(us: dict[tuple[str, str], float]) -> list[dict[str, Any]]:
    visits = {v.name: [lines(v.name, PEERS, us)] * 2 for v in EVERY}
    return [{"valid": True, "why": "", "seconds": 80.0, "visits": visits}]


def cases_of(found: list[tuple[fused.mpi.Variant, list[str]]], label: str) -> dict[str, list[str]]:
    """What each MPI is to measure of one shape and type."""
    return {v.name: [c for c in cases if c.startswith(label)] for v, cases in found}


def test_the_two_fastest_pairs_of_a_case_are_measured() -> None:
    found = fused.finalists(
        heat({("ompi", "mkl"): 50.0, ("mpich", "mkl"): 60.0}), SHAPES, EVERY, PEERS
    )
    label = "bf16 256x256x256"
    assert cases_of(found, label) == {
        "ompi": [f"{label} pair mkl", f"{label} comm", f"{label} gemm mkl"],
        "mpich": [f"{label} pair mkl", f"{label} comm"],
    }


def test_who_is_fastest_only_without_its_call_overhead_is_measured() -> None:
    """dnnl3's 10 us at 16x16x16 are taken off; its pair of 55 us is the faster one."""
    us = {("ompi", "dnnl3"): 55.0, ("mpich", "mkl"): 50.0, ("ompi", "mkl"): 52.0}
    found = fused.finalists(heat(us), SHAPES, EVERY, PEERS)
    assert "f32 512x512x512 pair dnnl3" in dict((v.name, c) for v, c in found)["ompi"]


def test_each_gemm_is_measured_alone_by_the_first_mpi() -> None:
    """And the overhead that is taken off dnnl3, which else would not be known in the rounds."""
    us = {("impi", "mkl"): 40.0, ("ompi", "dnnl3"): 45.0}
    found = dict((v.name, c) for v, c in fused.finalists(heat(us), SHAPES, EVERY, PEERS))
    gemms = {f"{fused._label(d, s)} gemm" for d, s in itertools.product(fused.DTYPES, SHAPES)}
    alone = {f"{gemm} {peer}" for gemm in gemms for peer in ("mkl", "dnnl3")}
    alone |= {"f32 16x16x16 gemm dnnl3", "bf16 16x16x16 gemm dnnl3"}
    assert {c for c in found["impi"] if " gemm " in c} == alone
    assert not [c for c in found["ompi"] if " gemm " in c]


def test_a_pair_is_measured_where_it_is_among_the_fastest_alone() -> None:
    entries = heat({("ompi", "mkl"): 50.0, ("mpich", "mkl"): 60.0})
    for line in itertools.chain(*entries[0]["visits"]["impi"]):
        if line["case"] == "f32 512x512x512 pair dnnl2":
            line["us"] = [1.0]
    found = fused.finalists(entries, SHAPES, EVERY, PEERS)
    assert [v.name for v, c in found if any("pair dnnl2" in case for case in c)] == ["impi"]
    assert sum("pair dnnl2" in case for _, cases in found for case in cases) == 1
    assert not [
        c for c in dict((v.name, c) for v, c in found)["mpich"] if "f32 512x512x512 pair" in c
    ]


def test_an_mpi_that_failed_in_the_heat_is_not_measured() -> None:
    entries = heat({("ompi", "mkl"): 1.0})
    del entries[0]["visits"]["ompi"]
    found = fused.finalists(entries, SHAPES, EVERY, PEERS)
    assert "ompi" not in [v.name for v, _ in found]
    assert found


def test_the_rounds_hold_the_finalists_and_what_time_the_heat_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    us = {("ompi", "mkl"): 50.0, ("mpich", "dnnl2"): 60.0}
    asked: list[tuple[str, list[str], float]] = []
    place = [[110.0, 1.0, 3.0]] * 2

    def rounds(
        bench: Bench,
        label: str,
        candidates: Sequence[Candidate],
        settings: dict[str, Any],
        *,
        judge: Judge = Judge.BATCHES,
        seconds_max: float = 0.0,
    ) -> list[dict[str, Any]]:
        names = [c.name for c in candidates]
        asked.append((label, names, seconds_max))
        if label == "fused-heat":
            assert (bench.rounds, judge) == (1, Judge.NOTHING)
            return heat(us)
        pairs = {name: [c for c in cases if " pair " in c] for name, *cases in settings["pairs"]}
        labels = [fused._label(*of) for of in itertools.product(fused.DTYPES, SHAPES)]
        assert pairs == {
            "ompi": [f"{label} pair mkl" for label in labels],
            "mpich": [f"{label} pair dnnl2" for label in labels],
        }
        ours = [
            {"case": f"{dtype} {fused._name(shape)} {part}", "us": [25.0]}
            for dtype, shape in itertools.product(fused.DTYPES, SHAPES)
            for part in ("fused", "gemm", "comm")
        ]
        both = {"libsk": ours, "ompi": lines("ompi", ["dnnl2", "mkl"], us)}
        both["mpich"] = lines("mpich", ["dnnl2"], us)
        visits = {n: [[{**x, "place": place} for x in v]] * 2 for n, v in both.items()}
        entry = {"valid": True, "why": "", "seconds": 50.0, "visits": visits}
        return [entry] * 3

    monkeypatch.setattr(fused, "SHAPES", SHAPES)
    monkeypatch.setattr(fused, "run_rounds", rounds)
    monkeypatch.setattr(fused.mpi, "variants", lambda *_: EVERY)
    monkeypatch.setattr(fused.mpi, "build", lambda *_: tmp_path)
    shims = [tmp_path / f"{name}.so" for name in PEERS]
    monkeypatch.setattr(gemm_peers, "build", lambda _: gemm_peers.GemmPeers(shims))
    monkeypatch.setattr(machine, "commit", lambda _repo: "abc")
    bench = Bench(tmp_path, tmp_path, tmp_path, lambda _: None, False, 7, 21, ["ompi"], False, {})
    rows = fused.run(bench)
    assert asked == [
        ("fused-heat", ["impi", "ompi", "mpich"], 0.0),
        ("fused", ["libsk", "ompi", "mpich"], fused.SECONDS_MAX - 80.0),
    ]
    assert {row.measured for row in rows} == {2.0}
    assert {row.against for row in rows} == {"mkl + ompi"}
    document = json.loads(next(tmp_path.glob("fused-*.json")).read_text())
    assert document["heat"]["f32 512x512x512"]["mkl + ompi"] == 50.0
