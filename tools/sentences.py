"""Whether the sentences that docs/troubleshooting.md quotes are still said; for check_docs.py.

A heading of the third level quotes one or more, each in backquotes, with "…" for what varies. The
words between must stand in one text of the product's code, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PAGE = "docs/troubleshooting.md"
SPEAKERS = re.compile(
    r"^(lib|transport|cuda|bindings|tools/(sk|sk_kernel|dev))/(?!.*tests?/).*\.(c|cpp|h|py|jl)$"
)
HEADING = re.compile(r"^### (.*)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
# Between two literals that the compiler joins, also Python's f-strings.
JOINT = re.compile(r'(?<!\\)"\s+f?"')


def said_in(code: str) -> str:
    """A source file with the parts of a literal joined, so that each text is on one line."""
    return JOINT.sub("", code).replace('\\"', '"')


def pattern_of(sentence: str) -> re.Pattern[str]:
    """What finds it: a gap may hold anything but the end of a line."""
    words = [re.escape(part.strip()) for part in sentence.split("…")]
    return re.compile(r"[^\n]*?".join(part for part in words if part))


def check_sentences(root: Path, names: list[str]) -> Iterator[str]:
    """Every heading quotes something, and what it quotes is said by the code."""
    page = root / PAGE
    if not page.is_file():
        return
    texts = [said_in((root / name).read_text()) for name in names if SPEAKERS.search(name)]
    for heading in HEADING.findall(page.read_text()):
        quoted = QUOTED.findall(heading)
        if not quoted:
            yield f'{PAGE}: the heading "{heading}" quotes no sentence'
        for sentence in quoted:
            pattern = pattern_of(sentence)
            if not any(pattern.search(text) for text in texts):
                yield f'{PAGE}: no code says "{sentence}"'
