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

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_SPECIAL = re.compile(
    r"[%!?]"  # Magics, shell, help.
    r"|[\f\v\r\x1c-\x1e\x85\u2028\u2029]"  # Ends of lines for str.splitlines() alone.
    r"|\A\s|^[ \t]+$"  # A first line that is indented or empty; lines of blanks.
    r"|^\s*(?:>>>|\.\.\.|In |[,;/])",  # Pasted prompts; line starts that call a function.
    re.MULTILINE,
)
_NAME = re.compile(r"[^\W\d]\w*")
_AWAITS = re.compile(r"\b(?:await|async)\b")


class PlainTransformer(TransformerManager):
    """IPython's static transformations, skipped where they would change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._own = self._steps()

    def _steps(self) -> list[Any]:
        return [*self.cleanup_transforms, *self.line_transforms, *self.token_transformers]

    def leaves(self, cell: str) -> bool:
        """Whether the cell stays as it is; what an extension or a user has added is always run."""
        return bool(cell) and not _SPECIAL.search(cell) and self._steps() == self._own

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
        self._own = self._steps()

    def _steps(self) -> list[Any]:
        manager = self._shell.prefilter_manager
        return [*manager.transformers, *manager.checkers, *manager.handlers.values()]

    def leaves(self, cell: str) -> bool:
        """Whether the cell stays as it is. It has no character of IPython's own."""
        shell = self._shell
        if shell.input_transformers_post or shell.autocall or self._steps() != self._own:
            return False
        if "\n" in cell.rstrip("\n"):
            return True  # These are for single lines.
        first = _NAME.match(cell)
        if first is None:
            return False
        name = first[0]
        if name in shell.user_ns:
            return not isinstance(shell.user_ns[name], Macro | IPyAutocall)
        return name in vars(builtins) or keyword.iskeyword(name)


def may_await(code: str) -> bool:
    """Whether a cell may need an event loop: it cannot without one of two words."""
    return _AWAITS.search(code) is not None
