"""docs/reference/errors.md: every code, with its number, its name, and its exception in Python."""

from __future__ import annotations

import re
from pathlib import Path

import libsk
from libsk import _errors

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()
HEADER = (ROOT / "include" / "sk" / "base.h").read_text()
ROW = re.compile(r"^\| (\d+) \| `(SK_ERR_\w+)` \| `(\w+)`", re.MULTILINE)


def test_it_has_every_code() -> None:
    codes = {int(code): name for name, code in re.findall(r"\b(SK_ERR_\w+) = (\d+)", HEADER)}
    assert len(codes) > 15
    assert {int(code): name for code, name, _ in ROW.findall(PAGE)} == codes


def test_exceptions_are_those_that_are_raised() -> None:
    for code, name, exception in ROW.findall(PAGE):
        raised = _errors.from_status(int(code), name, "a sentence")
        assert type(raised) is getattr(libsk, exception), name


def test_kin_of_pythons_own_are_named() -> None:
    kin = (ValueError, TimeoutError, MemoryError, ConnectionError)
    for _, _, exception in ROW.findall(PAGE):
        row = next(line for line in PAGE.splitlines() if f"| `{exception}`" in line)
        for each in kin:
            is_kin = issubclass(getattr(libsk, exception), each)
            assert is_kin == (f"{each.__name__}` |" in row.replace(f"| `{exception}` |", "")), row


def test_the_notebooks_own_names_are_told() -> None:
    said = re.compile(
        r'(?:error_content|fail_cell)\(\s*"(\w+)"|\bename = "(\w+)"|\breturn "(\w+Error)"'
    )
    sources = [
        *(ROOT / "tools" / "sk_kernel").glob("*.cpp"),
        *(ROOT / "lib").glob("control/**/*.cpp"),
    ]
    names = {"".join(found) for source in sources for found in said.findall(source.read_text())}
    assert {"UsageError", "MultiRankError", "SessionOver"} <= names
    chapter = PAGE[PAGE.index("## In a notebook") :]
    assert not {name for name in names if f"`{name}`" not in chapter}
