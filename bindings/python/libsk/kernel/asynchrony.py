"""Cells that await: interrupts that show where, and tasks that go on between cells."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

from libsk.kernel import still

_TURN_S = 0.02
"""How long tasks run before the rank looks for the next cell."""


_interrupt: KeyboardInterrupt | None = None
"""Why the cell is being cancelled."""


def run(cell: Coroutine[Any, Any, Any]) -> Any:
    """IPython's ``loop_runner``. An interrupt of the loop would show where the loop waits; a cell
    that is cancelled shows its own line."""
    global _interrupt
    from IPython.core.async_helpers import get_asyncio_loop

    loop = get_asyncio_loop()
    task = loop.create_task(cell)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        if task.done():  # It came while the cell's own lines ran.
            raise
        _interrupt = shown = KeyboardInterrupt()
        task.cancel()
        try:
            result = loop.run_until_complete(task)
        finally:
            _interrupt = None
        if shown.__traceback__ is None:  # The cell would not be cancelled.
            raise
        result.error_in_exec = shown
        return result


def as_shown(error: BaseException) -> BaseException:
    """The interrupt, at the line where it cancelled the cell."""
    if _interrupt is None or still.type_name(error) != "CancelledError":
        return error
    return _interrupt.with_traceback(error.__traceback__)


def turn() -> bool:
    """Lets tasks that cells have left behind go on for a moment; False where there are none."""
    helpers = sys.modules.get("IPython.core.async_helpers")
    loop = getattr(helpers, "_asyncio_event_loop", None)
    if loop is None or loop.is_closed() or loop.is_running():
        return False
    import asyncio

    if not asyncio.all_tasks(loop):
        return False
    loop.run_until_complete(asyncio.sleep(_TURN_S))
    return True
