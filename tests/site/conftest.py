"""The site as ./dev docs makes it, made once in a folder of its own, and what its pages have."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "dev"))

from docs import sphinx

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300

# What a browser loads by itself, by tag and attribute; a link is not among it.
LOADED = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}
# <link> also says where related pages are.
NOT_LOADED = {"next", "prev", "search", "index", "canonical", "author", "help", "top", "up"}


def make_site(source: Path, site: Path, read: Path) -> subprocess.CompletedProcess[str]:
    """Sphinx as ./dev docs runs it."""
    command = sphinx(sys.executable, source, site, read)
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


@dataclass
class Page:
    """What a page has."""

    path: Path
    title: str = ""
    headings: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    refreshes_to: str = ""


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page = page
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.page.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        if tag == "meta" and given.get("http-equiv") == "refresh":
            self.page.refreshes_to = given["content"].partition("url=")[2]
        related = tag == "link" and set(given.get("rel", "").split()) & NOT_LOADED
        if not related:
            self.page.loaded += [v for name, v in given.items() if (tag, name) in LOADED]
        if tag in ("title", "h1") and not self._in_picture:
            self._inside = tag
            if tag == "h1":
                self.page.headings.append("")
        self._in_picture = tag == "svg" or (self._in_picture and tag != "body")

    _in_picture = False  # A picture has a title, too.

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg":
            self._in_picture = False
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.page.title += data
        elif self._inside == "h1":
            self.page.headings[-1] += data


def read_page(path: Path) -> Page:
    """A page of the site."""
    page = Page(path)
    _Reader(page).feed(path.read_text())
    return page


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it lies."""
    folder = tmp_path_factory.mktemp("site")
    done = make_site(ROOT, folder / "html", folder / "read")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    """All of its pages."""
    return {path: read_page(path) for path in sorted(site.rglob("*.html"))}
