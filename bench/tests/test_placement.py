"""Classes of places: what shares a core, what shares a cache, and what moved meanwhile."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from measure import machine, placement
from measure.rounds import Bench
from stages import allreduce


def line(before: list[float], after: list[float]) -> dict[str, Any]:
    return {"us": [1.0], "place": [before, after]}


def around(handoff_ns: float, together: float = 1.0, chain_us: float = 3.0) -> dict[str, Any]:
    look = [handoff_ns, together, chain_us]
    return line(look, look)


def test_hyper_threads_of_one_core_are_near_whatever_their_hand_off() -> None:
    places = placement.placement_of([around(62.0, 0.5), around(100.0, 0.52), around(85.0)])
    assert places.of_line(around(62.0, 0.5)) == "near"
    assert places.of_line(around(100.0, 0.6)) == "near"
    assert places.of_line(around(85.0)) == "far"


@pytest.mark.parametrize("seed", range(3))
def test_cores_of_two_distances_are_two_classes(seed: int) -> None:
    rng = random.Random(seed)
    mid = [around(rng.uniform(80.0, 110.0)) for _ in range(30)]
    far = [around(rng.uniform(290.0, 340.0)) for _ in range(40)]
    places = placement.placement_of([*mid, *far])
    assert {places.of_line(each) for each in mid} == {"mid"}
    assert {places.of_line(each) for each in far} == {"far"}


def test_a_few_outliers_are_no_class() -> None:
    usual = [around(100.0 + i % 20) for i in range(100)]
    places = placement.placement_of([*usual, around(900.0), around(20.0)])
    assert places.boundary_ns == 0.0
    assert places.of_line(around(900.0)) == "far"


def test_a_batch_is_of_the_class_that_both_looks_agree_on() -> None:
    places = placement.Placement(boundary_ns=200.0)
    near, mid, far = [60.0, 0.5, 3.0], [90.0, 1.0, 3.0], [300.0, 1.0, 3.0]
    assert places.of_line(line(mid, mid)) == "mid"
    for before, after in ((near, far), (far, near), (mid, far), (far, mid)):
        assert places.of_line(line(before, after)) == ""


def test_a_clock_that_moved_meanwhile_leaves_the_batch_out() -> None:
    places = placement.Placement()
    assert places.of_line(line([90.0, 1.0, 3.0], [90.0, 1.0, 3.08])) == "far"
    assert places.of_line(line([90.0, 1.0, 3.0], [90.0, 1.0, 3.1])) == ""
    assert places.of_line(line([90.0, 1.0, 3.1], [90.0, 1.0, 3.0])) == ""


def test_where_nobody_can_look_all_is_one_class() -> None:
    lines = [{"us": [1.0]}, {"us": [2.0]}]
    found = placement.tally(lines, placement.placement_of(lines))
    assert found == {"boundary_ns": 0.0, "moved": 0, "classes": {"all": {"batches": 2}}}


def fake_lines(place: list[float], slower: float) -> dict[str, list[dict[str, Any]]]:
    """One visit of libsk and of an MPI; `slower` than cores of their own."""
    ours = [
        {"case": case, "bytes": 512, "us": [us * slower] * 5, "place": [place, place]}
        for case, us in (("symmetric", 1.0), ("ordinary", 1.5), ("direct", 1.0))
    ]
    mpi = [{"case": "mpi", "bytes": 512, "us": [2.0 * slower] * 5, "place": [place, place]}]
    return {"libsk": ours, "ompi": mpi}


def test_figures_goals_and_pictures_are_of_one_class_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plots = pytest.importorskip("plots", exc_type=ImportError)
    rounds_ = []
    for i in range(6):
        near = i % 2 == 1
        visits = fake_lines([60.0, 0.5, 3.0] if near else [110.0, 1.0, 3.0], 2.0 if near else 1.0)
        both = {name: [lines, lines] for name, lines in visits.items()}
        rounds_.append({"valid": True, "why": "", "visits": both})
    monkeypatch.setattr(allreduce, "SIZES", (512,))
    monkeypatch.setattr(allreduce, "run_rounds", lambda *_args, **_more: rounds_)
    peer = type("Peer", (), {"name": "ompi", "title": "Open MPI", "env": {}})()
    variant = allreduce.mpi.Variant(peer, "")
    monkeypatch.setattr(allreduce.mpi, "variants", lambda *_: [variant])
    monkeypatch.setattr(allreduce.mpi, "build", lambda *_: tmp_path)
    monkeypatch.setattr(machine, "commit", lambda _repo: "abc")
    bench = Bench(tmp_path, tmp_path, tmp_path, lambda _: None, False, 3, 6, ["ompi"], False, {})
    rows = allreduce.run(bench, 2)
    against_mpi = [row for row in rows if row.unit == "x best MPI" and ", symmetric, " in row.area]
    assert [(row.area.split(", ")[-1], row.measured) for row in against_mpi] == [
        ("far", pytest.approx(2.0)),
        ("near", pytest.approx(2.0)),
    ]
    document = json.loads(next(tmp_path.glob("allreduce-2-*.json")).read_text())
    medians = {
        name: about["figures_us"]["symmetric"]["512 B"]["median"]
        for name, about in document["places"]["classes"].items()
    }
    assert medians == {"far": 1.0, "near": 2.0}  # Pooled they would be neither.
    drawn, failed = plots.draw_all(tmp_path)
    assert failed == [] and drawn[0].stat().st_size > 10_000


def test_a_class_of_too_few_rounds_gives_no_figure_of_a_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    far = fake_lines([110.0, 1.0, 3.0], 1.0)
    both = {name: [lines, lines] for name, lines in far.items()}
    entries = [{"valid": True, "why": "", "visits": both}] * 2
    bench = Bench(tmp_path, tmp_path, tmp_path, lambda _: None, False, 7, 21, ["ompi"], False, {})
    of = allreduce.Class(bench, entries, "far")
    peer = type("Peer", (), {"name": "ompi"})()
    rows = allreduce._rows(of, 2, 512, [allreduce.mpi.Variant(peer, "")])
    assert [row.measured for row in rows] == [None] * len(rows)
    assert all("too few rounds" in row.why for row in rows)
