"""The example notebooks, run cell by cell on ranks of a real controller."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")
pytest.importorskip("matplotlib", reason="the notebook draws")
pytest.importorskip("sklearn", reason="the notebook reads a data set of scikit-learn")

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def code_of(notebook: str) -> list[dict[str, Any]]:
    """Its cells of code, none of which has been run."""
    cells = json.loads((EXAMPLES / notebook).read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    return code


@pytest.mark.parametrize("world_size", [2, 4])
def test_quickstart(world_size: int) -> None:
    pictures = 0
    text = ""
    with Session(world_size) as session:
        for cell in code_of("quickstart.ipynb"):
            result = session.collect(session.start("".join(cell["source"])), limit_s=120.0)
            may_fail = "raises-exception" in cell["metadata"].get("tags", [])
            assert (result.status == 1) != may_fail, result
            if may_fail:
                assert result.ename == "ZeroDivisionError" and "rank 1" in result.evalue
            drawn = [ranks for ranks, bundle in result.displays if "image/png" in bundle]
            # Drawn alike on every rank, so shown once.
            assert drawn in ([], [f"0-{world_size - 1}"], ["0,1"])
            pictures += len(drawn)
            text += result.out
    assert pictures == 3
    assert f"{world_size} ranks on Python" in text
    assert f"{world_size} of {world_size} ranks are here" in text
    share = float(text.split(" digits trained on, ")[1].split("%")[0])
    assert share > 90


@pytest.mark.parametrize("world_size", [1, 3])
def test_five_cells(world_size: int) -> None:
    pictures, text = 0, ""
    with Session(world_size) as session:
        for cell in code_of("examples.ipynb"):
            source = "".join(cell["source"])
            if source == "%info":
                continue  # The front end's: no rank sees it.
            result = session.collect(session.start(source), limit_s=120.0)
            assert result.status == 1, result
            pictures += sum("image/png" in bundle for _, bundle in result.displays)
            text += result.out
    assert pictures == 1
    assert f"sum:  {world_size * (world_size + 1) / 2}\n" in text
    assert "all 1,000,000: mean +0.000437, spread 0.706942" in text
    assert "comm.barrier()" in text
    if find_spec("torch") is None:
        assert text.count("PyTorch is not installed here") == 1
