"""What a cell on many ranks leaves in a notebook."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import Kernel, StartKernel
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]


@pytest.fixture
def eight(start_kernel: StartKernel) -> Kernel:
    """A kernel of eight Python ranks."""
    return start_kernel(8, PROGRAM)


@pytest.mark.acceptance(4)
def test_a_raise_on_eight_ranks_is_one_error(eight: Kernel) -> None:
    cell = eight.run("def f():\n    raise ValueError('boom')\nf()")
    assert [m["msg_type"] for m in cell.kept()] == ["error"]
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] == "ValueError"
    assert cell.reply["evalue"] == "boom [ranks 0-7]"
    traceback = "\n".join(cell.reply["traceback"])
    assert traceback.count("Traceback (most recent call last)") == 1
    assert "[ranks 0-7]" in traceback
    assert "libsk" not in traceback


@pytest.mark.acceptance(4)
def test_nbclient_stops_at_the_error(start_kernel: StartKernel, tmp_path: Path) -> None:
    start_kernel(8, PROGRAM).stop()  # Leaves its kernelspec.
    cells = ["print('before')", "raise ValueError('boom')", "print('after')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
    manager = AsyncKernelManager(kernel_name="under-test", kernel_spec_manager=specs)
    with pytest.raises(CellExecutionError, match=r"(?s)boom.*\[ranks 0-7\]"):
        NotebookClient(notebook, km=manager, timeout=120).execute()
    first, second, third = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in first] == ["stream"]
    assert [output.output_type for output in second] == ["error"]
    assert third == []


@pytest.mark.acceptance(3)
def test_delays_change_nothing_in_what_is_kept(eight: Kernel) -> None:
    code = (
        "import random, threading\n"
        "def pause(): threading.Event().wait(random.random() * 0.03)\n"
        "for i in range(4):\n"
        "    pause(); print('line', i)\n"
        "    pause(); print('of rank', rank if i % 2 else rank // 4)\n"
        "rank % 3"
    )
    kept = set()
    for _ in range(50):
        cell = eight.run(code)
        outputs = [
            {k: v for k, v in m["content"].items() if k != "execution_count"} for m in cell.kept()
        ]
        # How a stream is cut into messages is no part of it.
        kept.add((cell.text(), cell.text("stderr"), repr([o for o in outputs if "data" in o])))
    assert len(kept) == 1
