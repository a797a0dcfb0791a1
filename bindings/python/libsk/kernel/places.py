"""Where what a thread puts out is shown: under the cell, or in the widget, it was started in.

Cells come and go while a thread runs on. Its text would stand between the lines of whatever cell
runs by then, on each rank at another place. So a thread inherits the place of whoever started it,
and a task that is given to a pool of threads has the place of whoever gave it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from libsk import _core
from libsk._errors import Error

if TYPE_CHECKING:
    from libsk.kernel.output_widget import Sink


class Place(NamedTuple):
    """A cell, by the number that the controller gave it, or a widget that takes its outputs."""

    cell: int
    widget: Sink | None = None


_NAMES = {1: "stdout", 2: "stderr"}
"""``enum sk_stream``, which are the descriptors' numbers, too."""

CONNECT = "libsk-connect"
"""The thread in which the ranks connect; no cell began it."""

_tasks: Counter[int] = Counter()
"""Of pools, by cell; under the lock."""
_tasks_lock = threading.Lock()
_pool_worker: Any = None
"""What a pool's thread runs, which has work only while there are tasks."""
_worker: _core.Worker | None = None
main_thread = threading.get_ident()
now = Place(0)
"""Of the main thread: the cell that runs, or ran last."""


def install(worker: _core.Worker) -> None:
    """Once in a rank, on its main thread."""
    global _worker, main_thread
    _worker, main_thread = worker, threading.get_ident()
    _patch_threads()


@functools.cache
def _patch_threads() -> None:
    from concurrent.futures import thread as thread_pools

    pool = thread_pools.ThreadPoolExecutor
    global _pool_worker
    _pool_worker = getattr(thread_pools, "_worker", None)
    threading.Thread.start = _inheriting(threading.Thread.start)  # type: ignore[method-assign]
    pool.submit = _sending_along(pool.submit)  # type: ignore[method-assign]


def enter(cell: int) -> None:
    """The main thread begins a cell."""
    global now
    now = Place(cell)


def here() -> Place:
    """Of the calling thread."""
    return _own_place() or now


def _own_place() -> Place | None:
    """Of the main thread, and of a thread that Python started; not of one that C code did."""
    if threading.get_ident() == main_thread:
        return now
    return getattr(threading.current_thread(), "_sk_place", None)


def at_work() -> int:
    """How many threads, and tasks of pools, that the running cell has begun have not ended."""
    count = _tasks[now.cell]
    if threading.active_count() == 1:
        return count
    for thread in threading.enumerate():
        # As the interpreter has it: its class may be the user's.
        try:
            about = object.__getattribute__(thread, "__dict__")
        except AttributeError:
            continue
        place = about.get("_sk_place")
        if type(place) is not Place or place.cell != now.cell or about.get("_name") == CONNECT:
            continue
        count += about.get("_target") is not _pool_worker
    return count


def move(place: Place) -> None:
    """The calling thread's outputs go there."""
    global now
    if threading.get_ident() == main_thread:
        now = place
    else:
        threading.current_thread()._sk_place = place  # type: ignore[attr-defined]


def takes(stream: int, text: str, flush: Callable[[], None]) -> bool:
    """Text for one of the two streams that is not simply the running cell's goes where it belongs.
    ``flush`` hands on what the main thread wrote there before."""
    on_main = threading.get_ident() == main_thread
    place = _own_place()
    if place is None:
        return False
    if place.widget is not None and place.widget.write(_NAMES[stream], text):
        return True
    if on_main or place.cell == 0 or _worker is None:
        return False
    flush()
    try:
        claim()
        _worker.stream(stream, text)
    except Error:  # The rank leaves, or the controller is gone.
        return False
    return True


def claim() -> None:
    """Before the calling thread hands something to the worker: says whose it is."""
    if _worker is not None and threading.get_ident() != main_thread:
        _worker.output_cell(here().cell)


def _inheriting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def starting(thread: threading.Thread) -> None:
        with contextlib.suppress(AttributeError):
            object.__setattr__(thread, "_sk_place", here())  # Whatever its class makes of that.
        start(thread)

    return starting


def _sending_along(submit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(submit)
    def submitting(pool: Any, task: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        place = here()
        future = submit(pool, functools.partial(_run_at, place, task), *args, **options)
        with _tasks_lock:
            _tasks[place.cell] += 1
        future.add_done_callback(lambda _: _task_ended(place.cell))
        return future

    return submitting


def _task_ended(cell: int) -> None:
    with _tasks_lock:
        _tasks[cell] -= 1
        if _tasks[cell] == 0:
            del _tasks[cell]


def _run_at(place: Place, task: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    before = here()
    move(place)
    try:
        return task(*args, **options)
    finally:
        move(before)
