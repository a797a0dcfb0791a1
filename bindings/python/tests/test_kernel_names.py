"""What the book of names hands over after each cell: what changed, and nothing else."""

from __future__ import annotations

import types
from typing import Any

import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk.kernel.names import _NAMES_MAX, NameBook


class Recorder:
    """In the place of the worker: what it was told, and what it knows by that."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.known: dict[str, list[str]] = {}

    def snapshot(self, root: str, entries: list[tuple[str, str]]) -> None:
        self.told.append(root)
        self.known[root] = [name for name, _ in entries]
        if not entries:
            del self.known[root]


class Shell:
    """Only what the book looks at."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics_manager = types.SimpleNamespace(magics={"line": {}, "cell": {}})


@pytest.fixture
def book() -> tuple[NameBook, Shell, Recorder]:
    shell, recorder = Shell(), Recorder()
    return NameBook(recorder, shell), shell, recorder  # type: ignore[arg-type]


def test_only_changes_are_told(book: tuple[NameBook, Shell, Recorder]) -> None:
    names, shell, recorder = book
    shell.user_ns.update(a=1, b=[2], _c=3)
    names.tell()
    assert recorder.known.keys() == {"", "a", "b"}
    recorder.told.clear()
    names.tell()
    assert recorder.told == []
    shell.user_ns.update(b="another")
    names.tell()
    assert recorder.told == ["b"]


def test_a_name_that_takes_anothers_place_is_told(
    book: tuple[NameBook, Shell, Recorder],
) -> None:
    names, shell, recorder = book
    shell.user_ns.update(a=1, b=2)
    names.tell()
    del shell.user_ns["a"]
    shell.user_ns["c"] = 3
    names.tell()
    assert recorder.known.keys() == {"", "b", "c"}


def test_a_module_that_grows_is_told(book: tuple[NameBook, Shell, Recorder]) -> None:
    names, shell, recorder = book
    module = types.ModuleType("m")
    shell.user_ns["m"] = module
    names.tell()
    module.grown = 1  # type: ignore[attr-defined]
    names.tell()
    assert "m.grown" in recorder.known["m"]


def test_hidden_names_take_no_place(book: tuple[NameBook, Shell, Recorder]) -> None:
    names, shell, recorder = book
    shell.user_ns.update({f"_i{number}": "" for number in range(_NAMES_MAX)})
    shell.user_ns["late"] = 1
    names.tell()
    assert "late" in recorder.known
