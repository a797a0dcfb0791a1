"""SVG figures that are alike are the same text on every rank."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")
pytest.importorskip("matplotlib")

# Ids are random per process, so two processes draw the figure.
DRAW = """
import io, sys
from libsk.kernel import imports
imports.install()
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
{before}
plt.plot([1, 2])
out = io.BytesIO()
plt.savefig(out, format={format!r}{options})
assert matplotlib.rcParams["svg.hashsalt"] == {salt!r}
sys.stdout.buffer.write(out.getvalue())
"""


def drawn(
    before: str = "", format: str = "svg", options: str = "", salt: str | None = None
) -> bytes:
    """The figure as another process draws it."""
    code = DRAW.format(before=before, format=format, options=options, salt=salt)
    return subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, timeout=120
    ).stdout


def test_the_same_figure_is_the_same_text() -> None:
    first = drawn()
    assert b"<svg" in first and b"dc:date" not in first
    assert drawn() == first


def test_what_the_user_sets_stays() -> None:
    salted = drawn("plt.rcParams['svg.hashsalt'] = 'mine'", salt="mine")
    assert salted != drawn()
    assert b"1999-12-31" in drawn(options=", metadata={'Date': '1999-12-31'}")
    assert b"1970-01-01" in drawn("import os; os.environ['SOURCE_DATE_EPOCH'] = '0'")


def test_other_formats_are_not_touched() -> None:
    assert b"CreationDate" in drawn(format="pdf")
