"""./dev lab: JupyterLab with the kernels, on the example notebooks."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import julia
import product
from builder import build
from setup import install_layer, layer, setup
from shell import BUILD, ROOT, say

EXAMPLES = ROOT / "examples"
NOTEBOOKS = BUILD / "notebooks"
RANKS = 4


def language_of(notebook: Path) -> str:
    """What its kernel runs, ``"python"``."""
    language: str = json.loads(notebook.read_text())["metadata"]["kernelspec"]["language"]
    return language


def copy_examples(source: Path, target: Path, languages: set[str]) -> list[Path]:
    """Copies the notebooks that have a kernel, so that trying them leaves the repository as it is.

    A copy that is there stays as it is. Gives those that have no kernel.
    """
    target.mkdir(parents=True, exist_ok=True)
    without = []
    for path in sorted(source.glob("*.ipynb")):
        if language_of(path) not in languages:
            without.append(path)
        elif not (target / path.name).exists():
            shutil.copy(path, target)
    return without


def install_kernels() -> set[str]:
    """Puts a kernel for each language that is here into the environment of JupyterLab."""
    home = layer("lab")
    product.install_kernel(home, ranks=RANKS)
    found = julia.find()
    if found is None:
        return {"python"}
    product.install_julia_kernel(home, found, ranks=RANKS)
    return {"python", "julia"}


def server_environment() -> dict[str, str]:
    """The caller's own, in which the product is found. SK_NRANKS is left as it is: set here, it
    would outrank the --ranks of every kernel that the user has installed."""
    return {**os.environ, **product.environment(layer("lab"))}


def lab(options: list[str]) -> int:
    """Becomes the server, with what follows the verb as its options; Ctrl-C ends it."""
    setup("demo")
    build("release", "sk", "sk_tool")
    product.install(product.Part.PACKAGE)
    install_layer("lab")
    without = copy_examples(EXAMPLES, NOTEBOOKS, install_kernels())
    if without:
        names = ", ".join(path.name for path in without)
        say(f"no Julia here, so {names} are left out; ./dev test --suite julia --install gets it")
    say(f"JupyterLab on {NOTEBOOKS.relative_to(ROOT)}; SK_NRANKS chooses another number of ranks")
    python = str(layer("lab") / "bin" / "python")
    command = [python, "-m", "jupyterlab", f"--ServerApp.root_dir={NOTEBOOKS}", *options]
    if os.geteuid() == 0:
        command.append("--allow-root")
    os.execve(python, command, server_environment())
