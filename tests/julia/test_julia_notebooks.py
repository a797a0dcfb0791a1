"""Julia's examples/*.ipynb: what is stored in them came from a whole run, and a run on four ranks
leads to outputs of the same kinds, with no error but where one is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT, Kernel, start

RANKS = 4
NOTEBOOKS = ("quickstart-julia", "svd")


def code_of(name: str) -> list[Any]:
    """Its cells of code."""
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    assert notebook.metadata.kernelspec.name == "superkernel-julia"
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def may_fail(cell: Any) -> bool:
    """Whether its error is part of what it shows."""
    return "raises-exception" in cell.metadata.get("tags", [])


def kinds(outputs: list[Any]) -> list[Any]:
    """What is shown, without what differs from run to run; text that came in pieces is one."""
    found: list[Any] = []
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            what = [kind, output["name"]]
        elif kind == "error":
            what = [kind, output["ename"], output["evalue"]]
        else:
            what = [kind, *sorted(output["data"])]
        if found[-1:] != [what] or kind != "stream":
            found.append(what)
    return found


def text_of(outputs: list[Any]) -> str:
    """All that was printed."""
    return "".join(each["text"] for each in outputs if each["output_type"] == "stream")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_is_stored_is_of_one_run(name: str) -> None:
    cells = code_of(name)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert failed == may_fail(cell), cell.source
        assert not any(output.get("name") == "stderr" for output in cell.outputs), cell.source
        assert (
            cell.source.rstrip().endswith(";")
            or cell.outputs
            or "@assert" in cell.source
            or ("struct Plot" in cell.source)
        ), cell.source


@pytest.fixture
def fresh(spec: Path) -> Iterator[Kernel]:
    """A kernel that has run nothing."""
    kernel = start(spec, RANKS)
    yield kernel
    kernel.stop()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_run_shows_the_same(fresh: Kernel, name: str) -> None:
    printed = ""
    for cell in code_of(name):
        ran = fresh.run(cell.source)
        outputs = [
            {"output_type": message["msg_type"], **message["content"]} for message in ran.kept()
        ]
        assert (ran.reply["status"] == "error") == may_fail(cell), ran.reply
        said, stored = kinds(outputs), kinds(cell.outputs)
        # Precompiling LibSK is told where no image holds it.
        said = [each for each in said if each != ["stream", "stderr"]]
        assert said == stored, cell.source
        printed += text_of(outputs)
    check = {"quickstart-julia": check_quickstart, "svd": check_svd}[name]
    check(printed)


def check_quickstart(printed: str) -> None:
    """What the cells have found of themselves."""
    assert f"{RANKS} ranks on Julia" in printed
    assert "as near to the whole product as Float32 allows: true" in printed
    assert "all ranks are here" in printed
    assert abs(float(re.findall(r"the weight of sin\(2t\) is (\S+)", printed)[0]) - 0.8) < 0.1


def check_svd(printed: str) -> None:
    """Every error in units of eps: four of each type, beside LAPACK's own."""
    errors = re.findall(r"(\w+) +spread over the ranks +(\S+) +LAPACK, whole +(\S+)", printed)
    assert len(errors) == 8
    for name, ours, lapacks in errors:
        assert float(ours) < 48, name
        assert float(ours) < 4 * float(lapacks) + 4, name
    assert printed.count(" ms\n") == RANKS + 1
