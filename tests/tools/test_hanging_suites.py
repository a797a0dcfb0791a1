"""Suites that come to no end: they fail, say where they stood, and hold up no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import product
import pytest
import shell
import test as runner

HANGS = """
import threading

def test_that_passes():
    pass

def test_that_hangs():
    threading.Event().wait()
"""


@pytest.fixture
def suite(
    plant: Callable[[dict[str, str]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> runner.PythonSuite:
    plant({"test_hangs.py": HANGS})
    monkeypatch.setattr(shell, "LOGS", tmp_path / "log")
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    return runner.PythonSuite("hangs", (str(tmp_path),), product.Part.NOTHING)


def test_a_test_that_hangs_is_named(
    suite: runner.PythonSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PYTHON_CASE_TIMEOUT_S", 1)
    [outcome] = runner.run_pytest(suite, suite.paths[0], None)
    assert outcome.state == runner.FAILED
    assert "in test_that_hangs" in outcome.detail
    assert "_pytest" not in outcome.detail


def test_a_suite_that_is_stopped_has_failed(
    suite: runner.PythonSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SUITE_TIMEOUT_S", 5)
    [outcome] = runner.run_pytest(suite, suite.paths[0], None)
    assert outcome.state == runner.FAILED
    assert "had to be stopped" in outcome.detail
