"""IPython's shell as it runs in a rank: no terminal, no history file, output through the worker."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from libsk import _core
from libsk._errors import ForkedError
from libsk.kernel import asynchrony, magics, memos, mime, once, places, still, tracebacks
from libsk.kernel.display import RankDisplayHook, RankDisplayPublisher, flush
from libsk.kernel.history import RankHistory
from libsk.kernel.plain import PlainPrefilter, PlainTransformer, may_await
from libsk.kernel.plain_run import PlainRunner

_CHILD_GRACE_S = 0.8
"""Less than an interrupt waits for the rank (sk_session_config.interrupt_ms)."""

_ENVIRONMENT = {
    "TERM": "xterm-color",
    "CLICOLOR": "1",
    "CLICOLOR_FORCE": "1",
    "FORCE_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
}

_NO_EXIT = (
    "A cell does not end its rank. The ranks end with the kernel: shut it down or restart it."
)


class RankShell(InteractiveShell):
    """Runs cells; keeps the error of the last one for the worker to send."""

    displayhook_class = Type(RankDisplayHook)
    display_pub_class = Type(RankDisplayPublisher)

    last_traceback: list[str]
    _worker: _core.Worker | None = None
    _left: BaseException | None = None
    _words: tuple[BaseException, str, str] | None = None
    own_names: dict[str, Any]
    # IPython checks each value that these are given, at every cell; here they are plain.
    last_execution_succeeded = True
    last_execution_result = None
    execution_count = 1
    history_manager: Any = None

    @classmethod
    def make(cls) -> RankShell:
        """The process's one shell, which attach() makes a rank's."""
        config = Config()
        # N ranks and one SQLite file would lock each other; the front end keeps the history.
        config.HistoryManager.enabled = False
        # Answers within a keystroke: Jedi alone takes longer to import than a rank to start.
        config.IPCompleter.use_jedi = False
        config.InteractiveShell.banner1 = ""
        shell = cls.instance(config=config)
        shell.input_transformer_manager = PlainTransformer()
        shell.prefilter = PlainPrefilter(shell)
        shell.loop_runner = asynchrony.run
        shell.last_traceback = []
        shell.own_names = {}
        shell.set_hook("show_in_pager", RankShell.show_in_pager)
        # On SystemExit IPython tells how a terminal is left; showtraceback() says what holds here.
        warnings.filterwarnings("ignore", "To exit: use 'exit', 'quit'")
        magics.register(shell)
        shell.kernel = _KernelFace(shell)
        shell._plain = PlainRunner(shell, shell.input_transformer_manager, shell.prefilter)
        return shell

    def attach(self, worker: _core.Worker, names: dict[str, Any]) -> None:
        """From now on it is this rank's: outputs go to ``worker``, cells find ``names``."""
        self._worker = self.displayhook.worker = worker
        self.display_pub.worker = worker
        self.own_names = names
        self.add_own_names()
        self.init_environment()  # A template's is not its ranks'.
        # For good: nothing but cells and their callbacks runs here, and each change costs them.
        self.builtin_trap.__enter__()

    def init_environment(self) -> None:
        """What children should know, as in every notebook: colours are shown, pages are not."""
        os.environ.update(_ENVIRONMENT)

    def init_history(self) -> None:
        """Called by IPython's own ``__init__``."""
        self.history_manager = RankHistory(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def transform_cell(self, raw_cell: str) -> str:
        """As IPython's, which takes a cell of one line apart for the names of magics."""
        transformer = self.input_transformer_manager
        own = isinstance(transformer, PlainTransformer)
        if not own or not transformer.leaves(raw_cell) or not self.prefilter.leaves(raw_cell):
            return super().transform_cell(raw_cell)
        return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"

    def run_cell(
        self, raw_cell: str, store_history: bool = False, *others: Any, **about: Any
    ) -> Any:
        """As IPython's."""
        if others or about:
            return super().run_cell(raw_cell, store_history, *others, **about)
        result, has_warned = self._plain.run(raw_cell, store_history)
        if result is not None:
            return result
        with warnings.catch_warnings(record=True) if has_warned else nullcontext():
            return super().run_cell(raw_cell, store_history)

    def add_own_names(self) -> None:
        """Puts what every cell finds into the namespace, as names that are not the user's."""
        self.user_ns.update(self.own_names)
        self.user_ns_hidden.update(self.own_names)

    def reset(self, new_session: bool = True, aggressive: bool = False) -> None:
        """Forgets the user's names; ``rank``, ``comm`` and the like are there again at once."""
        super().reset(new_session=new_session, aggressive=aggressive)
        self.add_own_names()

    def run(self, request: dict[str, Any]) -> BaseException | None:
        """Runs one cell; its exception, or None."""
        count = request["execution_count"]
        if count:
            if self.execution_count != count:
                self.execution_count = count
            self._pad_history(count)
        self.forget_error()
        try:
            about = {"silent": True} if request["silent"] else {}
            result = self.run_cell(request["code"], store_history=request["store_history"], **about)
            error = result.error_before_exec
            if error is None:
                error = result.error_in_exec
        except BaseException as raised:  # noqa: BLE001 - in IPython's own code, or in hooks of it.
            # Not what it stumbled over when it looked at the error that the cell has raised.
            is_interrupt = still.is_a(raised, KeyboardInterrupt)
            error = raised if is_interrupt or self._left is None else self._left
        if error is None:
            self._print_traceback()
        else:
            self.left_with(error)
            self.words_of(error)
            if not self.last_traceback:
                self.last_traceback = [tracebacks.line_of(error)]
        flush()
        return error

    def left_with(self, error: BaseException) -> None:
        """The moment at which an error leaves the cell's code is told once, and before anything of
        it is written out: that may take long, and the first one is found by the clock."""
        if self._left is not error and self._worker is not None:
            self._left = error
            with suppress(ForkedError):  # A child that a cell has forked has nobody to tell.
                self._worker.code_ended()

    def words_of(self, error: BaseException) -> tuple[str, str]:
        """Its name and its text, asked for once: it may take its time to tell."""
        if self._words is None or self._words[0] is not error:
            self._words = (error, still.type_name(error), tracebacks.text_of(error))
        return self._words[1:]

    def forget_error(self) -> None:
        """Before a cell: what the last one ended with is not this one's."""
        self.last_traceback = []
        self._left = self._words = None

    def _pad_history(self, count: int) -> None:
        """``In[n]``, ``%history`` and ``%recall`` count as the notebook does: a cell that this rank
        did not run is an empty entry."""
        for entries in (
            self.history_manager.input_hist_parsed,
            self.history_manager.input_hist_raw,
        ):
            if len(entries) < count:
                entries += [""] * (count - len(entries))

    def _find_with_lazy_load(self, type_: Any, magic_name: str) -> Any:
        """As IPython's, which looks here before it runs a magic; what there is not gets a sentence
        that helps."""
        found = super()._find_with_lazy_load(type_, magic_name)
        if found is None:
            none = {"line": magics.no_line_magic, "cell": magics.no_cell_magic}[str(type_)]
            raise none(self, magic_name)
        return found

    def run_line_magic(self, magic_name: str, line: str, _stack_depth: int = 1) -> Any:
        """As IPython's; what changes the host is done by one rank for all."""
        run = super().run_line_magic
        if magic_name not in once.LINE:
            return run(magic_name, line, _stack_depth + 1)
        said = self.var_expand(line, _stack_depth)
        # Two frames more: of this call, and of the one that makes it.
        return once.run(self, lambda: run(magic_name, line, _stack_depth + 3), magic_name, said)

    def run_cell_magic(self, magic_name: str, line: str, cell: str) -> Any:
        """As IPython's, likewise."""
        run = super().run_cell_magic
        if magic_name not in once.CELL:
            return run(magic_name, line, cell)
        said = self.var_expand(line, 1)
        return once.run(self, lambda: run(magic_name, said, cell), magic_name, said, cell)

    def _print_traceback(self) -> None:
        """What was shown and did not end the cell: a ``__repr__`` that raises, ``%tb``."""
        if self.last_traceback:
            print("\n".join(self.last_traceback), file=sys.stderr)
        self.last_traceback = []

    def should_run_async(self, raw_cell: str, **about: Any) -> bool:
        """As IPython's, which compiles the cell to find out. In ipykernel every cell finds a loop
        that runs, so cells are written which begin tasks and do not await."""
        code = about.get("transformed_cell") or raw_cell
        if asynchrony.begins_tasks(code):
            return True
        return may_await(code) and super().should_run_async(raw_cell, **about)

    def _tee(self, channel: str) -> AbstractContextManager[None]:
        """IPython would keep all that is ever printed in memory; the notebook does that already."""
        return nullcontext()

    # ---- errors ----

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Formats the exception without frames of this package."""
        try:
            value = asynchrony.as_shown(self._get_exc_info(exc_tuple)[1])
        except ValueError:  # There is none; IPython says so.
            return super().showtraceback(exc_tuple, *args, **kwargs)
        kind = type(value)
        self.left_with(value)
        self._format(value, kind, *args, **kwargs)
        if still.is_a(value, SystemExit) and self.last_traceback:
            self.last_traceback.append(_NO_EXIT)

    def _format(
        self, value: BaseException, kind: type[BaseException], *args: Any, **kw: Any
    ) -> None:
        """IPython's traceback; a simple one where the exception itself, or a hook, does not let it
        come about. So an error is always shown, and the one that the cell has raised."""
        before = self.last_traceback
        try:
            tracebacks.strip(value)
            memos.install()
            trace = tracebacks.trace_of(value)
            with _first_interrupt_ignored(), tracebacks.quick(kind):
                super().showtraceback((kind, value, trace), *args, **kw)
        except BaseException as broken:  # noqa: BLE001 - the user's code may raise anything.
            self.last_traceback = before
            self._showtraceback(kind, value, tracebacks.plain(value, broken))

    def showsyntaxerror(self, *args: Any, **kwargs: Any) -> None:
        """As IPython's, which reads fields that anybody may have filled."""
        value = self._get_exc_info()[1]
        self.left_with(value)
        try:
            super().showsyntaxerror(*args, **kwargs)
        except BaseException as broken:  # noqa: BLE001 - as above.
            self._showtraceback(type(value), value, tracebacks.plain(value, broken))

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        lines = [still.exact(line).rstrip("\n") for line in stb]
        if self._in_widget(evalue, lines):
            return
        self._print_traceback()
        self.last_traceback = lines

    def _format_exception_for_storage(
        self, exception: BaseException, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """IPython keeps it beside the input. It has been formatted once, to be shown."""
        name, text = self.words_of(exception)
        return {"ename": name, "evalue": text, "traceback": self.last_traceback}

    def show_usage_error(self, exc: BaseException) -> None:
        """A magic called wrongly."""
        lines = [f"UsageError: {tracebacks.text_of(exc)}"]
        if not self._in_widget(exc, lines):
            self.last_traceback = lines

    def _in_widget(self, error: BaseException, lines: list[str]) -> bool:
        """Shown in the Output widget that the error is leaving, which ends it there."""
        widget = places.here().widget
        return widget is not None and widget.error(*self.words_of(error), lines)

    # ---- what the answer to a cell carries beside its outputs ----

    def answer_cell(self, request: dict[str, Any], error: BaseException | None) -> str:
        """The values of the expressions that came with the cell, and the payload, as JSON."""
        answer: dict[str, Any] = {}
        payload = self.payload_manager.read_payload()
        if payload:
            self.payload_manager.clear_payload()
            answer["payload"] = payload
        if request.get("expressions") and error is None:
            answer["user_expressions"] = self.user_expressions(json.loads(request["expressions"]))
        return mime.as_text(answer) if answer else ""

    def set_next_input(self, s: str, replace: bool = False) -> None:
        """``%load`` and the like: the text of the notebook's next cell."""
        self.payload_manager.write_payload(
            {"source": "set_next_input", "text": s, "replace": replace}
        )

    # ---- what a terminal would do ----

    def show_in_pager(self, text: Any, start: int = 0, screen_lines: int = 0) -> None:
        """Help texts go to the front end's pager."""
        data = text.get("data", text) if isinstance(text, dict) else {"text/plain": str(text)}
        self.display_pub.worker.display(mime.DISPLAY_PAGE, mime.bundle_of(data), None)

    def system(self, cmd: str) -> None:
        """``!cmd``: the child writes to the captured descriptors itself."""
        flush()
        command = self.var_expand(cmd, depth=1)
        interrupted = False
        recorder = sys.stdout if type(sys.stdout) is once.Recorder else None
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if recorder else {}
        with subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL, **pipe) as child:
            try:
                if recorder is not None and child.stdout is not None:
                    for line in io.TextIOWrapper(child.stdout, "utf-8", "backslashreplace"):
                        recorder.write(line)
                status = child.wait()
            except KeyboardInterrupt:
                interrupted = True
                # The interrupt went to the process group, so to the child too.
                try:
                    child.wait(_CHILD_GRACE_S)
                except subprocess.TimeoutExpired:
                    child.kill()
        if interrupted:  # From here, so that the traceback is the cell's and not subprocess's.
            raise KeyboardInterrupt
        self.user_ns["_exit_code"] = status
        if status != 0:
            print(_how_it_ended(status), file=sys.stderr)

    system_piped = system
    system_raw = system

    def enable_gui(self, gui: str | None = None) -> None:
        """Ranks have no windows: matplotlib draws inline."""
        if gui not in (None, "inline"):
            raise ValueError(
                f"ranks have no windows, so no {gui!r} event loop; use %matplotlib inline"
            )

    def ask_exit(self) -> None:
        """``exit`` in a cell."""
        print(_NO_EXIT, file=sys.stderr)

    def init_virtualenv(self) -> None:
        """The interpreter is the one that the kernelspec names."""


class _KernelFace:
    """What libraries look for to see whether a notebook shows what they put out (pandas: how wide
    a table is), and where some find its comms."""

    def __init__(self, shell: RankShell) -> None:
        self.shell = shell

    @property
    def comm_manager(self) -> Any:
        import comm

        return comm.get_comm_manager()


# By this name Rich, pandas and others know a notebook. tqdm looks at the configuration instead, and
# stays text, of which the ranks' bars are one row.
RankShell.__name__ = RankShell.__qualname__ = "ZMQInteractiveShell"


def _how_it_ended(status: int) -> str:
    """A child's end in words; the shell tells of a signal by 128 and its number."""
    number = -status if status < 0 else status - 128
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"exit status {status}"


@contextmanager
def _first_interrupt_ignored() -> Iterator[None]:
    """While an error is written out: its cell has ended already, and the peer's abort that it tells
    of often comes with an interrupt right behind. A second one ends a ``__str__`` that hangs."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, handler))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
