"""A plain cell, run without what IPython does around each.

For every cell IPython makes a coroutine, syntax trees as Python objects, and reads some thirty
attributes that check themselves. One process does not feel it; a hundred ranks on a few cores do,
each with its own cold copy of every object that a cell touches. Here the same happens, in the same
order, by the same hooks, with as few objects as can be. What is not plain is left to IPython.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

from libsk.kernel.plain import PlainPrefilter, PlainTransformer, may_await

try:  # The same digest without OpenSSL, whose lookups cost more than a digest this short.
    from _sha1 import sha1
except ImportError:
    from hashlib import sha1

if TYPE_CHECKING:
    from collections.abc import Iterator

    from libsk.kernel.shell import RankShell

# One simple statement on one line, that begins with a name: nothing of IPython's (see plain.py), no
# second statement, no block, and no escape, of which a compiler that fails would warn twice.
_SIMPLE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)( *[=,])?[^%!?;:\\\n\r\f\v\x1c-\x1e\x85\u2028\u2029]*\n\Z"
)

_Piece = tuple[Any, str]
"""What the compiler takes, and its mode: "single" shows the value of an expression."""


_SETTINGS = (
    "ast_node_interactivity",
    "ast_transformers",
    "autocall",
    "input_transformer_manager",
    "input_transformers_post",
    "prefilter_manager",
)
"""Attributes of the shell that decide what a cell becomes."""


class PlainRunner:
    """Runs the cells of one shell that need nothing of IPython's."""

    def __init__(
        self, shell: RankShell, transformer: PlainTransformer, prefilter: PlainPrefilter
    ) -> None:
        self._shell = shell
        self._transformer = transformer
        self._prefilter = prefilter
        self._display_trap = shell.display_trap
        self._own = [getattr(shell, name) for name in _SETTINGS]
        self._added: list[Any] = []
        self._is_usual = False
        self._look()
        shell.observe(self._look, names=list(_SETTINGS))

    def _look(self, change: Any = None) -> None:
        """At the settings, when one is given another value; lists may be added to in place."""
        shell = self._shell
        self._is_usual = (
            all(getattr(shell, name) is own for name, own in zip(_SETTINGS, self._own, strict=True))
            and shell.ast_node_interactivity == "last_expr"
            and not shell.autocall
        )
        self._added = [shell.ast_transformers, shell.input_transformers_post]

    def run(self, raw_cell: str, store_history: bool) -> ExecutionResult | None:
        """As ``InteractiveShell.run_cell``; None, and nothing done, where it is not for here."""
        shell = self._shell
        if not self._is_usual or self._added != [[], []] or shell.logger.log_active:
            return None
        if not (self._transformer.is_own() and self._prefilter.is_own()):
            return None
        if "run_line_magic" in raw_cell:  # IPython does not keep what %paste has run.
            return None
        cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        digest = sha1(cell.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()
        name = f"<ipython-input-{shell.execution_count}-{digest[:12]}>"
        pieces = self._simple(cell, name) or self._statements(cell, name)
        if pieces is None:
            return None
        result = None
        try:
            result = self._run(raw_cell, cell, name, pieces, store_history)
        finally:
            shell.events.trigger("post_execute")
            shell.events.trigger("post_run_cell", result)
        return result

    def _simple(self, cell: str, name: str) -> list[_Piece] | None:
        """The one simple statement that the cell is, compiled from its text."""
        match = _SIMPLE.match(cell)
        if match is None or not self._prefilter.is_no_magic(match[1], is_set=match[2] is not None):
            return None
        try:
            compiler = self._shell.compile
            if match[1] == "from":  # It may be __future__, which the compiler remembers.
                return [(compiler(cell, name, "single"), "")]
            return [(compile(cell, name, "single", compiler.flags, True), "")]
        except Exception:  # noqa: BLE001 - IPython says what is wrong, or awaits.
            return None

    def _statements(self, cell: str, name: str) -> Iterator[_Piece] | None:
        """The cell's statements one by one: the last shows its value where it is an expression."""
        if not (self._transformer.leaves(cell) and self._prefilter.leaves(cell)):
            return None
        if may_await(cell):
            return None
        try:
            nodes = self._shell.compile.ast_parse(cell, filename=name).body
        except Exception:  # noqa: BLE001 - IPython says what is wrong.
            return None
        return _pieces(nodes)

    def _run(
        self,
        raw_cell: str,
        cell: str,
        name: str,
        pieces: Any,
        store_history: bool,
    ) -> ExecutionResult:
        """As ``InteractiveShell.run_cell_async``."""
        shell = self._shell
        count = shell.execution_count
        info = ExecutionInfo(raw_cell, store_history, False, True, None)
        info.transformed_cell = cell
        result = ExecutionResult(info)
        result.execution_count = count
        # As CachingCompiler.cache(): tracebacks find the cell under its name.
        shell.compile._filename_map[name] = count
        lines = [line + "\n" for line in cell.splitlines()]
        linecache.cache[name] = (len(cell), None, lines, name)
        if store_history:
            shell.execution_count = count + 1
        shell.events.trigger("pre_execute")
        shell.events.trigger("pre_run_cell", info)
        if store_history:
            shell.history_manager.store_inputs(count, cell, raw_cell)
        with self._display_trap:
            shell.displayhook.exec_result = result
            raised = self._run_pieces(pieces, name, result)
            shell.displayhook.exec_result = None
        shell.last_execution_succeeded = not raised
        shell.last_execution_result = result
        if store_history and result.error_in_exec:
            errors = getattr(shell.history_manager, "exceptions", {})  # Since IPython 9.
            errors[count] = shell._format_exception_for_storage(result.error_in_exec)
        return result

    def _run_pieces(self, pieces: Any, name: str, result: ExecutionResult) -> bool:
        """As ``InteractiveShell.run_ast_nodes``: whether one raised; the rest is not run then."""
        shell = self._shell
        try:
            for tree, mode in pieces:
                code = shell.compile(tree, name, mode) if mode else tree
                if self._run_code(code, result):
                    return True
        except:  # noqa: E722 - as IPython's: what the compiler refuses, and an interrupt.
            result.error_before_exec = sys.exc_info()[1]
            shell.showtraceback()
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
