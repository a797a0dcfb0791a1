"""The lines of the table, printed when all are there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from faults import Verdict, closing  # noqa: E402

LINES = pytest.StashKey[dict[int, tuple[Verdict, str]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Before any of them has run."""
    config.stash[LINES] = {}


@pytest.fixture
def lines(pytestconfig: pytest.Config) -> dict[int, tuple[Verdict, str]]:
    """By number."""
    return pytestconfig.stash[LINES]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """On the terminal, and for ./dev in the file that SK_TELL names."""
    lines = config.stash[LINES]
    if not lines:
        return
    table = [lines[number][1] for number in sorted(lines)]
    table.append(closing({number: verdict for number, (verdict, _) in lines.items()}))
    terminalreporter.write_line("\n".join(table))
    if file := os.environ.get("SK_TELL"):
        Path(file).write_text("\n".join(table) + "\n")
