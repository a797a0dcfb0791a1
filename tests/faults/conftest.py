"""The lines of the table: told as they come, and printed when all are there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from faults import Lines  # noqa: E402

LINES = pytest.StashKey[Lines]()


def pytest_configure(config: pytest.Config) -> None:
    """Before any of them has run. ./dev names a file by SK_TELL."""
    told = os.environ.get("SK_TELL")
    config.stash[LINES] = Lines(Path(told) if told else None)


@pytest.fixture
def lines(pytestconfig: pytest.Config) -> Lines:
    """Of this run."""
    return pytestconfig.stash[LINES]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Where a person has started pytest."""
    if text := config.stash[LINES].text():
        terminalreporter.write_line(text)
