"""Puts the repository's own tools on the path, and builds small trees to plant faults in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "dev")]


@pytest.fixture
def plant(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Writes files (path to text) under a fresh root and returns the root."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write
