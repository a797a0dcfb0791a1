"""Four hosts, on which launchers start ranks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from hosts import Hosts  # noqa: E402
from launchers import make_ready  # noqa: E402


@pytest.fixture(scope="session")
def four() -> Iterator[Hosts]:
    """Hosts that each have the job's secret, and a way to start programs on the others."""
    with Hosts(4, seed=41) as hosts:
        make_ready(hosts)
        yield hosts
