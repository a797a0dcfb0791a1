"""The rank's main thread: takes requests one by one until it is told to leave."""

from __future__ import annotations

import faulthandler
import os
import platform
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk._comm import JOB_SECRETS
from libsk._errors import AbortedError, Error, PeerLostError
from libsk.kernel import asynchrony, places, stacks, streams, template, tracebacks

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

_WAIT_MS = 3_600_000


def _ignore(number: int, frame: FrameType | None) -> None:
    """Between cells an interrupt means nothing: its cell has ended."""


class Rank:
    """One rank: its worker, its shell, and who gets an interrupt."""

    def __init__(self, worker: _core.Worker, shell: RankShell) -> None:
        from libsk.kernel import asking, comms, display, imports, names

        self._worker = worker
        self._shell = shell
        asking.install(worker)
        places.install(worker)
        self._comms = comms.install(worker)
        self._book = names.NameBook(worker, shell)
        self._flush = display.flush
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
        from libsk.kernel import answers

        while True:
            works = self._let_tasks_work()
            try:
                request = self._worker.next(0 if works else _WAIT_MS)
            except PeerLostError:
                return
            if request is None:
                if not works:
                    self._comm._renew()
                continue
            if request["kind"] == SHUTDOWN:
                return
            if request["kind"] in (EXECUTE, ACTION):
                self._execute(request)
                self._book.tell()
            elif request["kind"] == COMM:
                self._handle_comm(request)
            else:
                answers.answer(self._worker, self._shell, request)

    def _let_tasks_work(self) -> bool:
        """Those of asyncio that cells have left behind; False where there are none."""
        try:
            return asynchrony.turn()
        except Exception:  # noqa: BLE001 - the user's callbacks may stop the loop, or worse.
            return False

    def _execute(self, request: dict[str, Any]) -> None:
        error: BaseException | None
        answer = ""
        places.enter(request["id"])
        self._comm._renew()
        try:
            set_handler(signal.SIGINT, self._cell_handler)
            try:
                if request["kind"] == ACTION:
                    from libsk.kernel import actions

                    error = actions.run(self._worker, self._shell, request["code"])
                else:
                    error = self._shell.run(request)
                    answer = self._shell.answer_cell(request, error)
            finally:
                self._cell_handler = getsignal(signal.SIGINT)
                set_handler(signal.SIGINT, _ignore)
        except KeyboardInterrupt as interrupt:  # In the lines around the cell.
            set_handler(signal.SIGINT, _ignore)
            error = interrupt
        self._finish(error, answer)

    def _handle_comm(self, request: dict[str, Any]) -> None:
        """A widget's message. What its handler raises is shown; it ends no cell."""
        error: BaseException | None = None
        places.enter(request["id"])
        self._shell.last_traceback = []
        try:
            set_handler(signal.SIGINT, self._cell_handler)
            try:
                self._comms.handle(request)
            except (Exception, KeyboardInterrupt) as raised:  # noqa: BLE001 - the handler's own.
                error = raised
                self._shell.showtraceback()
            finally:
                set_handler(signal.SIGINT, _ignore)
        except KeyboardInterrupt as interrupt:  # In the lines around the handler.
            set_handler(signal.SIGINT, _ignore)
            error = interrupt
        if error is None and self._shell.last_traceback:  # ipywidgets showed it itself.
            error = sys.last_value if hasattr(sys, "last_value") else None
        self._finish(error)

    def _finish(self, error: BaseException | None, answer: str = "") -> None:
        self._flush()
        if answer:
            self._worker.cell_reply(answer)
        if error is not None:
            traceback = self._shell.last_traceback
            name, text = type(error).__name__, tracebacks.text_of(error)
            self._worker.error(name, text, traceback or [f"{name}: {text}"], _flags_of(error))
        self._comm._ask_for_another()  # Before the end: so no cell comes between.
        self._worker.done(CELL_OK if error is None else CELL_ERROR)


def _flags_of(error: BaseException) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPT
    return CONSEQUENCE if isinstance(error, PeerLostError | AbortedError) else 0


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
