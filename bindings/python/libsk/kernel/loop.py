"""The rank's main thread: takes requests one by one until it is told to leave."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import platform
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk._comm import JOB_SECRETS
from libsk._errors import AbortedError, Error, PeerLostError
from libsk.kernel import asynchrony, children, places, stacks, still, streams, template, tracebacks

try:  # In C; the public ones look their arguments up in enumerations, a tenth of a short cell.
    from _signal import getsignal
    from _signal import signal as set_handler
except ImportError:
    from signal import getsignal
    from signal import signal as set_handler

if TYPE_CHECKING:
    from libsk.kernel.shell import RankShell

EXECUTE, SHUTDOWN, COMM, ACTION = 1, 5, 20, 50
"""``enum sk_request_kind``."""
CELL_OK, CELL_ERROR = 1, 2
"""``enum sk_cell_status``."""
CAPTURE, SIGINT = 1, 2
"""``enum sk_worker_flags``."""
CONSEQUENCE, INTERRUPT = 1, 2
"""``enum sk_error_flags``."""

_STDERR = 2
_WAIT_MS = 3_600_000
_LOOK_MS = 50
"""Where a thread may give the loop something, which wakes nobody."""
_AFTER_FAILURE_MS = 200
"""Tasks whose loop fails at once do not keep a core busy."""


def _ignore(number: int, frame: FrameType | None) -> None:
    """Between cells an interrupt means nothing: its cell has ended."""


class Rank:
    """One rank: its worker, its shell, and who gets an interrupt."""

    def __init__(self, worker: _core.Worker, shell: RankShell) -> None:
        from libsk.kernel import asking, comms, imports, names

        self._worker = worker
        self._shell = shell
        self._pid = os.getpid()
        streams.keep_descriptors()
        asking.install(worker)
        places.install(worker)
        os.register_at_fork(after_in_child=asynchrony.forget)
        self._comms = comms.install(worker)
        self._book = names.NameBook(worker, shell)
        imports.install()
        shell.attach(worker, self._names())
        # A cell may install a handler; it holds for later cells, not between them.
        self._cell_handler: Any = signal.default_int_handler

    def _names(self) -> dict[str, Any]:
        """What every cell finds in its namespace."""
        import libsk
        from libsk.kernel.comm import RankComm

        comm = RankComm(self._worker)
        self._comm = comm
        return {
            "rank": comm.rank,
            "local_rank": comm.local_rank,
            "world_size": comm.world_size,
            "comm": comm,
            "sk": libsk,
        }

    def serve(self) -> None:
        """Until the controller says so, or is gone."""
        going = True
        while going:
            try:
                going = self._take_one()
            except BaseException:  # noqa: BLE001 - a signal's, in the lines that contain.
                going = True

    def _take_one(self) -> bool:
        """One request. Nothing that is raised around it ends the rank: it becomes one line, and the
        request gets its answer. False: it was the last."""
        request: dict[str, Any] | None = None
        try:
            wait_ms = self._let_tasks_work()
            request = self._worker.next(wait_ms)
            if request is None:
                if wait_ms > 0:
                    self._comm._renew()
                return True
            if request["kind"] == SHUTDOWN:
                return False
            self._serve_one(request)
        except BaseException as raised:  # noqa: BLE001 - whatever it is.
            return not (request is None and self._is_over(raised)) and self._contain(
                request, raised
            )
        return True

    def _serve_one(self, request: dict[str, Any]) -> None:
        if request["kind"] in (EXECUTE, ACTION):
            self._execute(request)
            self._book.tell()
        elif request["kind"] == COMM:
            self._handle_comm(request)
        else:
            from libsk.kernel import answers

            answers.answer(self._worker, self._shell, request)

    def _is_over(self, raised: BaseException) -> bool:
        """Whether the controller is gone. The handler of a user's signal may raise anything, that
        too, so it is asked again."""
        if type(raised) is not PeerLostError:
            return False
        try:
            self._worker.stream(_STDERR, "")
        except PeerLostError:
            return True
        return False

    def _contain(self, request: dict[str, Any] | None, raised: BaseException) -> bool:
        """Ends what the request has begun. Each step by itself: where one has been made already, it
        is refused."""
        self._leave_child(raised if request is not None else None)
        places.leave()
        if request is not None and request["kind"] not in (EXECUTE, ACTION, COMM):
            from libsk.kernel import answers

            with contextlib.suppress(BaseException):
                answers.decline(self._worker, request, tracebacks.line_of(raised))
            return True
        self._tell(raised)
        with contextlib.suppress(BaseException):
            self._worker.done(CELL_ERROR)
        return True

    def _let_tasks_work(self) -> int:
        """Those of asyncio that cells have left behind. How long to wait for the next request."""
        try:
            if asynchrony.turn():
                return 0
            return _LOOK_MS if asynchrony.is_reachable() else _WAIT_MS
        except BaseException as raised:  # noqa: BLE001 - the user's callbacks may do anything.
            set_handler(signal.SIGINT, _ignore)
            if type(raised) is not RuntimeError:  # A callback has stopped the loop.
                self._leave_child(raised)
                self._tell(raised)
            return _AFTER_FAILURE_MS

    def _execute(self, request: dict[str, Any]) -> None:
        error: BaseException | None
        answer = ""
        places.enter(request["id"], request["execution_count"])
        self._shell.forget_error()
        try:
            self._comm._renew()
            asynchrony.enter()
            set_handler(signal.SIGINT, self._cell_handler)
            try:
                if request["kind"] == ACTION:
                    from libsk.kernel import actions

                    error = actions.run(self._worker, self._shell, request["code"])
                else:
                    error = self._shell.run(request)
                    answer = self._shell.answer_cell(request, error)
            finally:
                self._cell_handler = _for_cells(getsignal(signal.SIGINT))
                set_handler(signal.SIGINT, _ignore)
        except BaseException as raised:  # noqa: BLE001 - in the lines around the cell.
            set_handler(signal.SIGINT, _ignore)
            error = raised
        self._finish(error, answer)

    def _handle_comm(self, request: dict[str, Any]) -> None:
        """A widget's message. What its handler raises is shown; it ends no cell."""
        error: BaseException | None = None
        places.enter(request["id"])
        self._shell.forget_error()
        try:
            asynchrony.enter()
            set_handler(signal.SIGINT, self._cell_handler)
            try:
                self._comms.handle(request)
            except BaseException as raised:  # noqa: BLE001 - the handler's own.
                error = raised
                self._shell.showtraceback()
            finally:
                set_handler(signal.SIGINT, _ignore)
        except BaseException as raised:  # noqa: BLE001 - in the lines around the handler.
            set_handler(signal.SIGINT, _ignore)
            error = raised
        if error is None and self._shell.last_traceback:  # ipywidgets showed it itself.
            error = sys.last_value if hasattr(sys, "last_value") else None
        self._finish(error)

    def _finish(self, error: BaseException | None, answer: str = "") -> None:
        self._leave_child(error)
        places.leave()
        moved = _core.restore_descriptors(streams.flush)
        if moved:
            self._attempt(lambda: self._worker.stream(_STDERR, streams.moved(moved)))
        streams.restore()
        streams.flush()
        if error is not None:
            name, text = self._shell.words_of(error)
            traceback = self._shell.last_traceback or [tracebacks.line_of(error)]
            self._worker.error(name, text, traceback, _flags_of(error))
        if answer:
            self._attempt(lambda: self._worker.cell_reply(answer))
        self._attempt(self._tell_threads)
        self._attempt(self._comm._ask_for_another)  # Before the end: so no cell comes between.
        self._worker.done(CELL_OK if error is None else CELL_ERROR)

    def _tell_threads(self) -> None:
        """Peers that wait for this rank wait on where one of them may still come."""
        count = places.at_work()
        if count > 0:
            self._worker.threads(count)

    def _attempt(self, step: Callable[[], object]) -> None:
        """What a cell can end without."""
        try:
            step()
        except BaseException as raised:  # noqa: BLE001 - as above.
            self._tell(raised)

    def _tell(self, raised: BaseException) -> None:
        line = f"{tracebacks.line_of(raised)} ({tracebacks.place_of(raised)})\n"
        with contextlib.suppress(BaseException):
            self._worker.stream(_STDERR, f"beside the cell: {line}")

    def _leave_child(self, error: BaseException | None = None) -> None:
        """A process that the cell has forked, and that came to the cell's end instead of its own:
        it is no rank."""
        if os.getpid() != self._pid:
            children.leave(error, self._shell.last_traceback)


