"""What can be told of an object while it holds still: without running any code of its class.

Between cells nothing of the user's runs. ``isinstance()`` asks an object for its ``__class__``,
``vars()`` for its ``__dict__``, a type's ``__name__`` may be its metaclass's property; each of them
may raise, warn, or sleep. What is here looks where the interpreter itself keeps these things.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

_name_of = type.__dict__["__name__"].__get__
_dict_of_type = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_dict_of_module = types.ModuleType.__dict__["__dict__"].__get__

Table = list[tuple[Any, Any]]
"""What a dictionary holds, as it was when it was looked at."""


def exact(text: str) -> str:
    """The same text as a plain ``str``: a class derived from it may format itself otherwise."""
    return text if type(text) is str else str.__str__(text)


def type_name(value: object) -> str:
    """``type(value).__name__``."""
    return exact(_name_of(type(value)))


def is_a(value: object, *kinds: type) -> bool:
    """``isinstance(value, kinds)`` by the object's type alone, for kinds that are plain classes."""
    return issubclass(type(value), kinds)


def mro(cls: type) -> tuple[type, ...]:
    """``cls.__mro__``."""
    return _mro_of(cls)  # type: ignore[no-any-return]


def table_of_class(cls: type) -> Table:
    """What the class itself defines."""
    return list(_dict_of_type(cls).items())


def own_table(value: object) -> Table:
    """The object's own attributes; none where its class keeps them in a way of its own."""
    if is_a(value, types.ModuleType):
        return _items(_dict_of_module(value))
    if is_a(value, type):
        return []
    for cls in mro(type(value)):
        getter = _dict_of_type(cls).get("__dict__")
        if getter is None:
            continue
        # The interpreter's, and not a property that somebody has put in its place.
        if type(getter) is types.GetSetDescriptorType:
            return _items(getter.__get__(value))
        return []
    return []


def size(value: object) -> int:
    """How many attributes a class or a module has of its own; -1 for what is neither."""
    if is_a(value, type):
        return len(_dict_of_type(value))
    if is_a(value, types.ModuleType):
        own = _dict_of_module(value)
        return dict.__len__(own) if is_a(own, dict) else 0
    return -1


def names_in(table: Iterable[tuple[Any, Any]]) -> Table:
    """The entries whose name is a plain ``str``: others may compare as they like."""
    return [(name, value) for name, value in table if type(name) is str]


def doc_of(value: object) -> str:
    """``value.__doc__`` where it is a text that nobody computes."""
    if type(value) is types.MethodType:
        value = value.__func__
    text: object = None
    if _is_one_of(type(value), _DOCUMENTED):
        text = value.__doc__
    elif is_a(value, type):
        text = _dict_of_type(value).get("__doc__")
    elif is_a(value, types.ModuleType):
        own = _dict_of_module(value)
        text = dict.get(own, "__doc__") if is_a(own, dict) else None
    return exact(text) if is_a(text, str) else ""  # type: ignore[arg-type]


_DOCUMENTED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
"""Whose ``__doc__`` is the interpreter's, and of which there are no subclasses."""


def brief(value: object) -> str:
    """The value of a plain number, a short text, a truth; "" for anything else."""
    kind = type(value)
    if kind is int and value.bit_length() > _BITS_SHOWN:  # type: ignore[attr-defined]
        return ""
    if (kind is str or kind is bytes) and len(value) > _LENGTH_SHOWN:  # type: ignore[arg-type]
        return ""
    return repr(value) if _is_one_of(kind, _PLAIN) else ""


_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_BITS_SHOWN, _LENGTH_SHOWN = 256, 60


def signature_of(function: types.FunctionType) -> str:
    """Its parameters, and their defaults where these are plain; ``inspect.signature()`` would ask
    every default for its ``__repr__``."""
    code = function.__code__
    defaults = function.__defaults__
    values = list(tuple.__iter__(defaults)) if defaults is not None else []
    keywords = function.__kwdefaults__
    by_name = dict(names_in(_items(keywords)))
    names = [exact(name) for name in code.co_varnames]
    first_default = code.co_argcount - len(values)
    shown: list[str] = []
    for at, name in enumerate(names[: code.co_argcount]):
        default = f"={brief(values[at - first_default]) or '...'}" if at >= first_default else ""
        shown.append(name + default)
        if at + 1 == code.co_posonlyargcount:
            shown.append("/")
    at = code.co_argcount
    only_by_name = names[at : at + code.co_kwonlyargcount]
    at += code.co_kwonlyargcount
    if code.co_flags & _VARARGS:
        shown.append("*" + names[at])
        at += 1
    elif only_by_name:
        shown.append("*")
    for name in only_by_name:
        shown.append(name + (f"={brief(by_name[name]) or '...'}" if name in by_name else ""))
    if code.co_flags & _VARKEYWORDS:
        shown.append("**" + names[at])
    return f"({', '.join(shown)})"


_VARARGS, _VARKEYWORDS = 4, 8
"""``inspect.CO_VARARGS``, ``CO_VARKEYWORDS``."""


def _is_one_of(kind: type, kinds: tuple[type, ...]) -> bool:
    # Neither by hash nor by ==, which a metaclass may define.
    return any(kind is each for each in kinds)


def _items(table: object) -> Table:
    # Of a dict's subclass too what it holds, and not what it says that it holds.
    return list(dict.items(table)) if is_a(table, dict) else []  # type: ignore[arg-type]
