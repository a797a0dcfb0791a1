"""./dev docs: the repository's Markdown files as a site, to be read from a folder."""

from __future__ import annotations

import shutil
import sys

from setup import install_layer, install_packages, layer
from shell import BUILD, ROOT, DevError, run, say

SITE = BUILD / "site"


def docs() -> int:
    """Leaves the site in build/site. What is wrong with a page is said, and then the site fails."""
    if sys.version_info < (3, 11):
        raise DevError(f"Sphinx 9 needs Python 3.11 or later, and this is {sys.version.split()[0]}")
    install_packages("docs")
    install_layer("site")
    # Anew each time, in seconds: a page that is gone would stay, and a changed menu change no page.
    shutil.rmtree(SITE, ignore_errors=True)
    # -W with --keep-going: every finding, and none is let pass. -d: what was read, not to be shown.
    command = [layer("site") / "bin" / "python", "-m", "sphinx", "-q", "-E", "-W", "--keep-going"]
    command += ["-b", "html", "-c", ROOT / "docs" / "site", "-d", BUILD / "site-read", ROOT, SITE]
    run(command, "making the site", stream=True, timeout_s=600.0)
    say(f"left: {(SITE / 'index.html').relative_to(ROOT)}, which needs no server and no network")
    return 0
