"""Magics that cannot be done where they stand, and names that are no magic: a sentence for each.

The front end does its own magics in the first lines of a cell. Behind the first line of code they
are IPython's to run, which knows nothing of them; a sentence says where they belong.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

_LINE = ("sk", "info", "hostname", "welcome", "shutdown", "reconnect")
_CELL = ("on", "rank", "px")
_VERBS = ("status", "stack", "revive", "preload", "seed", "tag", "log", "show", "time", "help")
"""Of ``%sk``."""


def register(shell: InteractiveShell) -> None:
    """Makes them known to the shell, which also completes their names then."""
    for name in _LINE:
        shell.register_magic_function(_refuse("%" + name), "line", name)
    for name in _CELL:
        shell.register_magic_function(_refuse("%%" + name), "cell", name)
    for name in ("edit", "ed"):
        shell.register_magic_function(_refuse_to_edit, "line", name)


def require(shell: InteractiveShell, typed: str) -> None:
    """Raises unless the shell has the magic ``%name`` or ``%%name``."""
    name = typed.lstrip("%")
    is_cell = typed.startswith("%%")
    shell._find_with_lazy_load("cell" if is_cell else "line", name)


def no_line_magic(shell: InteractiveShell, name: str) -> UsageError:
    """Why there is no ``%name`` here, and which one may be meant."""
    if name.startswith("%"):  # `%%name` behind code, where IPython reads one line.
        if shell.find_cell_magic(name[1:]) is None:
            return no_cell_magic(shell, name[1:])
        where = "lines of a cell, before any code" if name[1:] in _CELL else "line of a cell"
        return UsageError(f"%{name} is for the first {where}")
    if shell.find_cell_magic(name) is not None:
        return UsageError(f"there is no magic %{name}; did you mean %%{name}?")
    return _no_magic("%" + name, {**_known(shell, "line"), **{v: "%sk " + v for v in _VERBS}})


def no_cell_magic(shell: InteractiveShell, name: str) -> UsageError:
    """The same for ``%%name``."""
    if shell.find_line_magic(name) is not None:
        return UsageError(f"there is no magic %%{name}; did you mean %{name}?")
    return _no_magic("%%" + name, _known(shell, "cell"))


def _known(shell: InteractiveShell, kind: str) -> dict[str, str]:
    """The typed form of each name."""
    sign = {"line": "%", "cell": "%%"}[kind]
    return {name: sign + name for name in shell.magics_manager.magics[kind]}


def _no_magic(typed: str, known: dict[str, str]) -> UsageError:
    near = difflib.get_close_matches(typed.lstrip("%"), known, n=1, cutoff=0.75)
    hint = f"did you mean {known[near[0]]}?" if near else "%sk and %lsmagic list them all"
    return UsageError(f"there is no magic {typed}; {hint}")


def _refuse_to_edit(line: str) -> None:
    """Opens an editor in a terminal; a notebook's cells are its editor."""
    raise UsageError("%edit opens an editor in a terminal, which ranks do not have; edit in a cell")


def _refuse(name: str) -> Callable[..., None]:
    def refuse(line: str, cell: str = "") -> None:
        raise UsageError(f"{name} is for the first lines of a cell, before any code")

    refuse.__doc__ = f"{name} stands in the first lines of a cell; see `%sk help {name}` there."
    return refuse
