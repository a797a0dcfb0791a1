"""PyTorch in ranks: process groups without an argument, and what becomes of them in trouble."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from conftest import SK, Cell, Kernel, StartKernel, alive, descendants
from nbclient import NotebookClient

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed; ./dev test --suite torch", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOK_S = 300
RANKS = 4
SUM = "x = torch.tensor([rank + 1.0]); dist.all_reduce(x); x.item()"


@pytest.fixture
def kernel(start_kernel: StartKernel) -> Iterator[Kernel]:
    """Four ranks with torch imported and something to lose."""
    kernel = start_kernel(RANKS, PROGRAM)
    kernel.run("import torch, torch.distributed as dist; kept = 7 * rank")
    yield kernel


def value(cell: Cell) -> str:
    """What the cell's last line is on all ranks alike."""
    assert cell.reply["status"] == "ok", cell.reply
    return str(cell.of("execute_result")[0]["data"]["text/plain"])


def interrupted(kernel: Kernel, code: str) -> Cell:
    """The cell, interrupted once it is under way."""
    number = kernel.start("print('under way', flush=True)\n" + code)
    kernel.wait_for_stream(number)
    kernel.manager.interrupt_kernel()
    return kernel.finish(number)


def keeps_state(kernel: Kernel) -> bool:
    """Whether all ranks answer with what they had."""
    lines = "".join(f"[{rank}] {7 * rank}\n" for rank in range(RANKS))
    return kernel.run("print(kept)").text() == lines


def test_a_group_without_an_argument(kernel: Kernel) -> None:
    assert value(kernel.run("dist.init_process_group()\n" + SUM)) == "10.0"
    code = "(dist.get_rank(), dist.get_world_size()) == (rank, world_size)"
    assert value(kernel.run(code)) == "True"


def test_a_group_anew(kernel: Kernel) -> None:
    """Whoever is first must not find the store of the group before."""
    kernel.run("dist.init_process_group()")
    for late in range(RANKS):
        code = f"""
        if rank == {late}: sum(range(10_000_000))
        dist.destroy_process_group()
        dist.init_process_group()
        """
        cell = kernel.run(textwrap.dedent(code) + SUM)
        assert value(cell) == "10.0"
        assert cell.text("stderr") == ""


def test_a_group_of_some_ranks(kernel: Kernel) -> None:
    code = """
    if rank in (1, 3):
        dist.init_process_group("gloo", rank=rank // 2, world_size=2)
        x = torch.tensor([rank]); dist.all_reduce(x)
        assert x.item() == 4
    """
    # Rank 1 is the group's rank 0, so it serves.
    assert kernel.run(textwrap.dedent(code)).reply["status"] == "ok"


@pytest.mark.parametrize("absent", [0, 2])
def test_a_start_that_is_interrupted(kernel: Kernel, absent: int) -> None:
    cell = interrupted(kernel, f"if rank != {absent}: dist.init_process_group()")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "did not stop" not in cell.reply["evalue"]
    assert keeps_state(kernel)
    assert value(kernel.run("dist.init_process_group()\n" + SUM)) == "10.0"


@pytest.mark.parametrize("absent", [0, 2])
def test_a_start_without_one_rank(kernel: Kernel, absent: int) -> None:
    code = f"""
    from datetime import timedelta
    if rank != {absent}: dist.init_process_group(timeout=timedelta(seconds=1))
    """
    cell = kernel.run(textwrap.dedent(code))
    assert cell.reply["ename"] == "TimeoutError"
    assert f"after 1 s rank {absent} has not called it" in cell.reply["evalue"]
    assert value(kernel.run("dist.init_process_group()\n" + SUM)) == "10.0"


@pytest.mark.parametrize("wait", ["dist.barrier()", "dist.recv(torch.zeros(1), src=2)"])
def test_a_wait_that_is_interrupted(kernel: Kernel, wait: str) -> None:
    kernel.run("dist.init_process_group()")
    cell = interrupted(kernel, f"if rank != 2: {wait}")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "[ranks 0,1,3]" in cell.reply["evalue"]
    assert "did not stop" not in cell.reply["evalue"]
    assert keeps_state(kernel)
    # The group is out of step: no wrong sums from it.
    refused = kernel.run("if rank != 2: dist.all_reduce(torch.ones(1))")
    assert refused.reply["ename"] == "RuntimeError"
    assert "out of step" in refused.reply["evalue"]
    again = "dist.destroy_process_group(); dist.init_process_group()\n"
    assert value(kernel.run(again + SUM)) == "10.0"


