"""The example notebook, run cell by cell on ranks of a real controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")
pytest.importorskip("matplotlib", reason="the notebook draws")
pytest.importorskip("sklearn", reason="the notebook reads a data set of scikit-learn")

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "quickstart.ipynb"


@pytest.mark.parametrize("world_size", [2, 4])
def test_quickstart(world_size: int) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    pictures = 0
    text = ""
    with Session(world_size) as session:
        for cell in code:
            assert cell["outputs"] == [] and cell["execution_count"] is None
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
