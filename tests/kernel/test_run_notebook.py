"""`./dev demo` prints what a notebook keeps of a cell, not what was replaced while it ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
from conftest import StartKernel
from jupyter_core.paths import jupyter_path

ROOT = Path(__file__).resolve().parents[2]
CELL = "display text/plain interim\nclear\ndisplay text/plain final\nprint {rank}"


def test_interim_outputs_are_not_printed(start_kernel: StartKernel, tmp_path: Path) -> None:
    start_kernel(2).stop()  # For the kernelspec that it writes.
    kernel = {"name": "under-test", "display_name": "Under test"}
    book = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    book.cells = [nbformat.v4.new_code_cell(CELL)]
    nbformat.write(book, tmp_path / "in.ipynb")
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            ROOT / "tools" / "dev" / "run_notebook.py",
            tmp_path / "in.ipynb",
            tmp_path / "out.ipynb",
        ],
        env={**os.environ, "JUPYTER_PATH": os.pathsep.join([str(tmp_path), *jupyter_path()])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout[done.stdout.index("print {rank}") :].splitlines()[1:]
    assert printed == ["final", "[0] 0", "[1] 1"]
