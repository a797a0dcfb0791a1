"""What the system image is for: first cells compile nothing of the rank or LibSK. To make one
takes minutes, so this is for SK_JULIA_IMAGE=1, or kernels with one in SK_JULIA_KERNELS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Kernel, start

CELLS = (
    "1 + 1",
    "using LibSK",
    "allreduce(comm, Float32[1, 2])",
    "allreduce(comm, [1.0 2.0; 3.0 4.0]; op = max)",
    "allgather(comm, Float32[1, 2])",
    "barrier(comm)",
)


@pytest.fixture
def traced(spec: Path, tmp_path: Path) -> tuple[Kernel, Path]:
    """A kernel whose rank writes down what it compiles, and where."""
    about = json.loads((spec / "superkernel-julia" / "kernel.json").read_text())
    argv = about["argv"]
    if "-J" not in argv:
        pytest.skip("the kernel has no system image; SK_JULIA_IMAGE=1 makes one")
    compiled = tmp_path / "compiled"
    argv.insert(argv.index("-J"), f"--trace-compile={compiled}")
    (tmp_path / "traced").mkdir()
    (tmp_path / "traced" / "kernel.json").write_text(json.dumps(about))
    return start(tmp_path, 1, "traced"), compiled


def test_first_cells_compile_nothing_of_ours(traced: tuple[Kernel, Path]) -> None:
    kernel, compiled = traced
    try:
        for code in CELLS:
            assert kernel.run(code).reply["status"] == "ok"
        (shown,) = kernel.run("names(Main, all = true)").of("execute_result")
    finally:
        kernel.stop()
    ours = [
        line
        for line in compiled.read_text().splitlines()
        if "LibSK" in line or "SuperKernelRank" in line
    ]
    assert not ours, "\n".join(ours)
    for name in (":x_", ":f_", ":tell", ":allreduce"):
        assert name not in shown["data"]["text/plain"].split()


def test_every_name_is_the_notebooks_own(traced: tuple[Kernel, Path]) -> None:
    """A function `f` needs a type `#f`, which what the image has run may not have taken."""
    kernel, _ = traced
    try:
        for name in "abcdefghijklmnopqrstuvwxyz":
            cell = kernel.run(f"{name}(of) = of + 1\n{name}(1)")
            assert cell.reply["status"] == "ok", cell.reply
        hidden = r'count(each -> occursin(r"^#[a-z]+$", string(each)), names(Main, all = true))'
        (own,) = kernel.run(hidden).of("execute_result")
    finally:
        kernel.stop()
    assert own["data"]["text/plain"] == "26"
