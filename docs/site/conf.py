"""How Sphinx makes the site of the repository's Markdown files; ./dev docs runs it.

The source folder is the repository itself, so that a page is read where it lies, its links to other
pages are those that a checkout has, and its address is its path. `include_patterns` says what is a
page, navigation.py where it stands in the menu. A page that stands nowhere is a warning, as is a
link or an anchor that leads nowhere, and ./dev docs takes warnings for errors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from ipython_pygments_lexers import IPython3Lexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

sys.path.insert(0, str(Path(__file__).parent))

from navigation import MENU

ROOT = Path(__file__).resolve().parents[2]
FRONT = "docs/README"

project = "SuperKernel"
copyright = "the SuperKernel authors, Apache License 2.0"
version = re.findall(r"project\(sk VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[0]
release = version

extensions = ["myst_parser"]
root_doc = FRONT
include_patterns = [
    "*.md",
    "bench/*.md",
    "bindings/*/README.md",
    "docs/*.md",
    "docs/**/*.md",
]
exclude_patterns = ["build", ".*"]
myst_heading_anchors = 4  # Anchors as GitHub makes them.
smartquotes = False  # Words are quoted here that somebody will type or search.
highlight_language = "none"

html_theme = "furo"
html_title = f"SuperKernel {version}"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}  # Sends readers to the front page.
html_copy_source = False
html_use_index = False
html_theme_options = {"navigation_with_keys": True}


def menu() -> str:
    """The navigation, as the toctrees of the front page."""
    trees = []
    for section, pages in MENU.items():
        lines = ["```{toctree}", ":hidden:", f":caption: {section}", "", *pages]
        trees.append("\n".join([*lines, "```", ""]))
    return "\n".join(trees)


def add_menu(_app: Sphinx, page: str, text: list[str]) -> None:
    """Behind the front page's text and the lists of pages that lie in one folder.

    They are not in the files, since GitHub would show them as blocks of code.
    """
    if page == FRONT:
        text[0] += f"\n\n{menu()}"
    elif page == "docs/adr/README":
        text[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
    elif page == "docs/tutorial/README":
        text[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n[0-9]*\n```\n"


class NameFolders(SphinxPostTransform):
    """A link to a folder of the repository becomes its name: there is no page to show it."""

    default_priority = 8  # Before MyST looks for what it leads to.

    def run(self, **_kwargs: Any) -> None:
        """Takes away the link around the text."""
        here = ROOT / self.env.docname
        for node in list(self.document.findall(addnodes.pending_xref)):
            is_path = node.get("reftype") == "myst" and not node.get("refdomain")
            if is_path and (here.parent / node["reftarget"]).is_dir():
                node.replace_self(node.children)


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    app.add_lexer("python", IPython3Lexer)  # Cells have magics.
    app.add_post_transform(NameFolders)
    app.connect("source-read", add_menu)
