"""Cells that await: interrupts that show where, and one loop, which goes on between cells."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Coroutine, Iterable
from types import ModuleType
from typing import Any

from libsk.kernel import places, still

_TURN_S = 0.02
"""How long tasks run before the rank looks for the next cell."""


_interrupt: KeyboardInterrupt | None = None
"""Why the cell is being cancelled."""


def run(cell: Coroutine[Any, Any, Any]) -> Any:
    """IPython's ``loop_runner``. An interrupt of the loop would show where the loop waits; a cell
    that is cancelled shows its own line."""
    global _interrupt
    loop = _loop_of_cells()
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


def patch(asyncio: ModuleType) -> None:
    """When a cell has just imported it, and before each later cell: the loop in which cells await
    is the main thread's loop, whatever a cell has made of that. A plain cell may so begin what
    another one awaits."""
    if threading.get_ident() == places.main_thread and places.is_rank():
        asyncio.set_event_loop(_loop_of_cells())


def enter() -> None:
    """Before a cell."""
    asyncio = sys.modules.get("asyncio")
    if hasattr(asyncio, "set_event_loop"):  # It may have failed half-way.
        patch(asyncio)


def forget() -> None:
    """In a process that a cell has forked: the loop's sockets are the rank's."""
    helpers, asyncio = sys.modules.get("IPython.core.async_helpers"), sys.modules.get("asyncio")
    if helpers is None or asyncio is None or not hasattr(asyncio, "new_event_loop"):
        return
    vars(helpers)["_asyncio_event_loop"] = loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)


def begins_tasks(code: str) -> bool:
    """Whether a cell that does not await needs a loop that runs, and does not run one itself."""
    return _BEGINS.search(code) is not None and _RUNS.search(code) is None


_BEGINS = re.compile(r"\b(?:create_task|get_running_loop)\b")
_RUNS = re.compile(r"\b(?:run|run_until_complete|run_forever|Runner)\b")


def _loop_of_cells() -> Any:
    from IPython.core.async_helpers import get_asyncio_loop

    return get_asyncio_loop()


def _idle_loop() -> Any:
    """The loop of the cells; None where there is none that could run."""
    helpers = sys.modules.get("IPython.core.async_helpers")
    loop = getattr(helpers, "_asyncio_event_loop", None)
    return None if loop is None or loop.is_closed() or loop.is_running() else loop


def is_reachable() -> bool:
    """Whether a thread may give the loop something while the rank waits."""
    return threading.active_count() > 1 and _idle_loop() is not None


def _has_work(loop: Any) -> bool:
    """Tasks, callbacks, or sockets beside the loop's own."""
    import asyncio

    if asyncio.all_tasks(loop) or getattr(loop, "_ready", ()) or getattr(loop, "_scheduled", ()):
        return True
    selector = getattr(loop, "_selector", None)
    return selector is not None and len(selector.get_map()) > 1


def turn() -> bool:
    """Lets what cells have left in the loop go on for a moment; False where there is nothing."""
    loop = _idle_loop()
    if loop is None or not _has_work(loop):
        return False
    import asyncio

    # An interrupt comes here where one of them keeps the rank from a cell that has been started.
    between = signal.signal(signal.SIGINT, signal.default_int_handler)
    tasks = asyncio.all_tasks(loop)
    try:
        loop.run_until_complete(asyncio.sleep(_TURN_S))
    except BaseException as error:
        _note_told(tasks, error)
        raise
    finally:
        signal.signal(signal.SIGINT, between)
    return True


def _note_told(tasks: Iterable[Any], error: BaseException) -> None:
    """A task that exits ends the turn, which tells of it. asyncio would tell once more, under
    whichever cell runs when the task's memory is given back."""
    for task in tasks:
        if getattr(task, "_exception", None) is error:
            task.exception()
