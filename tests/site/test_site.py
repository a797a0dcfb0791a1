"""Every page of the site has a title, leads somewhere, and is read without a network."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from conftest import ROOT, Page

Pages = dict[Path, Page]
FENCE = re.compile(r"^ *```(\w*)", re.MULTILINE)
# Of blocks whose long lines style.css breaks; "" is said of what has no language.
BROKEN_LINES = {"", "console", "output", "sh", "text"}
COLUMNS = 100  # Of the column that style.css makes, and of the repository's own lines.
MADE_BY_SPHINX = {"index.html", "search.html", "genindex.html"}
# In a style sheet: what it loads.
STYLE_LOADS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


def documents() -> set[str]:
    """The repository's Markdown files."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return {name for name in listed.splitlines() if name.endswith(".md") and (ROOT / name).exists()}


def leads_elsewhere(link: str) -> bool:
    """Out of the site, which is for people to follow."""
    return bool(urlsplit(link).scheme) or link.startswith("//")


def test_every_document_is_a_page(site: Path, pages: Pages) -> None:
    made = {path.relative_to(site).as_posix() for path in pages}
    assert made - MADE_BY_SPHINX == {f"{name[:-3]}.html" for name in documents()}


def test_every_page_has_a_title(site: Path, pages: Pages) -> None:
    for page in pages.values():
        assert page.title.strip(), page.path
        if page.path.name not in MADE_BY_SPHINX:
            assert len(page.headings) == 1, f"{page.path}: {page.headings}"
            heading = page.headings[0].strip("¶#").strip()
            of_site = page.path == site / "docs" / "README.html"
            assert page.title.startswith("SuperKernel" if of_site else heading), page.path


def test_no_two_pages_have_one_heading(pages: Pages) -> None:
    """They would be told apart neither in the search nor by the links to the next."""
    seen = [page.headings[0] for page in pages.values() if page.path.name not in MADE_BY_SPHINX]
    assert sorted(seen) == sorted(set(seen))


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: Pages) -> None:
    wrong, followed = [], 0
    for page in pages.values():
        for link in page.links:
            if leads_elsewhere(link) or link == "#":
                continue
            parts = urlsplit(link)
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            followed += 1
            if not target.is_relative_to(site) or not target.is_file():
                wrong.append(f"{page.path.relative_to(site)}: {link}")
                continue
            anchors = pages[target].anchors if target.suffix == ".html" else set()
            if parts.fragment and unquote(parts.fragment) not in anchors:
                wrong.append(f"{page.path.relative_to(site)}: {link}: no such anchor")
    assert not wrong, "\n".join(wrong)
    assert followed > 1000


def test_code_is_seen_to_the_end_of_its_lines() -> None:
    wrong = []
    for name in documents():
        language: str | None = None
        for number, line in enumerate((ROOT / name).read_text().splitlines(), start=1):
            if fence := FENCE.match(line):
                language = fence[1] if language is None else None
            elif language is not None and language not in BROKEN_LINES and len(line) > COLUMNS:
                wrong.append(f"{name}:{number}: {len(line)} letters of {language}")
    assert not wrong, "\n".join(wrong)


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: Pages) -> None:
    for page in pages.values():
        for asset in page.loaded:
            if asset.startswith("data:"):
                continue
            assert not leads_elsewhere(asset), f"{page.path}: loads {asset}"
            path = (page.path.parent / unquote(urlsplit(asset).path)).resolve()
            assert path.is_file(), f"{page.path}: loads {asset}, which is not there"
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        for groups in STYLE_LOADS.findall(sheet.read_text()):
            asset = "".join(groups)
            assert asset.startswith("data:") or not leads_elsewhere(asset), f"{sheet}: {asset}"


def test_the_index_leads_to_the_front_page(site: Path, pages: Pages) -> None:
    index = pages[site / "index.html"]
    front = pages[site / index.refreshes_to]
    assert front.headings[0].startswith("SuperKernel")
    # From the front page's menu to every document.
    menu = {(front.path.parent / urlsplit(link).path).resolve() for link in front.links}
    missing = [path for path in pages if path not in menu and path.name not in MADE_BY_SPHINX]
    beneath = ("docs/adr/", "docs/tutorial/")
    missing = [p for p in missing if not p.relative_to(site).as_posix().startswith(beneath)]
    assert missing in ([], [front.path])


def test_every_decision_is_in_the_list_of_them() -> None:
    folder = ROOT / "docs" / "adr"
    text = re.sub(r"\n +", " ", (folder / "README.md").read_text())
    for path in folder.glob("0*.md"):
        number, _, title = path.read_text().splitlines()[0].removeprefix("# ").partition(". ")
        assert int(number) == int(path.name[:4]), path
        listed = re.search(
            rf"^- \[{number}\. (.+)\]\({re.escape(path.name)}\)$", text, re.MULTILINE
        )
        assert listed, f"{path.name} is not in the list"
        assert title.startswith(listed[1]), f"{path.name}: the list has another title"


def test_the_search_knows_the_pages(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    for name in ("docs/troubleshooting", "docs/notebook/magics", "CHANGELOG"):
        assert f'"{name}"' in index
