"""One environment for all tests, made as a stranger makes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import newcomer

TRIED = newcomer.ROOT / "build" / "wheel" / "tried"


@pytest.fixture(scope="session")
def wheel() -> Path:
    """What ./dev has made for these tests."""
    (made,) = TRIED.glob("libsk-*.whl")
    return made


@pytest.fixture(scope="session")
def home(wheel: Path) -> newcomer.Home:
    """Below build/, for the way of programs to it is short and it is large."""
    return newcomer.install(wheel, TRIED / "home")
