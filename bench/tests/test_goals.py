"""Goals and verdicts."""

import pytest
from measure import goals
from measure.goals import Row


@pytest.mark.parametrize(
    ("measured", "tuned", "verdict"),
    [
        (2.0, None, goals.MET),
        (1.99, None, goals.MISSED),
        (2.5, 2.1, goals.MET),
        (2.5, 1.5, goals.MET_DEFAULTS),
        (1.5, 1.2, goals.MISSED),
        (None, None, goals.ABSENT),
    ],
)
def test_a_ratio_is_met_from_the_goal_upwards(
    measured: float | None, tuned: float | None, verdict: str
) -> None:
    assert Row("a", "c", 2.0, "x", measured=measured, tuned=tuned).verdict == verdict


def test_a_cost_is_met_from_the_goal_downwards() -> None:
    assert Row("a", "c", 1.15, "x", at_most=True, measured=1.15).verdict == goals.MET
    assert Row("a", "c", 1.15, "x", at_most=True, measured=1.16).verdict == goals.MISSED


def test_goals_are_those_of_the_issue() -> None:
    sizes = [512, 4096, 32768, 262144, 2 << 20, 16 << 20]
    expected = {
        (2, "symmetric"): [1.6, 1.6, 2.0, 2.0, 3.0, 3.0],
        (2, "ordinary"): [0.95, 0.95, 1.4, 0.95, 1.4, 1.4],
        (4, "symmetric"): [0.8, 0.8, 1.3, 2.0, 2.0, 2.0],
        (16, "symmetric"): [1.0] * 6,
        (4, "ordinary"): [None] * 6,
    }
    for (ranks, kind), wanted in expected.items():
        assert [goals.allreduce_goal(ranks, kind, size) for size in sizes] == wanted


def test_bf16_goals_depend_on_amx() -> None:
    assert goals.gemm_goal("bf16", 1024, amx=True) == 1.4
    assert goals.gemm_goal("bf16", 1024, amx=False) == 0.97
    assert goals.fused_goal("bf16", (512, 512, 512), amx=True) == 2.0
    assert goals.fused_goal("bf16", (256, 256, 256), amx=True) == 1.0
    assert goals.fused_goal("f32", (1024, 1024, 1024), amx=False) == 1.05


def test_sizes_are_named_as_in_the_goals() -> None:
    names = [goals.size_name(size) for size in (512, 4096, 32768, 2 << 20, 1000)]
    assert names == ["512 B", "4 KB", "32 KB", "2 MB", "1000 B"]


def test_the_table_shows_every_row_and_its_verdict() -> None:
    rows = [
        Row("all-reduce", "4 KB", 1.6, "x best MPI", measured=1.84, against="impi"),
        Row("idle rank", "C", 1.0, "% of a core", at_most=True, why="no figure"),
    ]
    text = goals.table(rows).splitlines()
    assert len(text) == 3
    assert "1.84" in text[1]
    assert goals.MET in text[1]
    assert goals.ABSENT in text[2]
    assert "no figure" in text[2]


def test_a_row_without_a_goal_shows_its_figure_and_no_verdict() -> None:
    row = Row("a", "c", 2.0, "x", measured=1.5).without_goal()
    assert row.verdict == goals.NO_GOAL
    assert "1.50" in goals.table([row]).splitlines()[1]
