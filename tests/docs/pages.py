"""The notebook's pages as notebooks: their cells, what they promise, and what a kernel shows.

A page is Markdown. In it

    ```python      is a cell, run on four ranks in order of the page; in julia.md ```julia is
    ```output      behind a cell: all that the cell shows, as text
    ```console     is for a shell: lines that begin with `$ `, each followed by what it prints

In what is promised `…` stands for any text within a line, and a line of only `…` for any lines: for
times, process numbers, paths and versions alone. A cell without an output block shows nothing. A
comment of HTML before a cell tells what the reader's hand does meanwhile:

    <!-- interrupt -->   presses stop once the cell has shown something
    <!-- input: Ada -->  types this where the cell asks

and one before a block of any language, that it is no cell but a file that a shell finds later:

    <!-- file: sum.py -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HAND = re.compile(r"<!-- (interrupt|input: .*?) -->\s*$")
FILE = re.compile(r"<!-- file: ([\w.]+) -->\s*$")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Example:
    """A cell, a file or a shell's lines, and what the page says that comes of it."""

    kind: str
    text: str
    line: int
    hand: str = ""
    promised: str = ""
    file: str = ""  # Its name, where it is one; kind is "file" then.


def read_page(path: Path, language: str = "python") -> list[Example]:
    """The examples of a page, in order. Blocks of other languages are not run."""
    text = path.read_text()
    examples: list[Example] = []
    for block in BLOCK.finditer(text):
        kind, body = block[1], block[2]
        before = text[: block.start()]
        line = before.count("\n") + 1
        if name := FILE.search(before):
            examples.append(Example("file", body, line, file=name[1]))
            continue
        if kind not in (language, "output", "console"):
            continue
        if kind == "output":
            assert examples and examples[-1].kind == language, f"{path}:{line}: output of nothing"
            assert not examples[-1].promised, f"{path}:{line}: a second output"
            examples[-1].promised = body
            continue
        hand = HAND.search(before)
        examples.append(Example(kind, body.removesuffix("\n"), line, hand[1] if hand else ""))
    return examples


def matches(promised: str, shown: str) -> bool:
    """Whether what was shown is what the page says."""
    pattern = []
    for line in promised.strip("\n").split("\n"):
        if line.strip() == "…":
            pattern.append("(?:.*\n)*")
        else:
            pattern.append("[^\n]*?".join(map(re.escape, line.rstrip().split("…"))) + "[ \t]*\n")
    return re.fullmatch("".join(pattern), shown.strip("\n") + "\n") is not None


def console_steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block and what each prints."""
    command, promised = "", ""
    for line in text.split("\n"):
        if line.startswith("$ "):
            if command:
                yield command, promised
            command, promised = line[2:], ""
        else:
            promised += line + "\n"
    if command:
        yield command, promised


def text_of(message: dict[str, Any]) -> str:
    """What a notebook shows of a message, as text."""
    content = message["content"]
    if message["msg_type"] == "stream":
        return ANSI.sub("", content["text"])
    if message["msg_type"] == "error":
        return ANSI.sub("", "\n".join(content["traceback"])) + "\n"
    if message["msg_type"] in ("display_data", "execute_result", "update_display_data"):
        data = content["data"]
        picture = next((f"({kind})" for kind in data if kind.startswith("image/")), "")
        return (picture or data["text/plain"]) + "\n"
    return ""


def shown_by(messages: list[dict[str, Any]]) -> str:
    """What is left in the notebook when the cell has ended."""
    clears = [i for i, each in enumerate(messages) if each["msg_type"] == "clear_output"]
    kept = messages[clears[-1] + 1 :] if clears else messages
    shown: list[str] = []
    places: dict[str, int] = {}
    for message in kept:
        if message["msg_type"] == "status":
            continue
        display = message["content"].get("transient", {}).get("display_id")
        if message["msg_type"] == "update_display_data":
            if display in places:
                shown[places[display]] = text_of(message)
            continue
        if display:
            places[display] = len(shown)
        shown.append(text_of(message))
    return "".join(shown)
