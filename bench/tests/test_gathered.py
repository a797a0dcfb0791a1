"""The stage of gathered products: ratios, and what bounds them."""

from typing import Any

import pytest
from stages.gathered import OURS, Cell

LABEL = "bf16 512x512x512"


def rounds(us: dict[str, float]) -> list[dict[str, Any]]:
    """Three rounds in which every case takes what `us` says."""
    lines = [{"case": f"{LABEL} {case}", "us": [time] * 3} for case, time in us.items()]
    return [{"valid": True, "why": "", "visits": {"libsk": [lines, lines]}}] * 3


TIMES = {
    "fused": 100.0,
    "fused symmetric": 80.0,
    "comm": 20.0,
    "gemm libsk": 75.0,
    "pair mkl": 150.0,
    "gemm mkl": 100.0,
    "pair dnnl2": 120.0,
    "gemm dnnl2": 90.0,
}


def test_the_fastest_pair_is_the_bar_and_the_fastest_gemm_the_bound() -> None:
    cell = Cell(rounds(TIMES), LABEL, ["mkl", "dnnl2"])
    assert cell.bound() == pytest.approx((90.0 + 20.0) / 75.0)
    ordinary, symmetric = (cell.row(ours, "far", 3) for ours in OURS)
    assert (ordinary.against, ordinary.measured) == ("dnnl2", pytest.approx(1.2))
    assert symmetric.measured == pytest.approx(1.5)
    assert symmetric.why == f"bound {110 / 75:.3f}, {1.5 / (110 / 75):.1%} of it"
    assert (ordinary.verdict, symmetric.verdict) == ("MISSED", "met")


def test_without_peers_a_reason_is_said() -> None:
    cell = Cell(rounds({k: v for k, v in TIMES.items() if "mkl" not in k}), LABEL, ["mkl"])
    assert cell.bound() is None
    assert cell.row("fused", "far", 3).why == "no peer pair gave a figure"
    assert cell.as_dict()["pairs"] == {}


def test_too_few_rounds_are_no_figure() -> None:
    cell = Cell(rounds(TIMES)[:2], LABEL, ["mkl", "dnnl2"])
    assert cell.row("fused", "far", 3).why == "too few rounds of both"
