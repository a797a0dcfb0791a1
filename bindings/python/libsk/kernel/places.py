"""Where what a thread puts out is shown: under the cell, or in the widget, it was started in.

Cells come and go while a thread runs on. Its text would stand between the lines of whatever cell
runs by then, on each rank at another place. So a thread inherits the place of whoever started it,
and a task that is given to a pool of threads has the place of whoever gave it. A task of asyncio
has that of the cell that made it, and so has what a loop in another thread is given: both copy the
context they are made in.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from libsk import _core, _errors
from libsk._errors import Error

if TYPE_CHECKING:

    class Sink(Protocol):
        """What takes the outputs of a place; False: there is no room."""

        def write(self, name: str, text: str) -> bool: ...
        def display(
            self,
            data: Mapping[str, Any],
            metadata: Mapping[str, Any] | None,
            display_id: str | None,
            update: bool,
        ) -> bool: ...
        def error(self, name: str, text: str, traceback: list[str]) -> bool: ...
        def clear(self, wait: bool) -> None: ...


class Place(NamedTuple):
    """A cell, by the number that the controller gave it, or a widget that takes its outputs."""

    cell: int
    widget: Sink | None = None
    number: int = 0
    """``In[number]``; 0: none was given."""


_NAMES = {1: "stdout", 2: "stderr"}
"""``enum sk_stream``, which are the descriptors' numbers, too."""

CONNECT = "libsk-connect"
"""The thread in which the ranks connect; no cell began it."""

_ident = threading.get_ident
_tasks: Counter[int] = Counter()
"""Of pools, by cell; under the lock."""
_tasks_lock = threading.Lock()
_pool_worker: Any = None
"""What a pool's thread runs, which has work only while there are tasks."""
_worker: _core.Worker | None = None
_forked = False
main_thread = threading.get_ident()
now = Place(0)
"""Of the main thread: the cell that runs, or ran last."""
_runs = False
"""Whether a cell does."""
_of_context: ContextVar[Place | None] = ContextVar("libsk-place", default=None)
"""Of whose code made the task, or gave the callback, that runs. On the main thread it is set from
the first cell on; another thread's own context begins empty."""
of_context = _of_context.get


def install(worker: _core.Worker) -> None:
    """Once in a rank, on its main thread."""
    global _worker, main_thread
    _worker, main_thread = worker, threading.get_ident()
    _errors.begun_in = _begun_in
    os.register_at_fork(after_in_child=_forget)
    _patch_threads()


def _forget() -> None:
    """In a process that a cell has forked: it is no rank, and what it puts out goes the way of any
    other process of the cell, for no widget hears it."""
    global _worker, main_thread, now, _forked
    _worker, main_thread, now, _forked = None, threading.get_ident(), Place(0), True


def is_rank() -> bool:
    """Not in a process that a cell has forked."""
    return not _forked


@functools.cache
def _patch_threads() -> None:
    from concurrent.futures import thread as thread_pools

    pool = thread_pools.ThreadPoolExecutor
    global _pool_worker
    _pool_worker = getattr(thread_pools, "_worker", None)
    threading.Thread.start = _inheriting(threading.Thread.start)  # type: ignore[method-assign]
    pool.submit = _sending_along(pool.submit)  # type: ignore[method-assign]


def enter(cell: int, number: int = 0) -> None:
    """The main thread begins a cell, ``In[number]``."""
    global now, _runs
    now = Place(cell, number=number)
    _of_context.set(now)
    _runs = True


def leave() -> None:
    """The main thread has ended the cell's code."""
    global _runs
    _runs = False


def admit(call: str) -> None:
    """Refuses a call on the notebook's communicator that is not of the cell that runs: what goes on
    beside the cells reaches it at another moment on each rank, before, in or after a cell's call,
    and two that are alike would be taken for each other."""
    on_main = _ident() == main_thread
    if on_main and _runs and of_context() is now:
        return
    place = (of_context() or now) if on_main else here()
    if (_runs and place.cell == now.cell) or _forked:
        return
    cell = f"In[{place.number}]" if place.number else "an earlier cell"
    who = f"a task of {cell}"
    if not on_main and of_context() is None:
        who = f"thread {threading.current_thread().name!r} (begun in {cell})"
    raise _errors.outside(call, who)


def _begun_in(thread: threading.Thread) -> str:
    on_main = thread.ident == main_thread
    place = now if on_main else getattr(thread, "_sk_place", None)
    if place is None or place.number == 0:
        return ""
    return f" (In[{place.number}])" if on_main else f" (begun in In[{place.number}])"


def here() -> Place:
    """Of the calling thread."""
    return _own_place() or now


def _own_place() -> Place | None:
    """Of the main thread, and of a thread that Python started; not of one that C code did."""
    if threading.get_ident() == main_thread:
        return _of_earlier_cell() or now
    return of_context() or getattr(threading.current_thread(), "_sk_place", None)


def _of_earlier_cell() -> Place | None:
    """On the main thread: where it runs a task that was made before the running cell."""
    place = of_context()
    return place if place is not None and place.cell != now.cell else None


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
    if threading.get_ident() == main_thread and _of_earlier_cell() is None:
        now = place
    if of_context() is not None:  # Also the main thread's: it may give things to other threads.
        _of_context.set(place)
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
    if (on_main and place.cell == now.cell) or place.cell == 0 or _worker is None:
        return False
    flush()
    try:
        with claimed():
            _worker.stream(stream, text)
    except Error:  # The rank leaves, or the controller is gone.
        return False
    return True


@contextlib.contextmanager
def claimed() -> Iterator[None]:
    """While the calling thread hands something to the worker, which is told whose it is."""
    on_main = threading.get_ident() == main_thread
    if _worker is None or (on_main and _of_earlier_cell() is None):
        yield
        return
    _worker.output_cell(here().cell)
    try:
        yield
    finally:
        if on_main:
            _worker.output_cell(0)


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
