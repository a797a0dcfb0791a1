"""A plain cell, run without what IPython does around each.

For every cell IPython makes a coroutine, syntax trees as Python objects, and reads some thirty
attributes that check themselves. One process does not feel it; a hundred ranks on a few cores do,
each with its own cold copy of every object that a cell touches. Here the same happens, in the same
order, by the same hooks, with as few objects as can be. What is not plain is left to IPython.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

from libsk._checks import about_value
from libsk.kernel.plain import PlainPrefilter, PlainTransformer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# One simple statement on one line, that begins with a name: nothing of IPython's (see plain.py), no
# second statement, no block.
_SIMPLE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)( *[=,])?[^%!?;:\\\n\r\f\v\x1c-\x1e\x85\u2028\u2029]*\n\Z"
)

_Piece = tuple[Any, str]
"""What the compiler takes, and its mode: "single" shows the value of an expression."""


_SETTINGS = (
    "ast_node_interactivity",
    "autocall",
    "input_transformer_manager",
    "prefilter_manager",
)
"""Attributes of the shell that decide what a cell becomes."""
_STEPS = {
    "run_code",
    "run_ast_nodes",
    "run_cell_async",
    "transform_ast",
    "transform_cell",
    "_run_cell",
}
"""What extensions replace to change how cells are run."""


class PlainRunner:
    """Runs the cells of one shell that need nothing of IPython's."""

    def __init__(
        self, shell: InteractiveShell, transformer: PlainTransformer, prefilter: PlainPrefilter
    ) -> None:
        self._shell = shell
        self._transformer = transformer
        self._prefilter = prefilter
        self._compiler = shell.compile
        self._display_trap = shell.display_trap
        self._callbacks = shell.events.callbacks
        self._own_first = list(self._callbacks["pre_execute"])
        # IPython has once counted a cell after it ran; its display hook tells which it is.
        self._counts_first = shell.displayhook.prompt_count == shell.execution_count - 1
        self._tells_text = hasattr(ExecutionInfo, "transformed_cell")
        self._own = [getattr(shell, name) for name in _SETTINGS]
        self._is_usual = False
        self._look()
        shell.observe(self._look, names=list(_SETTINGS))

    def _look(self, change: Any = None) -> None:
        """At the settings, when one has been given another value."""
        shell = self._shell
        self._is_usual = (
            all(getattr(shell, name) is own for name, own in zip(_SETTINGS, self._own, strict=True))
            and shell.ast_node_interactivity == "last_expr"
            and not shell.autocall
        )

    def run(self, raw_cell: str, store_history: bool) -> tuple[ExecutionResult | None, bool]:
        """As ``InteractiveShell.run_cell``; None, and nothing done, where it is not for here. Then
        also whether the compiler has refused it, and so has warned of it already."""
        cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        compile_ = self._way(cell)
        if compile_ is None:
            return None, False
        shell = self._shell
        info = ExecutionInfo(raw_cell, store_history, False, True, None)
        if self._tells_text:
            info.transformed_cell = cell
        try:
            try:
                name = self._compiler.cache(cell, shell.execution_count, raw_code=raw_cell)
                pieces = compile_(cell, name)
            except Exception as error:  # noqa: BLE001 - IPython says what is wrong.
                about_value(error)
                return None, True
            result = self._run(info, cell, pieces, name)
        except BaseException as raised:  # noqa: BLE001 - in IPython's lines, or an error's own.
            result = ExecutionResult(info)
            result.error_in_exec = raised
            with contextlib.suppress(BaseException):
                shell.showtraceback(running_compiled_code=True)
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
        return result, False

    def _way(self, cell: str) -> Callable[[str, str], Iterable[_Piece]] | None:
        """How the cell is compiled; None where it is not for here."""
        if not self._is_usual_now():
            return None
        # IPython does not keep what %paste has run, and it awaits, if need be. By the text alone,
        # which costs less than may_await() and lets through no more.
        if "run_line_magic" in cell or "await" in cell or "async" in cell:
            return None
        if "create_task" in cell or "get_running_loop" in cell:
            return None
        match = _SIMPLE.match(cell)
        if match is not None and self._prefilter.is_no_magic(match[1], is_set=match[2] is not None):
            # It may be __future__, which the compiler remembers.
            return self._statements if match[1] == "from" else self._simple
        if self._transformer.leaves(cell) and self._prefilter.leaves(cell):
            return self._statements
        return None

    def _is_usual_now(self) -> bool:
        """Whether all is as IPython has it that might make something else of a cell."""
        shell, compiler, callbacks = self._shell, self._compiler, self._callbacks
        if not self._is_usual or shell.ast_transformers or shell.input_transformers_post:
            return False
        if not (self._transformer.is_own() and self._prefilter.is_own()) or shell.logger.log_active:
            return False
        # What is called before a cell may change how it is run.
        if callbacks["pre_run_cell"] or callbacks["pre_execute"] != self._own_first:
            return False
        if shell.compile is not compiler or "ast_parse" in vars(compiler):
            return False
        return vars(shell).keys().isdisjoint(_STEPS)

    def _simple(self, cell: str, name: str) -> Iterable[_Piece]:
        """One statement, from its text."""
        return [(compile(cell, name, "single", self._compiler.flags, True), "")]

    def _statements(self, cell: str, name: str) -> Iterable[_Piece]:
        """One by one: the last shows its value where it is an expression."""
        return _pieces(self._compiler.ast_parse(cell, filename=name).body)

    def _run(
        self, info: ExecutionInfo, cell: str, pieces: Iterable[_Piece], name: str
    ) -> ExecutionResult:
        """As ``InteractiveShell.run_cell_async``."""
        shell = self._shell
        result, store_history = ExecutionResult(info), info.store_history
        count = shell.execution_count
        if store_history or self._counts_first:
            result.execution_count = count
        if store_history and self._counts_first:
            shell.execution_count = count + 1
        shell.events.trigger("pre_execute")
        if store_history:
            shell.history_manager.store_inputs(count, cell, info.raw_cell)
        with self._display_trap:
            shell.displayhook.exec_result = result
            raised = self._run_pieces(pieces, name, result)
            shell.displayhook.exec_result = None
        shell.last_execution_succeeded = not raised
        shell.last_execution_result = result
        errors = getattr(shell.history_manager, "exceptions", None)  # Since IPython 9.
        if errors is not None and store_history and result.error_in_exec is not None:
            errors[count] = shell._format_exception_for_storage(result.error_in_exec)
        if store_history and not self._counts_first:
            shell.execution_count = count + 1
        return result

    def _run_pieces(self, pieces: Iterable[_Piece], name: str, result: ExecutionResult) -> bool:
        """As ``InteractiveShell.run_ast_nodes``: whether one raised; the rest is not run then."""
        try:
            for tree, mode in pieces:
                code = self._compiler(tree, name, mode) if mode else tree
                if self._run_code(code, result):
                    return True
        except:  # noqa: E722 - as IPython's: what the compiler refuses, and an interrupt.
            result.error_before_exec = sys.exc_info()[1]
            self._shell.showtraceback()
            return True
        return False

    def _run_code(self, code: CodeType, result: ExecutionResult) -> bool:
        """IPython's own, so that errors are shown as ever; it awaits nothing of a plain cell's."""
        try:
            self._shell.run_code(code, result).send(None)
        except StopIteration as end:
            return bool(end.value)
        raise RuntimeError("a cell that awaits is IPython's")


def _pieces(nodes: list[ast.stmt]) -> Iterator[_Piece]:
    last = nodes[-1] if nodes else None
    for node in nodes:
        if node is last and isinstance(node, ast.Expr):
            yield ast.Interactive([node]), "single"
        else:
            yield ast.Module([node], []), "exec"
