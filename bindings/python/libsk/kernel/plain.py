"""Cells without IPython's own syntax, found at a glance.

IPython takes each cell apart into tokens to look for magics, help and shell escapes, and compiles
it once to see whether it awaits. On a hundred ranks that is a hundred times: a third of a short
cell. Every such syntax needs one of a few characters, so a cell that has none is left as it is.
"""

from __future__ import annotations

import builtins
import keyword
import re
from typing import TYPE_CHECKING, Any

from IPython.core.autocall import IPyAutocall
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.macro import Macro

from libsk.kernel import still

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_SPECIAL = re.compile(
    r"[%!?]"  # Magics, shell, help.
    r"|[\f\v\r\x1c-\x1e\x85\u2028\u2029]"  # Ends of lines for str.splitlines() alone.
    r"|\A\s|^[ \t]+$"  # A first line that is indented or empty; lines of blanks.
    r"|^\s*(?:>>>|\.\.\.|In |[,;/])",  # Pasted prompts; line starts that call a function.
    re.MULTILINE,
)
_NAME = re.compile(r"([^\W\d]\w*)( *[=,])?")
_BUILTINS = vars(builtins)
_AWAITS = re.compile(r"\b(?:await|async)\b")


class PlainTransformer(TransformerManager):
    """IPython's static transformations, skipped where they would change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._own = [list(steps) for steps in self._steps()]

    def _steps(self) -> list[Any]:
        return [self.cleanup_transforms, self.line_transforms, self.token_transformers]

    def is_own(self) -> bool:
        """Whether no extension or user has added or removed a step."""
        return self._steps() == self._own

    def leaves(self, cell: str) -> bool:
        """Whether the cell stays as it is; what an extension or a user has added is always run."""
        return bool(cell) and not _SPECIAL.search(cell) and self.is_own()

    def transform_cell(self, cell: str) -> str:
        """As IPython's."""
        if not self.leaves(cell):
            return super().transform_cell(cell)
        return cell if cell.endswith("\n") else cell + "\n"


class PlainPrefilter:
    """IPython's dynamic transformations, of cells of one line: magics without their sign, macros,
    functions called without parentheses. A line that begins with a name which is something else, or
    with a word of the language, is none of these."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        manager = shell.prefilter_manager
        self._manager = manager
        self._steps = [manager.transformers, manager.checkers]  # Lists that grow in place.
        self._own = [list(steps) for steps in self._steps]
        self._handlers = manager.handlers
        self._normal = self._handlers["normal"]

    def is_own(self) -> bool:
        """Whether no extension or user has added or removed a step. Handlers are called for what a
        checker has found, and where none has, the normal one."""
        return self._steps == self._own and self._handlers["normal"] is self._normal

    def is_no_magic(self, name: str, *, is_set: bool) -> bool:
        """Whether a line that begins with it calls no magic, macro or function by that. To set a
        name, new or not, never does."""
        space = self._shell.user_ns
        if name in space:
            return not still.is_a(space[name], Macro, IPyAutocall)
        return is_set or name in _BUILTINS or keyword.iskeyword(name)

    def leaves(self, cell: str) -> bool:
        """Whether the cell stays as it is. It has no character of IPython's own."""
        shell = self._shell
        if shell.input_transformers_post or shell.autocall or not self.is_own():
            return False
        if shell.prefilter_manager is not self._manager:
            return False
        if "\n" in cell.rstrip("\n"):
            return True  # These are for single lines.
        first = _NAME.match(cell)
        return first is not None and self.is_no_magic(first[1], is_set=first[2] is not None)


def may_await(code: str) -> bool:
    """Whether a cell may need an event loop: it cannot without one of two words."""
    return _AWAITS.search(code) is not None
