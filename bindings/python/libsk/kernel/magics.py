"""The front end's magics where it does not look for them: behind the first line of code.

There they are IPython's to run, which knows nothing of them; a sentence says where they belong.
"""

from __future__ import annotations

from collections.abc import Callable

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

_LINE = ("sk", "info", "hostname", "welcome", "shutdown", "reconnect")
_CELL = ("on", "rank", "px")


def register(shell: InteractiveShell) -> None:
    """Makes them known to the shell, which also completes their names then."""
    for name in _LINE:
        shell.register_magic_function(_refuse("%" + name), "line", name)
    for name in _CELL:
        shell.register_magic_function(_refuse("%%" + name), "cell", name)


def _refuse(name: str) -> Callable[..., None]:
    def refuse(line: str, cell: str = "") -> None:
        raise UsageError(f"{name} is for the first lines of a cell, before any code")

    refuse.__doc__ = f"{name} stands in the first lines of a cell; see `%sk help {name}` there."
    return refuse
