"""Sessions: processes that run cells of source text, one per rank, for a script or a library."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, SupportsIndex

from libsk import _core
from libsk._cell import Cell
from libsk._cell_values import CellEvent, Result
from libsk._checks import integer, is_given, kind_of, milliseconds, shown, text_of
from libsk._errors import Error, PeerLostError, TimeoutError, invalid
from libsk._session_book import Book
from libsk._session_link import Link
from libsk._session_program import lines_of, path_of, words_of
from libsk._session_questions import Questions, Ranks, rank_set

_TEMPLATE = 1
"""SK_SESSION_TEMPLATE."""
_TOLD_S = 10.0
"""Longest wait for what a session tells those who attach."""
_STOP_S = 5.0
"""Beyond the time that an interrupt gives its ranks, four times ``interrupt_timeout`` at most."""
_INTERRUPT_MS = 1500
_PRESSES = 3
_LOG2_END = 30
"""Of seconds: ``sk_session_open()`` takes 2**40 milliseconds at most."""

Input = Callable[[CellEvent], "str | None"]
"""Gets the question of a cell's ranks; returns the line, or None for the end of input."""


class Session(Questions):
    """Rank processes on this host that run cells, as a notebook's do, until the end of ``with``.

    ::

        with libsk.Session(4) as session:
            print(session.run("print('rank', rank)").text)

    ``ranks`` is how many. Each is a Python of this environment, with IPython, which ``[kernel]``
    behind the wheel's name brings. In it cells find ``rank``, ``world_size``, ``comm`` and ``sk``;
    names stay from cell to cell. One cell runs at a time, in order of the calls, and any thread may
    call.

    ``command`` is another rank program with its arguments, ``env`` are variables over this
    process's, and ``cwd`` is where ranks start. Ranks are forked from one process that has loaded
    its modules; ``fork=False`` starts each by itself. A rank that is not there after
    ``start_timeout`` seconds (60 by default) is dead. ``interrupt_timeout`` (1.5) is from an
    interrupt to the end of its cell without the ranks that do not stop. ``program`` is the ``sk``
    that becomes the session's controller, by default the one of this package.

    A session with a ``name`` and a ``lease`` outlives a process that ends without closing it, for
    ``lease`` seconds, in which :meth:`attach` goes on with it. ``token`` is what that must show, a
    text of 16 bytes or more; one is made up (:attr:`token`) where none is given.

    Who forks, forks without the session: the child can only leave it alone. What is still open when
    the interpreter ends is closed then, unless it has a lease.
    """

    def __init__(
        self,
        ranks: SupportsIndex,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        name: str | None = None,
        token: str | None = None,
        lease: float | None = None,
        fork: bool = True,
        start_timeout: float | None = None,
        interrupt_timeout: float | None = None,
        program: str | os.PathLike[str] | None = None,
    ) -> None:
        count = integer(ranks, "ranks", "a number of ranks", low=-(2**31))
        python = [sys.executable, "-m", "libsk.kernel"]
        forks = is_given(fork, "fork") and command is None
        interrupt_ms = milliseconds(interrupt_timeout, "interrupt_timeout", _LOG2_END)
        lease_ms = milliseconds(lease, "lease", _LOG2_END)
        if lease is not None and name is None:
            raise invalid(f"lease is {shown(lease)} without a name, by which to attach; give both")
        if name is not None and token is None:
            token = secrets.token_hex(16)
        handle = _core.Session(
            count,
            python if command is None else words_of(command),
            lines_of({} if env is None else env),
            path_of(cwd, "cwd"),
            path_of(program, "program"),
            milliseconds(start_timeout, "start_timeout", _LOG2_END),
            lease_ms,
            _TEMPLATE if forks else 0,
            interrupt_ms,
            None if name is None else text_of(name, "name"),
            None if token is None else text_of(token, "token"),
        )
        self.token = token
        """What :meth:`attach` must show; None without a name."""
        # So that all ranks count a cell alike: else their tracebacks differ.
        self._last_cell: int | None = 0
        self._begin(handle, Book(), has_name=name is not None, has_lease=lease is not None)
        self._stop_s = _STOP_S + 4 * (interrupt_ms or _INTERRUPT_MS) / 1000

    def _begin(self, handle: _core.Session, book: Book, *, has_name: bool, has_lease: bool) -> None:
        self._book = book
        self._world_size = handle.ranks
        self._link = Link(handle, book.take, has_name=has_name, has_lease=has_lease)
        self._link.start()

    @classmethod
    def attach(cls, name: str, token: str) -> Session:
        """Goes on with a session that was opened with ``name`` and a lease, by a process now gone.

        Its ranks have kept their names, and a cell that runs goes on. :attr:`cells` are those whose
        results the process before this one has not taken, and :attr:`notes` what it has left.
        """
        said, shows = text_of(name, "name"), text_of(token, "token")
        self = cls.__new__(cls)
        self.token = shows
        # How long its ranks are given after an interrupt only its opener knew.
        self._stop_s = 12 * _STOP_S
        self._last_cell = None  # Nor how many cells there were.
        handle = _core.Session(said, shows)
        book = Book()
        book.adopt = lambda number: Cell(self._link, number, self)
        self._begin(handle, book, has_name=True, has_lease=True)
        try:
            while self._book.catches_up():
                heard = self._link.heard
                more = lambda heard=heard: self._link.heard != heard  # noqa: E731
                if not self._link.wait(more, _TOLD_S, "attach"):
                    raise TimeoutError(
                        f"session.attach(): the session told nothing of itself for {_TOLD_S:g} s",
                        30,
                        "SK_ERR_TIMEOUT",
                    )
        except BaseException:
            self._link.leave()  # What it was to rescue goes on.
            raise
        return self

    # ---- cells --------------------------------------------------------------------------------

    def run(
        self,
        code: str,
        ranks: Ranks = None,
        *,
        check: bool = True,
        timeout: float | None = None,
        input: Input | None = None,
        silent: bool = False,
        go_on: bool = False,
    ) -> Result:
        """Runs ``code`` as one cell on all ranks, or on ``ranks``, and waits for its end.

        ``ranks`` is a set as text (``"0-3,5"``, ``"!0"``, ``"alive"``, ``"one"``), a number, or
        several. A cell that names a rank which is dead is not run at all.

        Raises :class:`CellError` if the cell fails, unless ``check`` is False; what else was
        printed is in its ``result``. Cells behind a failed one are dropped, unless ``go_on``. After
        ``timeout`` seconds this cell is interrupted, or dropped if it has not begun, and
        :class:`TimeoutError` raised, whose ``result`` has what there was of it; other threads'
        cells are run. Ctrl-C interrupts what runs on all ranks, which stay with all that they have,
        and raises ``KeyboardInterrupt``; a rank that does not stop is left behind as stuck, at the
        third Ctrl-C at once.

        ``input`` is called with each question of the ranks (``input()``), a :class:`CellEvent`, and
        returns the line, or None for the end of input. Without it questions are refused. It cannot
        run cells of this session, which would wait for its answer. With ``silent`` the cell is not
        in the ranks' history, and shows no value.
        """
        if input is not None and not callable(input):
            raise invalid(f"input is {kind_of(input)}; give a function of the question, or None")
        raises = is_given(check, "check")
        limit = None if timeout is None else milliseconds(timeout) / 1000
        cell: Cell | None = None
        try:
            self._link.refuse_inside_input("run")
            cell = self._exec("run", code, ranks, input is not None, silent, go_on, keeps=False)
            ended = self._attend(cell, limit, input)
        except KeyboardInterrupt:
            self._stop(cell, self._link.handle.interrupt)
            raise
        except Exception:
            if cell is not None:  # Of `input`, or the session's end.
                self._stop(cell, cell.interrupt)
            raise
        if not ended:
            self._stop(cell, cell.interrupt)
            raise self._late(cell, timeout)
        return cell.result(check=raises)

    def _late(self, cell: Cell, timeout: float | None) -> TimeoutError:
        """What is raised for a cell that took too long, once it was interrupted."""
        result = cell.result(check=False) if cell.is_done() else None
        never = result is not None and result.status == "aborted"
        error = TimeoutError(
            f"session.run(): cell {cell.number} has not begun within {timeout} s, so it was dropped"
            if never
            else f"session.run(): cell {cell.number} has not ended within {timeout} s, so it was"
            " interrupted",
            30,
            "SK_ERR_TIMEOUT",
        )
        error.result = result
        return error

    def start(
        self,
        code: str,
        ranks: Ranks = None,
        *,
        input: bool = False,
        silent: bool = False,
        go_on: bool = False,
        tag: str | None = None,
    ) -> Cell:
        """Queues ``code`` as a cell and returns at once: see :class:`Cell`.

        With ``input=True`` its ranks may ask, and somebody has to call ``cell.answer()``. With
        ``go_on=True`` cells behind it are run though it fails: for cells that have nothing to do
        with each other. ``tag`` is the caller's own; a session that attaches finds it at the cell.
        """
        return self._exec(
            "start",
            code,
            ranks,
            is_given(input, "input"),
            silent,
            go_on,
            tag=None if tag is None else text_of(tag, "tag"),
        )

    def _exec(
        self,
        call: str,
        code: str,
        ranks: Ranks,
        asks: bool,
        silent: bool,
        go_on: bool,
        *,
        keeps: bool = True,
        tag: str | None = None,
    ) -> Cell:
        self._link.check(call)
        text, chosen = text_of(code, "code", "source text"), rank_set(ranks)
        quiet, goes_on = is_given(silent, "silent"), is_given(go_on, "go_on")
        with self._link.changed:  # So that none of its events comes before it is known.
            count = 0 if quiet or self._last_cell is None else self._last_cell + 1
            number = self._link.handle.exec(chosen, text, quiet, count, asks, goes_on, tag)
            self._last_cell = number
            cell = Cell(self._link, number, self, keeps=keeps)
            self._book.cells[number] = cell
        cell.tag = tag or ""
        return cell

    def _attend(self, cell: Cell, timeout: float | None, input: Input | None) -> bool:
        """Answers its questions until it ends; False when the time ran out."""
        if input is None:
            return self._link.wait(cell.is_done, timeout, "run")
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            asks = lambda: cell.is_done() or cell.prompt is not None  # noqa: E731
            if not self._link.wait(asks, left, "run"):
                return False
            question = cell.prompt
            if cell.is_done() or question is None:
                return cell.is_done()
            with self._link.inside_input(cell.number):
                line = input(question)
            said = (
                text_of(line, "what input returned", "a line, or None")
                if line is not None
                else None
            )
            cell.answer(said)

    def _stop(self, cell: Cell | None, interrupt: Callable[[], None]) -> None:
        """Interrupts, and waits until the cell has ended; again for each Ctrl-C meanwhile."""
        for _ in range(_PRESSES):
            try:
                interrupt()
                if cell is not None:
                    self._link.wait(cell.is_done, self._stop_s, "run")
                return
            except KeyboardInterrupt:
                continue
            except Error:
                return  # It has ended with its session.

    def interrupt(self) -> None:
        """Interrupts the cell that runs, on all of its ranks, and drops those that wait.

        Python code, sleeps, commands and collectives end. Does not wait for that; cells that are
        queued from then on are run. :meth:`Cell.interrupt` is for one cell alone.
        """
        self._link.check("interrupt")
        self._link.handle.interrupt()

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def world_size(self) -> int:
        """How many ranks it has."""
        return self._world_size

    @property
    def state(self) -> str:
        """``"starting"``, ``"ready"``, ``"degraded"`` (not every rank can run cells), ``"over"``,
        or ``"closed"``."""
        if self._link.is_closed:
            return "closed"
        return "over" if self._link.is_lost else self._book.state

    @property
    def lost(self) -> dict[int, str]:
        """Why ranks are dead or stuck, by rank."""
        with self._link.changed:
            return dict(self._book.lost)

    @property
    def cells(self) -> list[Cell]:
        """After :meth:`attach`: the cells whose results were not taken, from the oldest."""
        with self._link.changed:
            return list(self._book.told)

    @property
    def notes(self) -> dict[str, str]:
        """After :meth:`attach`: what the process before this one has left with :meth:`keep`."""
        with self._link.changed:
            return dict(self._book.notes)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Waits until all ranks can run cells. Cells do so by themselves; this says why not.

        Raises :class:`PeerLostError` if some cannot, and :class:`TimeoutError` after ``timeout``.
        """
        limit = None if timeout is None else milliseconds(timeout) / 1000
        if not self._link.wait(lambda: self._book.state != "starting", limit, "wait_ready"):
            raise TimeoutError(
                f"session.wait_ready(): ranks are still starting after {timeout} s",
                30,
                "SK_ERR_TIMEOUT",
            )
        if lost := self.lost:
            why = "; ".join(f"rank {rank}: {text}" for rank, text in sorted(lost.items())[:4])
            more = f"; and {len(lost) - 4} more" if len(lost) > 4 else ""
            raise PeerLostError(f"session.wait_ready(): {why}{more}", 20, "SK_ERR_PEER_LOST")

    def keep(self, name: str, text: str | None) -> None:
        """Leaves a text for whoever attaches to this session later; None takes it away."""
        said = text_of(name, "name")
        kept = None if text is None else text_of(text, "text", "a text, or None")
        self._link.check("keep")
        self._link.handle.keep(said, kept)

    # ---- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the ranks and waits until they are gone, at most 10 s. Once is enough."""
        self._link.close()

    def __enter__(self) -> Session:
        self._link.check("__enter__")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What goes on already says more.
        with contextlib.nullcontext() if error is None else contextlib.suppress(Error):
            self.close()

    def __del__(self) -> None:
        link = getattr(self, "_link", None)
        if link is not None and not link.is_closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)
            link.close(wait=False)

    def __reduce__(self) -> NoReturn:  # A copy that is dropped would end the ranks.
        raise TypeError(
            "a Session cannot be copied or pickled, it is its ranks; another process may attach()"
            " to one with a name"
        )

    def __repr__(self) -> str:
        return f"<libsk.Session of {self._world_size} ranks: {self.state}>"
