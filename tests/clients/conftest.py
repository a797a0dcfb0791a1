"""What every client meets: the installed kernelspec, four ranks, folders that nobody has used."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

ROOT = Path(__file__).resolve().parents[2]
RANKS = 4


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A copy of the quickstart; it has no outputs."""
    copy = tmp_path / "quickstart.ipynb"
    shutil.copy(ROOT / "examples" / "quickstart.ipynb", copy)
    assert not any(cell.get("outputs") for cell in nbformat.read(copy, as_version=4).cells)
    return copy


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a client: no settings, so no extension, but those of its own folders."""
    own = {"HOME": "", "IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "config"}
    own |= {"JUPYTER_RUNTIME_DIR": "runtime", "MPLCONFIGDIR": "matplotlib"}
    folders = {name: str(tmp_path / folder) for name, folder in own.items()}
    return {**os.environ, **folders, "SK_NRANKS": str(RANKS), "TERM": "xterm"}
