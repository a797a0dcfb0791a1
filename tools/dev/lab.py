"""./dev lab: JupyterLab with the kernel, on the example notebooks."""

from __future__ import annotations

import os
import shutil

import product
from builder import build
from setup import install_layer, layer, setup
from shell import BUILD, ROOT, say

NOTEBOOKS = BUILD / "notebooks"
RANKS = 4


def lab(options: list[str]) -> int:
    """Becomes the server, with what follows the verb as its options; Ctrl-C ends it.

    The notebooks are copies, so that trying them changes nothing in the repository.
    """
    setup("demo")
    build("release", "sk", "sk_tool")
    product.install(product.Part.PACKAGE)
    install_layer("lab")
    product.install_kernel(layer("lab"))
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "examples").glob("*.ipynb"):
        if not (NOTEBOOKS / path.name).exists():
            shutil.copy(path, NOTEBOOKS)
    say(f"JupyterLab on {NOTEBOOKS.relative_to(ROOT)}; SK_NRANKS chooses another number of ranks")
    python = str(layer("lab") / "bin" / "python")
    env = {"SK_NRANKS": str(RANKS), **os.environ, **product.environment(layer("lab"))}
    command = [python, "-m", "jupyterlab", f"--ServerApp.root_dir={NOTEBOOKS}", *options]
    if os.geteuid() == 0:
        command.append("--allow-root")
    os.execve(python, command, env)