def _for_cells(handler: Any) -> Any:
    """What a cell has made of SIGINT holds for the next one, except that it would end the rank."""
    return signal.default_int_handler if handler in (signal.SIG_DFL, None) else handler


def _flags_of(error: BaseException) -> int:
    if still.is_a(error, KeyboardInterrupt):
        return INTERRUPT
    return CONSEQUENCE if tracebacks.stems_from(error, PeerLostError, AbortedError) else 0


def main() -> int:
    """Joins, serves, leaves."""
    if not {"SK_WORKER_FD", "SK_TEMPLATE_FD"} & os.environ.keys():
        print(
            "python -m libsk.kernel is a rank of a notebook; `sk kernel` starts it.\n"
            "SK_WORKER_FD is not set.",
            file=sys.stderr,
        )
        return 2
    set_handler(signal.SIGINT, _ignore)
    streams.install()
    faulthandler.enable()
    # Before pyplot is imported: figures are drawn without a window and shown after each cell.
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    shell = template.make_shell()
    try:
        template.become_rank(shell)
        worker = _core.Worker(
            f"python {platform.python_version()}",
            CAPTURE | SIGINT,
            stacks.NATIVE_SIGNAL,
            stacks.PYTHON_SIGNAL,
            stacks.register(),
        )
    except PeerLostError:
        return 0  # A template whose session is over.
    except Error as error:
        print(f"libsk.kernel: {error}", file=sys.stderr)
        return 1
    for name in ("SK_WORKER_FD", "SK_CAPTURE_FDS", *JOB_SECRETS):
        os.environ.pop(name, None)  # They are ours; children must not take them.
    Rank(worker, shell).serve()
    worker.leave()
    return 0
