"""What is wrong with a page fails the site: a small tree, one fault at a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ROOT, make_site, read_page

FIRST = """# First

[Up](../README.md), [here](#a-part), [a part of it](../README.md#words), [a folder](.),
[a file](site/conf.py)

## A part

```python
%%on 0
print("magic")
```
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of three pages."""
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    (tmp_path / "docs" / "site" / "navigation.py").write_text(
        'MENU = {"Start": ("/README", "/docs/first")}\n'
    )
    (tmp_path / "CMakeLists.txt").write_text("project(sk VERSION 9.8.7)\n")
    (tmp_path / "README.md").write_text("# All\n\n## Words\n\nText.\n")
    (tmp_path / "docs" / "README.md").write_text("# Front\n\n[First](first.md)\n")
    (tmp_path / "docs" / "first.md").write_text(FIRST)
    return tmp_path


def outcome(tree: Path) -> tuple[int, str]:
    """Whether the site was made, and what was said."""
    done = make_site(tree, tree / "site", tree / "read")
    return done.returncode, done.stdout + done.stderr


def test_a_sound_tree_passes(tree: Path) -> None:
    assert outcome(tree) == (0, "")
    page = (tree / "site" / "docs" / "first.html").read_text()
    assert 'href="../README.html#words"' in page
    assert "SuperKernel 9.8.7" in page
    assert '<span class="xref myst">a folder</span>,' in page  # Named, and not linked.


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("[x](nowhere.md)", "nowhere.md"),
        ("[x](first.md#no-such-part)", "no-such-part"),
        ("[x](#no-such-part)", "no-such-part"),
        ("![x](../img/none.png)", "none.png"),
        ("```python\nfor $ in\n```", "highlighting"),
    ],
)
def test_a_fault_in_a_page_fails_it(tree: Path, fault: str, finding: str) -> None:
    (tree / "docs" / "first.md").write_text(f"{FIRST}\n{fault}\n")
    status, said = outcome(tree)
    assert status != 0
    assert "docs/first.md" in said
    assert finding in said


def test_a_page_that_is_in_no_menu_fails_it(tree: Path) -> None:
    (tree / "docs" / "second.md").write_text("# Second\n")
    status, said = outcome(tree)
    assert status != 0
    assert "docs/second.md" in said


def test_a_page_of_the_menu_that_is_missing_fails_it(tree: Path) -> None:
    (tree / "docs" / "first.md").unlink()
    (tree / "docs" / "README.md").write_text("# Front\n")
    status, said = outcome(tree)
    assert status != 0
    assert "docs/first" in said


def test_what_a_page_has_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<html><head><title>A page</title><link rel='next' href='b.html'>"
        "<link rel='stylesheet' href='//localhost/a.css'><script src='https://localhost/a.js'>"
        "</script></head><body><svg><title>a sign</title></svg><h1 id='top'>A page</h1>"
        "<img src='a.png'><a href='https://localhost/'>out</a><a name='old'></a></body></html>"
    )
    page = read_page(path)
    assert (page.title, page.headings) == ("A page", ["A page"])
    assert page.loaded == ["//localhost/a.css", "https://localhost/a.js", "a.png"]
    assert page.links == ["https://localhost/"]
    assert page.anchors == {"top", "old"}
