"""The headers: each compiles alone as C and C++, and nothing in them moves."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from headers import HEADERS, INCLUDE, ROOT, layout_lines, read_abi

LANGUAGES = {
    "C11": ["cc", "-x", "c", "-std=c11"],
    "C++17": ["c++", "-x", "c++", "-std=c++17"],
    "C++20": ["c++", "-x", "c++", "-std=c++20"],
}
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_header_compiles_alone(header: Path, language: str) -> None:
    name = header.relative_to(INCLUDE)
    command = [*LANGUAGES[language], *STRICT, "-I", str(INCLUDE), "-"]
    # Twice: the include guard must hold.
    text = f"#include <{name}>\n#include <{name}>\nint sk_test_unit;\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_nothing_moved(tmp_path: Path, golden: Callable[[str, list[str]], None]) -> None:
    abi = read_abi()
    assert len(abi.structs) >= 10
    assert len(abi.enumerators) >= 50
    golden("layout.txt", layout_lines(abi, tmp_path))


def test_every_config_struct_starts_with_its_size(tmp_path: Path) -> None:
    # Elements of arrays: their size is the stride.
    borrowed = {"sk_mime", "sk_name", "sk_rank_error", "sk_rank_time", "sk_tile_view"}
    for name, fields in read_abi().structs.items():
        if name not in borrowed:
            assert fields[0] == "struct_size", name


def test_the_map_names_what_the_headers_declare() -> None:
    text = (ROOT / "lib" / "api" / "libsk.map").read_text()
    exported = re.findall(r"^ +(sk_\w+);", text, re.MULTILINE)
    assert sorted(exported) == sorted(read_abi().functions)


def test_the_version_is_the_project_s() -> None:
    base = (INCLUDE / "sk" / "base.h").read_text()
    parts = [re.search(rf"SK_VERSION_{part} (\d+)", base) for part in ("MAJOR", "MINOR", "PATCH")]
    cmake = re.search(r"project\(sk VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert cmake is not None
    assert cmake[1] == ".".join(part[1] for part in parts if part)
