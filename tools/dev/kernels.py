"""./dev cuda: compiles the kernels for every GPU target and looks at what came out."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from builder import build
from setup import VENV, has_layer, install_layer, layer, setup
from shell import ROOT, run, say

SYSTEM = Path("/usr/local/cuda/bin")


def wheel_program(venv: Path, name: str) -> Path:
    """A program that the toolkit's wheels bring."""
    return next(venv.glob(f"lib/python3*/site-packages/nvidia/cu*/bin/{name}"))


def system_program(name: str) -> Path | None:
    """A program of the system's toolkit."""
    found = shutil.which(name) or shutil.which(name, path=str(SYSTEM))
    return Path(found) if found else None


def find_nvcc() -> Path:
    """CUDACXX, the system's, else that of the wheels."""
    if os.environ.get("CUDACXX"):
        return Path(os.environ["CUDACXX"])
    found = system_program("nvcc")
    if found:
        return found
    if not has_layer("cuda"):
        say("no nvcc here: 300 MB from PyPI, which go into build/")
    install_layer("cuda")
    return wheel_program(layer("cuda"), "nvcc")


def cuda() -> int:
    """Exit status 1: a kernel is not as it must be."""
    setup("cuda")
    nvcc = find_nvcc()
    # The watched ones too: that they compile, and can end. How fast they are is nobody's concern.
    targets = ("sk_cuda", "sk_cuda_watched")
    # Where ./dev gpu looks for them, so that nobody compiles them twice.
    folder = build("gpu", *targets, options=[f"-DSK_NVCC={nvcc}"])
    nvdisasm = system_program("nvdisasm") or wheel_program(VENV, "nvdisasm")
    command = [sys.executable, "-B", ROOT / "tools/check_kernels.py"]
    command += [folder / "cuda/kernels", folder / "cuda/watch/kernels", nvdisasm]
    return run(command, "reading the kernels", stream=True, may_fail=True)
