"""Benchmarks on a GPU: figures, goals, result files and pictures from made-up lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gpu import publish, summary
from gpu.steps import STEPS
from measure import goals

MACHINE = {"device": "G1", "driver": "1.2", "driver_cuda": "13.0", "kernels_cuda": "13.0"}


def line(part: str, case: str, candidate: str, us: float) -> dict[str, Any]:
    """Three rounds, a slow and a fast sample beside the usual one in every visit."""
    visit = [us * 0.9, us, us * 1.1]
    return {
        "part": part, "case": case, "candidate": candidate, "note": f"by {candidate}", "runs": 3,
        "rounds": [[visit, visit]] * 3,
    }  # fmt: skip


def gemm_lines(case: str = "8192x8192x8192", **us: float) -> list[dict[str, Any]]:
    return [line("gemm", case, name, value) for name, value in us.items()]


def verdicts(rows: list[goals.Row]) -> list[str]:
    return [row.verdict for row in rows]


def test_a_product_is_judged_by_the_bare_kernel_and_by_the_peer() -> None:
    cost, peer = summary.gemm_rows(gemm_lines(plan=101.0, bare=100.0, cublaslt=102.0))
    assert cost.measured == pytest.approx(1.01) and cost.verdict == goals.MET
    assert peer.measured == pytest.approx(102 / 101) and peer.verdict == goals.MET
    slow = summary.gemm_rows(gemm_lines(plan=103.0, bare=100.0, cublaslt=102.0))
    assert verdicts(slow) == [goals.MISSED, goals.MISSED]


def test_every_shape_has_its_own_goal() -> None:
    by_shape = {}
    for case in (*summary.GEMM_GOALS, "5x5x5"):
        by_shape[case] = summary.gemm_rows(gemm_lines(case, plan=100.0, cublaslt=96.0))[1].verdict
    assert [case for case, verdict in by_shape.items() if verdict == goals.MISSED] == [
        "8192x8192x8192", "4096x4096x4096", "8192x28672x8192",
    ]  # fmt: skip
    assert by_shape["5x5x5"] == goals.NO_GOAL


def test_pairs_of_blocks_stand_beside_single_ones_without_a_goal() -> None:
    us = {"plan": 103.0, "bare": 100.0, "plan_pairs": 100.0, "bare_pairs": 125.0}
    lines = [line("pairs", "8192x8192x8192", name, value) for name, value in us.items()]
    planned, bare = summary.pairs_rows(lines)
    assert planned.measured == pytest.approx(1.03) and bare.measured == pytest.approx(0.8)
    assert verdicts([planned, bare]) == [goals.NO_GOAL, goals.NO_GOAL]


def test_a_peer_that_is_absent_or_forgotten_is_no_win() -> None:
    lines = gemm_lines(plan=1.0)
    lines.append({"part": "gemm", "case": lines[0]["case"], "candidate": "bare", "absent": "odd"})
    cost, peer = summary.gemm_rows(lines)
    assert cost.verdict == peer.verdict == goals.ABSENT
    assert cost.why == "bare: odd"
    assert peer.why == "cublaslt was not measured"


def test_a_round_without_both_visits_is_refused() -> None:
    broken = gemm_lines(plan=1.0, bare=1.0)
    broken[1]["rounds"] = [[[1.0]]] * 3
    with pytest.raises(ValueError, match="not two visits"):
        summary.gemm_rows(broken)
    broken[1]["rounds"] = broken[0]["rounds"][:2]
    with pytest.raises(ValueError, match="3 rounds of one candidate and 2|2 rounds"):
        summary.gemm_rows(broken)


def fused_lines(share: float = 0.5, **us: float) -> list[dict[str, Any]]:
    lines = [line("fused", "1x1x1 2 ranks", name, value) for name, value in us.items()]
    overlap = {"part": "fused", "case": "1x1x1 2 ranks", "candidate": "overlap", "share": [share]}
    return [*lines, overlap]


@pytest.mark.parametrize(
    ("us", "share", "wanted"),
    [
        ({"plan": 109, "gemm": 100, "comm": 50, "pair": 150}, 0.5, [goals.MET] * 3),
        ({"plan": 109, "gemm": 50, "comm": 100, "pair": 150}, 0.5, [goals.MET] * 3),
        (
            {"plan": 120, "gemm": 100, "comm": 50, "pair": 119},
            0.0,
            [goals.MISSED] * 3,
        ),
    ],
)
def test_a_fused_call_is_judged_by_its_longer_half(
    us: dict[str, float], share: float, wanted: list[str]
) -> None:
    assert verdicts(summary.fused_rows(fused_lines(share, **us))) == wanted


def test_a_collective_is_judged_by_a_copy() -> None:
    lines = [
        line("collectives", "allreduce 2 ranks 4 bytes", "plan", 100.0),
        line("collectives", "allreduce 2 ranks 4 bytes", "copy", 91.0),
    ]
    (row,) = summary.collective_rows(lines)
    assert row.measured == pytest.approx(0.91) and row.verdict == goals.MET
    lines[0], lines[1] = ({**lines[1], "candidate": "plan"}, {**lines[0], "candidate": "copy"})
    (row,) = summary.collective_rows(lines)
    assert row.measured == pytest.approx(100 / 91)


def test_of_a_thousand_aborts_the_slowest_counts() -> None:
    aborts = {"part": "latency", "case": "abort", "candidate": "plan", "us": [50.0] * 999}
    replay = line("latency", "replayed run", "plan", 4.0)
    assert verdicts(summary.latency_rows([aborts, replay])) == [goals.MET, goals.MET]
    aborts["us"].append(10_001.0)
    assert verdicts(summary.latency_rows([aborts, replay])) == [goals.MET, goals.MISSED]
    assert verdicts(summary.latency_rows([])) == [goals.ABSENT, goals.ABSENT]


def test_the_kernel_without_a_plan_stands_beside_the_peer() -> None:
    lines = [
        line("versus", "4096x4096x4096", name, us)
        for name, us in (("bare", 80.0), ("cublaslt", 60.0))
    ]
    rows, problems = summary.all_rows(lines)
    assert problems == [] and [row.measured for row in rows] == [pytest.approx(0.75)]
    assert verdicts(rows) == [goals.NO_GOAL]


def test_samples_that_cannot_be_summed_up_keep_the_others() -> None:
    lines = [*gemm_lines(plan=1.0, bare=1.0), *fused_lines(plan=1.0, gemm=0.8, comm=0.4, pair=1.2)]
    lines[0]["rounds"] = [[[1.0]]]
    rows, problems = summary.all_rows(lines)
    assert len(problems) == 1 and problems[0].startswith("gemm: ValueError: ")
    assert {row.area for row in rows} >= {"fused"}


def test_lines_of_checks_are_no_figures() -> None:
    lines = [*gemm_lines(plan=1.0, bare=1.0), {"part": "bare", "case": "1x1x1", "checked": 1}]
    assert list(summary.figures(lines)) == ["gemm 8192x8192x8192"]


def test_every_part_that_has_figures_has_rows() -> None:
    assert {step.part for step in STEPS if step.part} <= set(summary.ROWS)


def test_a_visit_becomes_a_file_for_each_part(tmp_path: Path) -> None:
    lines = gemm_lines(plan=1.0, bare=1.0)
    visit = {
        "date": "2026-01-02", "commit": "abc", "machine": MACHINE, "mark": "",
        "steps": {
            "products": {"outcome": "passed", "passed": 2, "seconds": 1.0},
            "moves": {"outcome": "failed", "why": "rank 1", "seconds": 1.0},
            "gemm-8192x8192x8192": {"outcome": "passed", "lines": lines},
        },
    }  # fmt: skip
    (tmp_path / "visit.json").write_text(json.dumps(visit))
    (path,) = publish.publish(tmp_path / "visit.json", tmp_path / "results")
    assert path.name == "gpu-gemm-2026-01-02.json"
    document = json.loads(path.read_text())
    assert document["lines"] == lines and document["machine"] == MACHINE
    assert document["checks"]["moves"] == {"outcome": "failed", "why": "rank 1", "seconds": 1.0}
    assert document["figures"] == {"gemm 8192x8192x8192": {"plan": 1.0, "bare": 1.0}}
    assert document["goals"][0]["verdict"] == goals.MET
    visit["mark"] = "FAKE"
    assert {row["verdict"] for row in publish.documents(visit)[0]["goals"]} <= {
        goals.NO_GOAL, goals.ABSENT,
    }  # fmt: skip


def test_pictures_are_drawn_beside_the_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import plots

    collective = [
        line("collectives", f"allreduce 2 ranks {size} bytes", name, size * 0.1)
        for size in (4096, 65536)
        for name in ("plan", "copy")
    ]
    stages = {
        "gemm": gemm_lines(plan=1.0, bare=1.0),
        "fused": fused_lines(plan=1.0, gemm=0.8, comm=0.4, pair=1.2),
        "collectives": collective,
    }
    for name, lines in stages.items():
        document = {
            "stage": f"gpu-{name}", "date": "2026-01-01", "commit": "abc", "machine": MACHINE,
            "mark": "", "figures": summary.figures(lines), "lines": lines,
        }  # fmt: skip
        (tmp_path / f"gpu-{name}-2026-01-01.json").write_text(json.dumps(document))
    drawn, failed = plots.draw_all(tmp_path)
    assert failed == []
    assert sorted(path.name for path in drawn) == [
        f"gpu-{name}-2026-01-01.png" for name in sorted(stages)
    ]
