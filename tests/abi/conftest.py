"""Golden files beside the tests; SK_UPDATE=1 rewrites them, and git's diff is the review."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture
def golden() -> Callable[[str, list[str]], None]:
    """Compares lines with a golden file, or rewrites it when SK_UPDATE is 1."""

    def compare(name: str, lines: list[str]) -> None:
        path = HERE / name
        if os.environ.get("SK_UPDATE") == "1":
            path.write_text("\n".join(lines) + "\n")
        assert path.read_text().splitlines() == lines

    return compare


@pytest.fixture(scope="session")
def prefix() -> Path:
    """Where ./dev installed the library for tests."""
    return Path(os.environ["SK_PREFIX"])
