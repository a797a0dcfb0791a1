"""A plugin for ipykernel's own message-spec tests: one number in them is ipykernel's alone."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def nose_setup(request: pytest.FixtureRequest) -> None:
    """What ipykernel 6 leaves to a module's setup(), which pytest has not called since 8."""
    getattr(request.module, "setup", lambda: None)()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """The least implementation_version is that of another program."""
    for module in {item.module for item in items if hasattr(item.module, "KernelInfoReply")}:
        module.KernelInfoReply.implementation_version.min = "0.1"
