"""What the public headers declare: functions, struct fields, enumerators, constants."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "include"
UMBRELLA = INCLUDE / "sk.h"
HEADERS = [UMBRELLA, *sorted((INCLUDE / "sk").glob("*.h"))]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
FUNCTION = re.compile(r"SK_API\s[^;(]*?\b(sk_\w+)\s*\(")
STRUCT = re.compile(r"typedef struct (\w+) \{(.*?)\} (\w+);", re.DOTALL)
ENUM = re.compile(r"enum \w+ \{(.*?)\}", re.DOTALL)
FIELD_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?$")


@dataclass
class Abi:
    """Names in the order of the headers."""

    functions: list[str] = field(default_factory=list)
    structs: dict[str, list[str]] = field(default_factory=dict)
    enumerators: list[str] = field(default_factory=list)


def _field_names(body: str) -> list[str]:
    names = []
    for declaration in body.split(";"):
        for part in declaration.split(","):  # "int64_t m, n, k" declares three.
            found = FIELD_NAME.search(part.strip())
            if found:
                names.append(found[1])
    return names


def read_abi() -> Abi:
    """Parses the headers; they are plain enough for that."""
    abi = Abi()
    for path in HEADERS:
        text = COMMENT.sub(" ", path.read_text())
        abi.functions += FUNCTION.findall(text)
        for name, body, _ in STRUCT.findall(text):
            abi.structs[name] = _field_names(body)
        for body in ENUM.findall(text):
            abi.enumerators += re.findall(r"\b(SK_\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    return abi


def layout_lines(abi: Abi, work: Path) -> list[str]:
    """Sizes, offsets and values as this machine's C compiler sees them."""
    prints = []
    for name, fields in abi.structs.items():
        prints.append(f'printf("struct {name}: size %zu\\n", sizeof({name}));')
        for each in fields:
            place = f"offsetof({name}, {each}), sizeof((({name}*)0)->{each})"
            prints.append(f'printf("  {each}: offset %zu, size %zu\\n", {place});')
    prints += [f'printf("{name} = %lld\\n", (long long)({name}));' for name in abi.enumerators]
    source = work / "layout.c"
    body = "\n  ".join(prints)
    source.write_text(f"#include <sk.h>\n#include <stdio.h>\nint main(void) {{\n  {body}\n}}\n")
    program = work / "layout"
    compile_command = ["cc", "-std=c11", "-I", str(INCLUDE), str(source), "-o", str(program)]
    subprocess.run(compile_command, check=True, timeout=60)
    done = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()
