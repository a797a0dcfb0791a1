"""Each example of docs/notebook runs as a reader would run it, and shows what the page says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pages import console_steps, matches, read_page
from reader import ROOT, what_is_wrong

# That of Julia is the suite julia's.
PAGES = sorted(p for p in (ROOT / "docs" / "notebook").glob("*.md") if p.stem != "julia")


def test_there_are_pages() -> None:
    topics = {"cells", "errors", "faults", "install", "interrupts", "magics"}
    assert topics <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_true(page: Path, tmp_path: Path) -> None:
    wrong = what_is_wrong(page, tmp_path)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("promised", "shown", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a", True),
        ("", "", True),
        ("", "a\n", False),
        ("a\n", "", False),
        ("a\n", "a\nb\n", False),
        ("a … c\n", "a 12.3 s c\n", True),
        ("a … c\n", "a\nc\n", False),
        ("a.c\n", "abc\n", False),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nb\n", False),
        ("took …\n", "took \n", True),
        ("[0] a\n[1] b\n", "[1] b\n[0] a\n", False),
    ],
)
def test_what_counts_as_the_same(promised: str, shown: str, same: bool) -> None:
    assert matches(promised, shown) is same


def test_how_a_page_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\nprint(1)\n```\nshows\n```output\n1\n```\n\n<!-- interrupt -->\n"
        "```python\nx\n```\n```toml\nno = 1\n```\n```console\n$ a\nb\n$ c\n```\n"
        "Put this into `a.c`:\n\n<!-- file: a.c -->\n```c\nint a;\n```\n"
    )
    first, second, third, fourth = read_page(page)
    assert (first.text, first.promised, first.line) == ("print(1)", "1\n", 3)
    assert (second.text, second.promised, second.hand) == ("x", "", "interrupt")
    assert list(console_steps(third.text)) == [("a", "b\n"), ("c", "")]
    assert (fourth.kind, fourth.file, fourth.text) == ("file", "a.c", "int a;\n")
