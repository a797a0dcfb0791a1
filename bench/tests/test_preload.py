"""The preload stage: its rows from made-up figures."""

from __future__ import annotations

from typing import Any

import pytest
from measure import goals

pytest.importorskip("jupyter_client")

from stages import preload as stage


def entry(ready: dict[str, float], pss: dict[str, float]) -> dict[str, Any]:
    """A round in which both visits gave the same."""
    visits = {}
    for name, seconds in ready.items():
        line = {"case": "x", "ready_s": [seconds], "operation_ms": [1.0], "pss_mb": [pss[name]]}
        visits[name] = [[line], [line]]
    return {"valid": True, "why": "", "visits": visits, "failed": {}}


def names() -> list[str]:
    shapes = ((16, True), (16, False), (1, True), (1, False))
    return [stage.BASE, *(stage._name(*shape) for shape in shapes)]


def test_starts_are_in_imports_and_memory_is_beyond_the_first_rank() -> None:
    ready = dict(zip(names(), (2.0, 3.0, 18.0, 2.5, 2.5), strict=True))
    pss = dict(zip(names(), (0.0, 900.0, 8000.0, 600.0, 500.0), strict=True))
    rounds = [entry(ready, pss)] * 3
    shared, alone = stage._ready(rounds, True), stage._ready(rounds, False)
    assert shared.measured == pytest.approx(1.5) and shared.verdict == goals.MET
    assert alone.measured == pytest.approx(9.0) and alone.verdict == goals.NO_GOAL
    assert stage._memory(rounds, True).measured == pytest.approx(20.0)
    assert stage._memory(rounds, True).verdict == goals.MET
    assert stage._memory(rounds, False).measured == pytest.approx(500.0)
    assert stage._figures(rounds, names())[stage.BASE].keys() == {"ready_s"}


def test_without_figures_nothing_is_said_to_be_met() -> None:
    rounds = [entry({stage.BASE: 2.0}, {stage.BASE: 0.0})]
    assert stage._ready(rounds, True).verdict == goals.ABSENT
    assert stage._memory(rounds, True).verdict == goals.ABSENT


def test_names_say_how_many_and_how() -> None:
    assert names()[1:] == [
        "16 ranks, preloaded",
        "16 ranks, by itself",
        "1 rank, preloaded",
        "1 rank, by itself",
    ]
