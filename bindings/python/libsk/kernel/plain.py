"""Cells without IPython's own syntax, found at a glance.

IPython takes each cell apart into tokens to look for magics, help and shell escapes, and compiles
it once to see whether it awaits. On a hundred ranks that is a hundred times: a third of a short
cell. Every such syntax needs one of a few characters, so a cell that has none is left as it is.
"""

from __future__ import annotations

import re
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

_SPECIAL = re.compile(
    r"[%!?]"  # Magics, shell, help.
    r"|[\f\v\r\x1c-\x1e\x85\u2028\u2029]"  # Ends of lines for str.splitlines() alone.
    r"|\A\s|^[ \t]+$"  # A first line that is indented or empty; lines of blanks.
    r"|^\s*(?:>>>|\.\.\.|In |[,;/])",  # Pasted prompts; line starts that call a function.
    re.MULTILINE,
)
_AWAITS = re.compile(r"\b(?:await|async)\b")


class PlainTransformer(TransformerManager):
    """IPython's static transformations, skipped where they would change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._own = self._steps()

    def _steps(self) -> list[Any]:
        return [*self.cleanup_transforms, *self.line_transforms, *self.token_transformers]

    def transform_cell(self, cell: str) -> str:
        """As IPython's; what an extension or a user has added is always run."""
        if _SPECIAL.search(cell) or not cell or self._steps() != self._own:
            return super().transform_cell(cell)
        return cell if cell.endswith("\n") else cell + "\n"


def may_await(code: str) -> bool:
    """Whether a cell may need an event loop: it cannot without one of two words."""
    return _AWAITS.search(code) is not None
