"""The names of the namespace as libsk keeps them, to complete and inspect while a cell runs.

The rank's I/O thread answers from them without Python, whose lock a cell may hold for minutes. Only
what changed since the last look is handed over, so that a look after each cell costs microseconds.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import types
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk._errors import OutOfRangeError

if TYPE_CHECKING:
    from libsk.kernel.shell import RankShell

_NAMES_MAX = 2000
_MEMBERS_MAX = 1000
_HELP_MAX = 2000
_GROWING = (types.ModuleType, type)
"""What may get another attribute and stay the same object."""


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
        space, told = self._shell.user_ns, self._told
        count = 0
        for name, value in list(space.items()):
            if name[:1] == "_":
                continue
            count += 1
            if count > _NAMES_MAX:
                break
            mark: tuple[int, type, int] = (id(value), type(value), 0)
            if isinstance(value, _GROWING):
                mark = (id(value), type(value), len(vars(value)))
            if told.get(name) != mark:
                told[name] = mark
                self._set(name, _entries_of(name, value))
        if len(told) != count:
            for name in [name for name in told if name not in space]:
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


def _entries_of(name: str, value: Any) -> list[tuple[str, str]]:
    try:
        return _entries(name, value)
    except Exception:  # noqa: BLE001 - a user's class may do anything when it is looked at.
        return [(name, "")]


def _entries(name: str, value: Any) -> list[tuple[str, str]]:
    """The name, then its members: by their dictionaries, for looking one up may run code."""
    entries = [(name, _help(value))]
    members: dict[str, Any] = {}
    for table in reversed(_tables(value)):
        members.update(table)
    for member, each in list(members.items())[:_MEMBERS_MAX]:
        if isinstance(member, str) and not member.startswith("__"):
            entries.append((f"{name}.{member}", _short_help(each)))
    return entries


def _tables(value: Any) -> list[Any]:
    """The dictionaries in which an attribute is looked up, nearest first."""
    if isinstance(value, types.ModuleType):
        return [value.__dict__]
    own = getattr(value, "__dict__", {}) if type(value).__getattribute__ is _PLAIN else {}
    classes = value.__mro__ if isinstance(value, type) else type(value).__mro__
    tables = [vars(each) for each in classes if each is not object]
    return [own, *tables] if isinstance(own, dict) else tables


_PLAIN = object.__getattribute__


def _documented(value: Any) -> bool:
    return isinstance(
        value,
        type
        | types.FunctionType
        | types.BuiltinFunctionType
        | types.MethodType
        | types.MethodDescriptorType
        | types.ModuleType,
    )


def _short_help(value: Any) -> str:
    """Of a member: what is there without computing anything."""
    if not _documented(value):
        return ""
    text = value.__doc__
    return text[:300] if isinstance(text, str) else ""


def _help(value: Any) -> str:
    """The signature, the type and the documentation."""
    lines = []
    if isinstance(value, types.FunctionType):
        try:
            lines.append(f"Signature: {value.__name__}{inspect.signature(value)}")
        except (ValueError, TypeError):
            lines.append(f"Signature: {value.__name__}(...)")
    elif isinstance(value, types.BuiltinFunctionType):
        lines.append(f"Signature: {value.__name__}{value.__text_signature__ or '(...)'}")
    lines.append(f"Type: {type(value).__name__}")
    if isinstance(value, bool | int | float | complex | type(None)):
        lines.append(f"Value: {value!r:.100}")
    elif isinstance(value, str | bytes):
        lines.append(f"Length: {len(value)}")
    if _documented(value) and isinstance(value.__doc__, str):
        lines.append(f"Docstring:\n{value.__doc__}")
    return "\n".join(lines)[:_HELP_MAX]
