"""One environment for all tests, made as a stranger makes it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import newcomer

TRIED = newcomer.ROOT / "build" / "wheel" / "tried"


@pytest.fixture(scope="session")
def home() -> newcomer.Home:
    """Below build/, for the way of programs to it is short and it is large."""
    (wheel,) = TRIED.glob("libsk-*.whl")
    return newcomer.install(wheel, TRIED / "home")
