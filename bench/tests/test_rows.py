"""The stages of rows and of workers: shares of a copy's bandwidth, and gains of a second worker."""

from typing import Any

import pytest
from stages import workers
from stages.rows import Cell

LABEL = "f32 16384x1024"


def rounds(us: dict[str, dict[str, float]], count: int = 3) -> list[dict[str, Any]]:
    """Rounds in which every case of each program takes what `us` says."""
    visits = {}
    for who, cases in us.items():
        lines = [{"case": case, "us": [time] * 3} for case, time in cases.items()]
        visits[who] = [lines, lines]
    return [{"valid": True, "why": "", "visits": visits}] * count


OURS = {
    f"{LABEL} copy": 100.0,
    f"{LABEL} forward": 125.0,
    f"{LABEL} backward, dweight": 200.0,
}
TORCH = {f"{LABEL} forward eager": 500.0, f"{LABEL} backward, dweight compiled": 100.0}


def test_shares_are_of_bytes_not_of_times() -> None:
    cell = Cell(rounds({"libsk": OURS}), "f32", 1024)
    forward = cell.of_copy("forward", "far", 3)
    backward = cell.of_copy("backward, dweight", "far", 3)
    assert (forward.measured, forward.verdict) == (pytest.approx(0.8), "MISSED")
    # Three arrays in twice the time of two.
    assert (backward.measured, backward.verdict) == (pytest.approx(0.75), "met")
    assert cell.of_torch("forward", "far", 3) == []


def test_torch_is_named_where_it_is_there() -> None:
    cell = Cell(rounds({"libsk": OURS, "torch": TORCH}), "f32", 1024)
    (forward,) = cell.of_torch("forward", "far", 3)
    assert (forward.unit, forward.measured, forward.verdict) == ("x torch eager", 4.0, "met")
    (backward,) = cell.of_torch("backward, dweight", "far", 3)
    assert (backward.unit, backward.verdict) == ("x torch compiled", "MISSED")


def test_hyper_threads_of_one_core_have_no_goal() -> None:
    cell = Cell(rounds({"libsk": OURS}), "f32", 1024)
    assert cell.of_copy("forward", "near", 3).verdict == "no goal"
    both = {"f32 512x512x512 by 1": 100.0, "f32 512x512x512 by 2": 100.0}
    assert workers.row(rounds({"libsk": both}), "f32 512x512x512", "near", 3).verdict == "no goal"


def test_too_few_rounds_are_no_figure() -> None:
    cell = Cell(rounds({"libsk": OURS}, 2), "f32", 1024)
    assert cell.of_copy("forward", "far", 3).why == "too few rounds of both"
    few = workers.row(rounds({"libsk": {}}, 3), "f32 512x512x512", "far", 3)
    assert few.why == "too few rounds of both"


def test_two_workers_are_held_against_one() -> None:
    both = {"bf16 512x512x512 by 1": 190.0, "bf16 512x512x512 by 2": 100.0}
    row = workers.row(rounds({"libsk": both}), "bf16 512x512x512", "far", 3)
    assert (row.measured, row.goal, row.verdict) == (pytest.approx(1.9), 1.9, "met")
    both["bf16 512x512x512 by 2"] = 101.0
    row = workers.row(rounds({"libsk": both}), "bf16 512x512x512", "far", 3)
    assert row.verdict == "MISSED"
