"""The Python package that a bundle may carry, and a Python that has torch with CUDA to try it with.

The wheel is unpacked, not installed: a visit leaves the machine's environments as they are. It has
the library, too, with which a program of C's tests runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from gpu import steps

ASK_S = 120.0  # torch is read from a disk that has never been read.
_ASK = """
import pytest, torch
if not torch.cuda.is_available():
    raise SystemExit("its torch sees no GPU")
import libsk
"""


@dataclass(frozen=True)
class Package:
    """What runs the tests; or why nothing does."""

    site: Path | None = None
    python: str = ""
    why: str = ""  # There is no Python, or no package either.
    lacks: dict[str, str] = field(default_factory=dict)  # By step: what it has not, for some tests.

    def program(self, home: Path, *words: str) -> list[str]:
        """A program with the package's library."""
        library = f"LD_LIBRARY_PATH={self.site}/libsk"
        return ["env", library, str(home / "api" / words[0]), *words[1:]]

    def command(self, home: Path, *tests: str) -> list[str]:
        """These tests' command."""
        words = [str(home / "tests" / "gpu" / "python" / name) for name in tests]
        options = ("-q", "--tb=short", "-p", "no:cacheprovider", "--log-level=CRITICAL")
        return ["env", f"PYTHONPATH={self.site}", self.python, "-m", "pytest", *options, *words]


def find(home: Path, out: Path) -> Package:
    """Unpacks the bundle's wheel under `out` and looks for a Python to run it."""
    wheels = sorted((home / "dist").glob("*.whl"))
    if not wheels:
        return Package(why="this bundle has no Python package: ./dev gpu --bundle --python FILE")
    site = out / "site"
    if not site.exists():
        with zipfile.ZipFile(wheels[0]) as file:
            file.extractall(site)
    why = "there is no python3"
    for python in dict.fromkeys(filter(None, (sys.executable, shutil.which("python3")))):
        why = _asked(python, site, _ASK)
        if not why:
            cupy = _asked(python, site, "import cupy")
            return Package(site, python, lacks={steps.CUPY: f"no CuPy: {cupy}"} if cupy else {})
    return Package(site, why=f"there is no Python with pytest, torch and a GPU: {why}")


def _asked(python: str, site: Path, question: str) -> str:
    """Why this Python cannot run that, or ""."""
    command = ["env", f"PYTHONPATH={site}", python, "-c", question]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{python} did not answer within {ASK_S:.0f} s"
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else f"{python}: {said[-1] if said else done.returncode}"