def test_a_wait_that_its_thread_may_take(kernel: Kernel) -> None:
    code = """
    import threading
    dist.init_process_group()
    work = dist.all_reduce(x := torch.ones(1), async_op=True)
    thread = threading.Thread(target=work.wait); thread.start(); thread.join()
    x.item(), work.is_completed()
    """
    assert value(kernel.run(textwrap.dedent(code).strip())) == "(4.0, True)"


def test_a_rank_that_dies(kernel: Kernel) -> None:
    kernel.run("dist.init_process_group()")
    ranks = descendants(kernel.pid)
    code = "import os, signal\nif rank == 2: os.kill(os.getpid(), signal.SIGKILL)\ndist.barrier()"
    cell = kernel.run(code)
    assert "RankDied: rank 2: killed by signal 9" in cell.reply["evalue"]
    kernel.stop()
    assert not [pid for pid in ranks if alive(pid)]


@pytest.mark.parametrize("variables", [{}, {"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "3,1"}])
def test_preloaded_ranks_have_the_threads_of_others(
    start_kernel: StartKernel, variables: dict[str, str]
) -> None:
    found = []
    for names in ("", "torch"):
        kernel = start_kernel(2, PROGRAM, {**variables, "SK_PRELOAD": names})
        assert kernel.run("import torch").text("stderr") == ""
        counts = kernel.run("print(torch.get_num_threads(), torch.get_num_interop_threads())")
        # A thread of the user's own has them, too.
        code = """
        import threading
        def work(): print(torch.get_num_threads())
        thread = threading.Thread(target=work); thread.start(); thread.join()
        """
        found.append((counts.text(), kernel.run(textwrap.dedent(code)).text()))
    assert found[0] == found[1]


def test_preloaded_ranks_work_as_others(start_kernel: StartKernel) -> None:
    kernel = start_kernel(RANKS, PROGRAM, {"SK_PRELOAD": "numpy,torch"})
    kernel.run("import torch, torch.distributed as dist; dist.init_process_group()")
    assert value(kernel.run(SUM)) == "10.0"
    # What a cell's import would have patched is patched.
    cell = interrupted(kernel, "if rank != 2: dist.barrier()")
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "did not stop" not in cell.reply["evalue"]
    code = """
    model = torch.nn.Linear(64, 64)
    model(torch.ones(256, 64)).sum().backward()
    model.bias.grad[0].item()
    """
    assert value(kernel.run(textwrap.dedent(code).strip())) == "256.0"


def test_preloaded_ranks_draw_their_own_numbers(start_kernel: StartKernel) -> None:
    kernel = start_kernel(RANKS, PROGRAM, {"SK_PRELOAD": "torch"})
    kernel.run("import torch")
    drawn = kernel.run("print(torch.rand(1).item())").text().split()[1::2]
    assert len(set(drawn)) == RANKS
    seeded = kernel.run("%sk seed 5\nprint(torch.rand(1).item())").text()
    kernel.run("torch.manual_seed(5 + rank)")
    assert kernel.run("print(torch.rand(1).item())").text() == seeded


SCRIPT = """
import torch, torch.distributed as dist
for turn in range(2):
    dist.init_process_group()
    x = torch.ones(1)
    dist.all_reduce(x)
    print(x.item())
    dist.barrier()
    dist.destroy_process_group()
"""


def test_a_script_under_sk_run(tmp_path: Path) -> None:
    """There PyTorch's own store takes the port that was held for it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [str(SK), "run", "-n", "3", sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=NOTEBOOK_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("3.0") == 6  # Of three processes, so not by line.


def executed(name: str) -> tuple[str, int]:
    """What an example prints, and how many pictures it shows."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=NOTEBOOK_S).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = sum("image/png" in output.get("data", {}) for output in outputs)
    return "".join(output.get("text", "") for output in outputs), pictures


def test_the_notebook(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.stop()
    monkeypatch.setenv("SK_NRANKS", str(RANKS))
    text, pictures = executed("torch.ipynb")
    assert text.count("after:  10.0\n") == 1
    assert "True True 10.0\n" in text
    assert "4 ranks are together again" in text
    right = float(text.split("% of the points")[0].rsplit("\n", 1)[1])
    assert right > 90
    assert pictures == RANKS + 4  # A part of the rose for each rank; the others are alike.


def test_five_cells(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel.stop()
    monkeypatch.setenv("SK_NRANKS", str(RANKS))
    text, pictures = executed("examples.ipynb")
    assert text.count("sum:  10.0\n") == 2  # By comm, and by torch.distributed.
    assert text.count(" has 2,500 samples\n") == RANKS
    assert "comm.barrier()" in text and "dist.barrier()" in text
    assert pictures == 1
