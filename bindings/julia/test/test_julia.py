"""LibSK.jl: its own tests, on one rank and several, and what they say of planted mistakes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import PACKAGE, ROOT, TESTS, Run

ALONE = (
    "abi",
    "adamw",
    "ahead",
    "arrays",
    "bfloat16",
    "columns",
    "help",
    "lifetimes",
    "session_attach",
    "session_cells",
    "session_tasks",
    "sessions",
    "topology",
)
TOGETHER = ("collectives", "prepared", "products")
FAULTS = ("faults",)


def passes(run: Run, name: str, ranks: int) -> None:
    """Runs one of the programs; what it printed is the failure's text."""
    done = run(TESTS / f"{name}.jl", ranks)
    assert done.returncode == 0, f"{done.stdout[-20000:]}\n{done.stderr[-20000:]}"


@pytest.mark.parametrize("name", ALONE)
def test_alone(run: Run, name: str) -> None:
    passes(run, name, 1)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", TOGETHER)
def test_on_ranks(run: Run, name: str, ranks: int) -> None:
    passes(run, name, ranks)


@pytest.mark.parametrize("name", FAULTS)
def test_on_three(run: Run, name: str) -> None:
    passes(run, name, 3)


PLANTED = {
    "a tensor whose sides are exchanged": (
        "arrays.jl",
        "return tensor(x, axes_of(m, n), axes_of(max(step, n, 1), 1), 2)",
        "return tensor(x, axes_of(n, m), axes_of(max(m, 1), 1), 2)",
        "columns",
    ),
    "a product whose transposes are exchanged": (
        "collectives.jl",
        "            a_.turned,\n            b_.turned,",
        "            b_.turned,\n            a_.turned,",
        "products",
    ),
    "an operation whose results are exchanged": (
        "local.jl",
        '        columns("y", y),\n        columns("total", total),',
        '        columns("total", total),\n        columns("y", y),',
        "columns",
    ),
    "a sum that is a product": (
        "calls.jl",
        "redop(::typeof(+)) = Int32(1)",
        "redop(::typeof(+)) = Int32(2)",
        "collectives",
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(run: Run, tmp_path: Path, mistake: str) -> None:
    name, right, wrong, program = PLANTED[mistake]
    package = tmp_path / "julia"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("test"))
    source = package / "src" / name
    text = source.read_text()
    assert right in text
    source.write_text(text.replace(right, wrong))
    ranks = 2 if program == "collectives" else 1
    done = run(TESTS / f"{program}.jl", ranks, package=package, depot=tmp_path / "depot")
    assert done.returncode != 0
    assert "Test Summary" in done.stdout, done.stderr[
        -5000:
    ]  # It found what was wrong; it did not merely break.


def example(page: Path, heading: str = "") -> str:
    """The first program in Julia under a heading, or of the page."""
    pattern = rf"{heading}.*?^```julia\n(.*?)^```"
    found = re.search(pattern, page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, page
    return found[1]


def test_the_pages_examples_run_as_they_are_printed(run: Run, tmp_path: Path) -> None:
    pages = {"hello": (PACKAGE / "README.md", ""), "product": (ROOT / "README.md", "^### Julia$")}
    output = {}
    for name, (page, heading) in pages.items():
        program = tmp_path / f"{name}.jl"
        program.write_text(example(page, heading))
        assert len(program.read_text().splitlines()) <= 15
        done = run(program, 2)
        assert done.returncode == 0, done.stderr
        output[name] = done.stdout
    for line in ("rank 0: Float32[3.0, 3.0, 3.0], y is 8×2", "rank 1:"):
        assert line in output["hello"]
        assert line in (PACKAGE / "README.md").read_text()
    errors = [float(word) for word in re.findall(r"relative error (\S+)", output["product"])]
    assert len(errors) == 2
    assert all(error < 1e-5 for error in errors)


def test_the_example_of_sessions(run: Run, tmp_path: Path) -> None:
    page = ROOT / "docs" / "python-sessions.md"
    program = tmp_path / "four.jl"
    program.write_text(example(page, "^## From Julia$"))
    done = run(program)
    assert done.returncode == 0, done.stderr
    promised = re.search(r"^## From Julia$.*?^```text\n(.*?)^```", page.read_text(), re.M | re.S)
    assert promised and done.stdout == promised[1]
