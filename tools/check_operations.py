"""Checks that an operation's name stands in its own files and in the lists of operations alone.

usage: check_operations.py [ROOT]   (prints one line per violation; exit status 1 when there is any)

An operation is one record: its schema, its planner, its tiles and what they run with. Whatever else
knows it by name has a case for it, and would have one for the next. Names are those of the schemas
in lib/op/ops/: `kRmsnorm`, `OpKind::kRmsnorm`, "rmsnorm". In Python they are texts.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

SCHEMA = re.compile(r"inline constexpr Schema (k\w+) =")
NAME = re.compile(r'\.name = "(\w+)"')
SOURCES = {".cpp", ".h", ".cu", ".cuh", ".py"}
TOPS = ("lib", "cuda", "transport", "bindings/python/libsk", "bindings/python/src")

OWN = (
    "lib/op/ops/",  # Schemas.
    "lib/algo/",  # Planners.
    "lib/tile/",  # Records of tiles, named after the operation that they serve.
    "lib/exec/cpu/tile",  # What these run with, on CPUs
    "cuda/tile/",  # and on GPUs.
    "bindings/python/libsk/_ops.py",  # Written from the schemas,
    "bindings/python/libsk/_op_names.py",  # as is this,
    "bindings/python/libsk/_collectives.py",  # and this.
)
ALL = "lib/op/ops/all.h"
LISTS = {
    "lib/op/op.h": "the numbers",
    "lib/op/op.cpp": "a description of nothing is a barrier's",
    "lib/plan/task.h": "the tiles' numbers",
}
# Hand-written functions of the C ABI, which is frozen; whatever came later comes by sk_call().
SHELL = (
    "lib/api/op_api.cpp",
    "lib/comm/arguments.cpp",
    "lib/comm/arguments.h",
    "lib/comm/gemm_arguments.cpp",
    "lib/comm/plan_arguments.cpp",
    "bindings/python/libsk/torch.py",
)

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def names_of(root: Path) -> tuple[set[str], set[str]]:
    """The schemas' constants and the operations' names. What is of memory alone is no operation."""
    constants: set[str] = set()
    names: set[str] = set()
    for path in sorted((root / "lib/op/ops").glob("*.h")):
        if path.name == "memory.h":
            continue
        text = path.read_text()
        constants.update(SCHEMA.findall(text))
        names.update(NAME.findall(text) if SCHEMA.search(text) else ())
    return constants, {name for name in names if "k" + camel(name) in constants}


def camel(name: str) -> str:
    """The constant's part of a name: reduce_scatter, ReduceScatter."""
    return "".join(part.capitalize() for part in name.split("_"))


def violations(root: Path) -> list[str]:
    """One line for each name that stands where it has no business."""
    constants, names = names_of(root)
    if not constants:
        return ["lib/op/ops has no schemas"]
    words = re.compile(
        r"\b(?:" + "|".join(sorted(constants)) + r")\b|\"(?:" + "|".join(sorted(names)) + ')"'
    )
    return [*_unlisted(root, constants), *_found(root, words)]


def _unlisted(root: Path, constants: set[str]) -> Iterator[str]:
    """Whatever walks the schemas would pass such a one over, and all would be content."""
    listed = (root / ALL).read_text() if (root / ALL).exists() else ""
    for constant in sorted(constants):
        if f"X({constant})" not in listed:
            yield f"{ALL}: no X({constant}): there is a schema, and no such operation"


def _found(root: Path, words: re.Pattern[str]) -> Iterator[str]:
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in SOURCES or name.startswith(OWN) or name in LISTS:
                continue
            if name in SHELL:
                continue
            text = path.read_text()
            text = _texts(text) if path.suffix == ".py" else _without_comments(text)
            for number, line in enumerate(text.splitlines(), start=1):
                for word in words.findall(line):
                    yield f"{name}:{number}: {word}: an operation's name outside its own files"


def _without_comments(text: str) -> str:
    """They may give examples; as many lines as before stay."""
    return COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)


def _texts(text: str) -> str:
    """Of Python's: its strings, but for those of documentation, each on its own line."""
    lines = [""] * (text.count("\n") + 1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and not token.string.endswith('"""'):
            lines[token.start[0] - 1] += f" {token.string}"
    return "\n".join(lines)


def main() -> int:
    """Prints what was found."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = violations(root)
    print("\n".join(found) if found else "operations: named in their own files alone")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
