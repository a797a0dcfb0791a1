"""What the tests of sessions share: sessions that end with their test, and conditions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import libsk as sk

LIMIT_S = 60.0


def heap() -> dict[str, str]:
    """Ranks without glibc's checking heap, where the tests have it: as in session.py."""
    if "libc_malloc_debug" not in os.environ.get("LD_PRELOAD", ""):
        return {}
    return {"LD_PRELOAD": "", "GLIBC_TUNABLES": "glibc.malloc.perturb=165"}


def open_session(ranks: int, **given: Any) -> sk.Session:
    """With the installed program, as the package finds it by itself."""
    given["env"] = {**heap(), **given.get("env", {})}
    return sk.Session(ranks, **given)


def wait_for(condition: Callable[[], Any]) -> Any:
    """What it says at last, once that is true."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.01)  # tidy: allow sleep: between two looks at a condition
    raise AssertionError("the condition does not come")


def until_text(cell: sk.Cell, text: str) -> None:
    """Until the cell has printed it."""
    printed = ""
    for event in cell:
        printed += event.text if event.kind == "text" else ""
        if text in printed:
            return
    raise AssertionError(f"the cell has printed {printed!r}")
