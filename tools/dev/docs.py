"""./dev docs: the repository's Markdown files as a site, to be read from a folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setup import install_layer, install_packages, layer
from shell import BUILD, ROOT, DevError, run, say

SITE = BUILD / "site"


def sphinx(python: str | Path, source: Path, site: Path, read: Path) -> list[str | Path]:
    """The command that makes the site of `source`; `read` is for what Sphinx has read of it.

    -W with --keep-going: every finding is said, and none is let pass. -E: what was read before does
    not count, for a changed menu changes no page.
    """
    command = [python, "-B", "-m", "sphinx", "-q", "-E", "-W", "--keep-going", "-b", "html"]
    return [*command, "-c", source / "docs" / "site", "-d", read, source, site]


def docs() -> int:
    """Leaves the site in build/site. What is wrong with a page is said, and then the site fails."""
    if sys.version_info < (3, 11):
        raise DevError(f"Sphinx 9 needs Python 3.11 or later, and this is {sys.version.split()[0]}")
    install_packages("docs")
    install_layer("site")
    shutil.rmtree(SITE, ignore_errors=True)  # A page that is gone would stay.
    command = sphinx(layer("site") / "bin" / "python", ROOT, SITE, BUILD / "site-read")
    run(command, "making the site", stream=True, timeout_s=600.0)
    say(f"left: {(SITE / 'index.html').relative_to(ROOT)}, which needs no server and no network")
    return 0
