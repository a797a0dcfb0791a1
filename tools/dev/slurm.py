"""./dev slurm: a command beside a Slurm of four nodes, all on this machine while it runs."""

from __future__ import annotations

import os

import product
from builder import build
from setup import PYTHON, install_packages, setup
from shell import ROOT

CLUSTER = ROOT / "tests" / "support" / "slurm.py"


def slurm(command: list[str]) -> int:
    """Becomes the cluster's program, which ends with the command; the product is found there."""
    setup("test")
    install_packages("slurm")
    build("release", "sk", "sk_tool")
    product.install(product.Part.PACKAGE)
    words = [str(PYTHON), "-B", str(CLUSTER), *command]
    os.execve(words[0], words, {**os.environ, **product.environment()})
