"""What reads a session's events, and those who wait for them.

A thread reads, for a signal's handler may raise between any two steps of the main thread, and an
event that is lost so would be missed for ever. It holds Python's lock only while it hands an event
on. Whoever waits does so on a condition, or in an event loop, which the thread wakes.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from libsk import _core
from libsk._errors import BadHandleError, BusyError, Error, ForkedError, PeerLostError

_STATUS, _OVER = 1, 4
"""SK_EVENT_STATUS, SK_SESSION_OVER."""
_LOOK_S = 60.0
"""Nobody waits longer without looking again."""
_SIGNAL_S = 0.05
"""Nor the main thread: a signal that comes just before it waits does not end that wait."""
CLOSE_S = 30.0
"""Longer than ``sk_session_close()`` takes, and a call of another thread that is in its way."""

_open: set[Link] = set()
"""Of this process, until they are closed."""


class Link:
    """A session's handle, its thread, and who waits."""

    def __init__(
        self,
        handle: _core.Session,
        take: Callable[[dict[str, Any]], None],
        *,
        has_name: bool,
        has_lease: bool,
    ) -> None:
        """``take`` gets each event, with :attr:`changed` held."""
        self.handle = handle
        self.changed = threading.Condition()
        """Notified after every event; guards what ``take`` writes."""
        self.heard = 0
        """So many events."""
        self._take = take
        self._fd = handle.fd()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._pid = os.getpid()
        self._has_name = has_name  # Then it keeps what is not acknowledged.
        self.has_lease = has_lease
        self._tasks: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._asked = threading.local()  # Its `cell`: whose question this thread answers.
        self._lost = ""  # Why no event comes any more.
        self._closing = False
        self._leaves = False  # Then the ranks go on, for as long as their lease is.
        self._close_error: Error | None = None
        self._thread = threading.Thread(target=self._read_all, name="libsk session", daemon=True)

    def start(self) -> None:
        """Begins to read: from here on ``take`` is called."""
        _open.add(self)
        self._thread.start()

    # ---- calls --------------------------------------------------------------------------------

    def check(self, call: str) -> None:
        """Raises unless ``call``, of a session or as it stands, can be made."""
        named = call if "." in call else f"session.{call}"
        if self._pid != os.getpid():
            raise ForkedError(
                f"{named}(): this session is of process {self._pid}, from which this one"
                " was forked; open one here",
                15,
                "SK_ERR_FORKED",
            )
        if self._closing:
            raise BadHandleError(f"{named}(): this session was closed", 13, "SK_ERR_BAD_HANDLE")
        if self._lost:
            raise PeerLostError(f"{named}(): {self._lost}", 20, "SK_ERR_PEER_LOST")

    @contextlib.contextmanager
    def inside_input(self, cell: int) -> Iterator[None]:
        """While this thread answers a question of ``cell``, which waits for it."""
        self._asked.cell = cell
        try:
            yield
        finally:
            self._asked.cell = None

    def refuse_inside_input(self, call: str, cell: int | None = None) -> None:
        """Raises where the end of ``cell``, by default one to come, waits for this thread."""
        asks = getattr(self._asked, "cell", None)
        if asks is None or (cell is not None and cell < asks):
            return
        named = call if "." in call else f"session.{call}"
        raise BusyError(
            f"{named}(): cell {asks} waits for what this function, its input, returns, and other"
            " cells wait for that",
            14,
            "SK_ERR_BUSY",
        )

    def acknowledge(self, cell: int) -> None:
        """That a cell was handed over. Where this fails, nobody is left to tell it anew."""
        if self._has_name and not self.is_closed and not self._lost:
            with contextlib.suppress(Error):
                self.handle.ack(cell)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or this is a forked child."""
        return self._closing or self._pid != os.getpid()

    @property
    def is_lost(self) -> bool:
        """Whether no event comes any more."""
        return bool(self._lost)

    def wait(self, done: Callable[[], bool], timeout: float | None, call: str) -> bool:
        """Until ``done()``, which is asked with :attr:`changed` held; False when time ran out."""
        until = None if timeout is None else time.monotonic() + timeout
        is_main = threading.current_thread() is threading.main_thread()
        look = _SIGNAL_S if is_main else _LOOK_S
        with self.changed:
            while not done():
                self.check(call)
                left = look if until is None else min(look, until - time.monotonic())
                if left <= 0:
                    return False
                self.changed.wait(left)
        return True

    async def wait_in_loop(self, done: Callable[[], bool], call: str) -> None:
        """The same in an event loop, which goes on meanwhile."""
        woken = asyncio.Event()
        task = (asyncio.get_running_loop(), woken)
        with self.changed:
            self._tasks.add(task)
        try:
            while True:
                with self.changed:
                    if done():
                        return
                    self.check(call)
                await woken.wait()
                woken.clear()
        finally:
            with self.changed:
                self._tasks.discard(task)

    # ---- the end ------------------------------------------------------------------------------

    def close(self, wait: bool = True) -> None:
        """Ends the ranks. Whoever calls it first, all wait until they are gone."""
        if self._pid != os.getpid():
            return
        with self.changed:
            if not self._closing:
                self._closing = True
                os.eventfd_write(self._wake, 1)
                self._notify()
        if not wait or threading.current_thread() is self._thread:
            return
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            raise BusyError(
                f"session.close(): another thread has been inside a call for {CLOSE_S:g} s",
                14,
                "SK_ERR_BUSY",
            )
        error, self._close_error = self._close_error, None
        if error is not None:
            raise error

    def leave(self, wait: bool = True) -> None:
        """As the process's end: the ranks go on for as long as their lease is, or end without."""
        self._leaves = True
        self.close(wait)

    def forget(self) -> None:
        """In a forked child: the parent's descriptors, which would hide its end from the ranks."""
        for fd in (self._fd, self._wake):
            with contextlib.suppress(OSError):
                os.close(fd)

    def _notify(self) -> None:
        self.changed.notify_all()
        for loop, woken in self._tasks:
            with contextlib.suppress(RuntimeError):  # A loop that was closed has no task any more.
                loop.call_soon_threadsafe(woken.set)

    # ---- the thread ---------------------------------------------------------------------------

    def _read_all(self) -> None:
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        try:
            while not self._closing and not self._lost:
                if not self._read_one():
                    poller.poll(1000 * _LOOK_S)
        finally:
            self._lose("nobody reads its events any more")
        poller.unregister(self._fd)
        while not self._closing:
            poller.poll(1000 * _LOOK_S)
        self._close_handle()
        _open.discard(self)
        with self.changed:
            os.close(self._wake)

    def _lose(self, why: str) -> None:
        with self.changed:
            self._lost = self._lost or f"this session is over: {why}"
            self._notify()

    def _read_one(self) -> bool:
        """False: there was none."""
        try:
            event = self.handle.poll(0)
        except Error as error:
            event = {"kind": _STATUS, "status": _OVER, "text": str(error)}
        if event is None:
            return False
        with self.changed:
            self._take(event)
            self.heard += 1
            self._notify()
        if event["kind"] == _STATUS and event["status"] == _OVER:
            self._lose(event["text"])
        return True

    def _close_handle(self) -> None:
        until = time.monotonic() + CLOSE_S / 2
        while True:
            try:
                end = self.handle.leave if self._leaves else self.handle.close
                end()
                self._close_error = None
                return
            except BusyError as error:  # A call of another thread, each of which is bounded.
                self._close_error = error
                if time.monotonic() >= until:
                    return
                time.sleep(0.005)
            except Error as error:
                self._close_error = error
                return


def _end_all() -> None:
    """At the interpreter's end: closes what nobody has closed, but for those that have a lease."""
    links = [link for link in list(_open) if not link.is_closed]
    for link in links:
        end = link.leave if link.has_lease else link.close
        end(wait=False)
    for link in links:
        with contextlib.suppress(Error):
            link.close()


def _forget_all() -> None:
    for link in _open:
        link.forget()
    _open.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)
