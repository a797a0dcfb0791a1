"""The quickstart in clients that know nothing of many ranks: nbclient, papermill, the console."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pexpect
from conftest import RANKS
from processes import alive, descendants, wait_until

LIMIT_S = 280
PICTURES = 3
COLOR = r"(?:\x1b\[[0-9;?]*[A-Za-z])*"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def code_cells(path: Path) -> list[Any]:
    """The cells that run, all of them with a number when they did."""
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def outputs(path: Path, kind: str) -> list[Any]:
    """All outputs of one type, in order."""
    found = [output for cell in code_cells(path) for output in cell.outputs]
    return [output for output in found if output.output_type == kind]


def check_text(text: str) -> None:
    """What the cells print, first and last."""
    assert f"{RANKS} ranks on Python" in text
    for rank in range(RANKS):
        assert f"[{rank}] I am rank {rank}, process " in text
    (right,) = set(re.findall(r"digits trained on, ([\d.]+)% of the others recognised", text))
    assert float(right) > 90
    assert f"{RANKS} of {RANKS} ranks are here; the sum is still [60. 64. 68. 72.]" in text


def check_notebook(path: Path) -> None:
    """Every cell ran, in order; one error, where the notebook means it."""
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    check_text("".join(output.text for output in outputs(path, "stream")))
    assert sum("image/png" in output.data for output in outputs(path, "display_data")) == PICTURES
    errors = [cell for cell in cells if any(o.output_type == "error" for o in cell.outputs)]
    assert [cell.metadata.tags for cell in errors] == [["raises-exception"]]
    (error,) = outputs(path, "error")
    assert error.ename == "ZeroDivisionError"
    assert error.evalue.endswith("[rank 1]")


def run(env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """A program of this environment."""
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S)


def test_nbclient(notebook: Path, env: dict[str, str]) -> None:
    done = run(env, "jupyter", "execute", "--inplace", notebook)
    assert done.returncode == 0, done.stderr
    check_notebook(notebook)


def test_papermill_runs_all_and_then_tells_the_error(notebook: Path, env: dict[str, str]) -> None:
    """It goes on behind a cell that may fail, and calls the whole failed nevertheless."""
    written = notebook.with_name("written.ipynb")
    done = run(env, "papermill", "--no-progress-bar", notebook, written)
    assert done.returncode == 1, done.stderr
    assert "PapermillExecutionError" in done.stderr
    last = ESCAPE.sub("", done.stderr).split()[-7:]
    assert " ".join(last) == "ZeroDivisionError: float division by zero [rank 1]"
    marked = nbformat.read(written, as_version=4)
    # It puts two cells of its own before what failed.
    marked.cells = [c for c in marked.cells if "papermill-error-cell-tag" not in c.metadata.tags]
    nbformat.write(marked, written)
    check_notebook(written)


def play(console: pexpect.spawn, sources: list[str]) -> list[int]:
    """Pastes each cell where its prompt is and enters it, then ends the input; kernel and ranks."""
    for number, source in enumerate([*sources, None], start=1):
        console.expect(f"In {COLOR}\\[{COLOR}{number}{COLOR}\\]{COLOR}: ")
        if source is not None:  # Blank lines end an indented block.
            console.send(f"\x1b[200~{source}\n\n\n\x1b[201~\r")
    below = descendants(console.pid)
    console.send("\x04")
    console.expect(pexpect.EOF)
    console.close()
    return below


def test_the_console(notebook: Path, env: dict[str, str]) -> None:
    """In a terminal."""
    shell = "--ZMQTerminalInteractiveShell"
    arguments = ["-m", "jupyter_console", "--kernel", "superkernel-python"]
    # Whether a cell is complete must be the kernel's word, not a guess of the console's.
    arguments += ["--no-confirm-exit", f"{shell}.kernel_is_complete_timeout=60"]
    arguments += [f"{shell}.image_handler=None"]  # Pictures by their names, in no other program.
    console = pexpect.spawn(
        sys.executable,
        arguments,
        env={**env, "PROMPT_TOOLKIT_NO_CPR": "1"},
        cwd=str(notebook.parent),
        timeout=LIMIT_S,
        dimensions=(200, 200),
        encoding="utf-8",
        codec_errors="replace",
    )
    console.logfile_read = io.StringIO()
    try:
        below = play(console, [cell.source for cell in code_cells(notebook)])
        assert console.exitstatus == 0
        assert len(below) > RANKS
        assert wait_until(lambda: not any(map(alive, below)))
    finally:
        console.close(force=True)
        shown = ESCAPE.sub("", console.logfile_read.getvalue())
        print(shown)
    check_text(shown)
    assert re.findall(r"ZeroDivisionError: [a-z ]+", shown) == [
        "ZeroDivisionError: float division by zero"
    ]
    # A terminal cannot take back what some ranks drew before the others had.
    assert len(set(re.findall(r"<Figure size [^>]*>", shown))) == PICTURES
