"""What a session's ranks are started with: a program, variables, a place."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from libsk._checks import shown, text_of
from libsk._errors import invalid


def words_of(command: Sequence[str]) -> list[str]:
    """A program and its arguments."""
    if isinstance(command, str | bytes) or not isinstance(command, Sequence):
        raise invalid(f"command is {shown(command)}; give a program and its arguments, as a list")
    return [text_of(word, f"command[{i}]") for i, word in enumerate(command)]


def lines_of(env: Mapping[str, str]) -> list[str]:
    """Variables as C has them."""
    if not isinstance(env, Mapping):
        raise invalid(f"env is {shown(env)}; give a dict of names and texts")
    lines = []
    for name, value in env.items():
        if "=" in text_of(name, "a name in env"):
            raise invalid(f"env has {shown(name)}; a name has no =")
        lines.append(f"{name}={text_of(value, f'env[{name!r}]')}")
    return lines


def path_of(path: str | os.PathLike[str] | None, what: str) -> str | None:
    """A path as C has it."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise invalid(f"{what} is {shown(path)}; give a path")
    return text_of(os.fspath(path), what, "a path")
