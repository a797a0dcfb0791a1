"""The README's examples run as they are printed, on two ranks."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PREFIX = Path(os.environ["SK_PREFIX"])
TIMEOUT_S = 120


def example(heading: str) -> str:
    """The first block of code under a heading."""
    found = re.search(rf"^### {heading}\n.*?^```\w+\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def run(command: list[str], folder: Path) -> list[str]:
    env = {**os.environ, "LD_LIBRARY_PATH": str(PREFIX / "lib")}
    env["PKG_CONFIG_PATH"] = str(PREFIX / "lib" / "pkgconfig")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("heading", ["C", "Python", "Notebook"])
def test_an_example_is_short(heading: str) -> None:
    assert len(example(heading).splitlines()) <= 15


def test_c(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(example("C"))
    flags = run(["pkg-config", "--cflags", "--libs", "sk"], tmp_path)[0].split()
    run(["cc", "-std=c11", "-Wall", "-Werror", "sum.c", *flags, "-o", "sum"], tmp_path)
    lines = run(["sk", "run", "-n", "2", "./sum"], tmp_path)
    assert [line.endswith("2 4 6 8") for line in lines] == [True, True]


def test_python(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text(example("Python"))
    # Tagged, so that lines stay whole where Python writes them in parts.
    lines = run(["sk", "run", "--tag", "-n", "2", "python", "product.py"], tmp_path)
    errors = [float(line.split()[-1]) for line in lines]
    assert len(errors) == 2
    assert all(error < 1e-5 for error in errors)


def test_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SK_NRANKS", "2")
    cells = [nbformat.v4.new_code_cell(text) for text in example("Notebook").split("\n\n")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="superkernel-python", timeout=TIMEOUT_S).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    text = "".join(output.get("text", "") for output in outputs)
    assert "rank 0" in text
    assert "rank 1" in text
    assert text.count("the sum is 1") == 1  # Alike on both ranks, so shown once.
