"""The names of the namespace as libsk keeps them, to complete and inspect while a cell runs.

The rank's I/O thread answers from them without Python, whose lock a cell may hold for minutes. Only
what changed since the last look is handed over, so that a look after each cell costs microseconds.
"""

from __future__ import annotations

import builtins
import keyword
import types
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk._errors import OutOfRangeError
from libsk.kernel import still

if TYPE_CHECKING:
    from libsk.kernel.shell import RankShell

_NAMES_MAX = 2000
_MEMBERS_MAX = 1000
_HELP_MAX = 2000
_DOC_MAX = 300
"""Of a member."""


class NameBook:
    """What libsk was told of the namespace."""

    def __init__(self, worker: _core.Worker, shell: RankShell) -> None:
        self._worker = worker
        self._shell = shell
        self._told: dict[str, tuple[int, type, int]] = {}
        self._has_language = False

    def tell(self) -> None:
        """Hands over what changed; called between cells."""
        if not self._has_language:
            self._has_language = True
            self._set("", _language_names(self._shell))
        told = self._told
        count = 0
        entries = list(dict.items(self._shell.user_ns))
        for name, value in entries:
            if type(name) is not str or name[:1] == "_":
                continue
            count += 1
            if count > _NAMES_MAX:
                break
            # Compared one by one: two types may be compared by code of their own. Most names are
            # no classes and have not changed: nothing is called for them.
            known = told.get(name)
            if (
                known is not None
                and known[0] == id(value)
                and known[1] is type(value)
                and (known[2] < 0 or known[2] == still.size(value))
            ):
                continue
            told[name] = (id(value), type(value), still.size(value))
            self._set(name, _entries(name, value))
        if len(told) != count:
            present = {name for name, _ in entries if type(name) is str}
            for name in told.keys() - present:
                del told[name]
                self._set(name, [])

    def _set(self, root: str, entries: list[tuple[str, str]]) -> None:
        try:
            self._worker.snapshot(root, entries)
        except OutOfRangeError:  # There is no more room; without its members it may still fit.
            try:
                self._worker.snapshot(root, entries[:1])
            except OutOfRangeError:
                return


def _language_names(shell: RankShell) -> list[tuple[str, str]]:
    entries = [(name, _help(vars(builtins)[name])) for name in vars(builtins)]
    entries += [(name, "") for name in keyword.kwlist]
    for kind, prefix in (("line", "%"), ("cell", "%%")):
        entries += [(prefix + name, "") for name in shell.magics_manager.magics[kind]]
    return entries


def _entries(name: str, value: Any) -> list[tuple[str, str]]:
    """The name, then its members: by their dictionaries, for looking one up may run code."""
    entries = [(name, _help(value))]
    members: dict[str, Any] = {}
    for table in _tables(value):
        members.update(still.names_in(table))
    for member, each in list(members.items())[:_MEMBERS_MAX]:
        if not member.startswith("__"):
            entries.append((f"{name}.{member}", still.doc_of(each)[:_DOC_MAX]))
    return entries


def _tables(value: Any) -> list[still.Table]:
    """What an attribute is looked up in, nearest last."""
    own = still.own_table(value)
    if still.is_a(value, types.ModuleType):
        return [own]
    classes = still.mro(value if still.is_a(value, type) else type(value))
    tables = [still.table_of_class(each) for each in reversed(classes) if each is not object]
    return [*tables, own]


def _help(value: Any) -> str:
    """The signature, the type and the documentation."""
    lines = []
    kind = type(value)
    if kind is types.FunctionType:
        lines.append(f"Signature: {still.exact(value.__name__)}{still.signature_of(value)}")
    elif kind is types.BuiltinFunctionType:
        lines.append(f"Signature: {value.__name__}{value.__text_signature__ or '(...)'}")
    lines.append(f"Type: {still.type_name(value)}")
    if kind is str or kind is bytes:
        lines.append(f"Length: {len(value)}")
    elif text := still.brief(value):
        lines.append(f"Value: {text}")
    if text := still.doc_of(value):
        lines.append(f"Docstring:\n{text}")
    return "\n".join(lines)[:_HELP_MAX]
