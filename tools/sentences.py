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
    r"^(lib|transport|cuda|bindings|tools/(sk|sk_kernel|sk_status|dev))/(?!.*tests?/).*\.(c|cpp|h|py|jl)$"
)
HEADING = re.compile(r"^### (.*)$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
C_LIKE = (".c", ".cpp", ".h")
# What a source file consists of, as far as texts go: comments, among them Python's docstrings, are
# found so that nothing in them counts as a text.
TOKEN_OF_C = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])+'|"(?P<text>(?:\\.|[^"\\\n])*)\"""", re.DOTALL
)
TOKEN = re.compile(
    r'''#[^\n]*|""".*?"""|"(?P<text>(?:\\.|[^"\\\n])*)"|'(?P<alt>(?:\\.|[^'\\\n])*)\'''',
    re.DOTALL,
)


def texts_of(code: str, name: str) -> str:
    """A file's texts, one a line; those that the compiler joins are one, f-strings too."""
    said, end = "", -1
    for token in (TOKEN_OF_C if name.endswith(C_LIKE) else TOKEN).finditer(code):
        parts = token.groupdict()
        text = parts["text"] if parts["text"] is not None else parts.get("alt")
        if text is None:
            continue
        joined = end >= 0 and code[end : token.start()].strip() in ("", "f")
        said += ("" if joined else "\n") + text.replace('\\"', '"')
        end = token.end()
    return said


def pattern_of(sentence: str) -> re.Pattern[str]:
    """What finds it: a gap may hold anything but the end of a line."""
    words = [re.escape(part.strip()) for part in sentence.split("…")]
    return re.compile(r"[^\n]*?".join(part for part in words if part))


def check_sentences(root: Path, names: list[str]) -> Iterator[str]:
    """Every heading quotes something, and what it quotes is said by the code."""
    page = root / PAGE
    if not page.is_file():
        return
    texts = [texts_of((root / name).read_text(), name) for name in names if SPEAKERS.search(name)]
    for heading in HEADING.findall(page.read_text()):
        quoted = QUOTED.findall(heading)
        if not quoted:
            yield f'{PAGE}: the heading "{heading}" quotes no sentence'
        for sentence in quoted:
            pattern = pattern_of(sentence)
            if not any(pattern.search(text) for text in texts):
                yield f'{PAGE}: no code says "{sentence}"'
