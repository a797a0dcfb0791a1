"""The tutorial, followed word for word: every block of code that it has, page by page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pages import FILE, read_page
from reader import ROOT, what_is_wrong

FOLDER = ROOT / "docs" / "tutorial"
STEPS = sorted(FOLDER.glob("[0-9]*.md"))
FENCE = re.compile(r"^ *(```+|~~~+)(\w*)", re.MULTILINE)


def test_steps_have_their_numbers() -> None:
    assert len(STEPS) >= 5
    for number, step in enumerate(STEPS, start=1):
        assert step.name.startswith(f"{number}-")
        assert step.read_text().startswith(f"# {number}. ")
        assert f"({step.name})" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.stem)
def test_every_block_is_run(step: Path) -> None:
    text = step.read_text()
    fences = list(FENCE.finditer(text))
    opening = fences[::2]
    for fence in opening:
        of_file = FILE.search(text[: fence.start()])
        what = f"{step.name}: a block of {fence[2] or 'nothing'}, which nobody runs"
        assert of_file or fence[2] in ("python", "output", "console"), what
        assert fence[1] == "```", what
        if of_file:  # The comment is not seen on the page.
            paragraph = text[: of_file.start()].rstrip().rsplit("\n\n", 1)[-1]
            assert f"`{of_file[1]}`" in paragraph, f"{step.name}: nobody hears of {of_file[1]}"
    outputs = sum(1 for fence in opening if fence[2] == "output")
    assert len(read_page(step)) == len(opening) - outputs


def test_the_overview_has_no_code() -> None:
    assert not FENCE.search((FOLDER / "README.md").read_text())


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.stem)
def test_a_step_is_true(step: Path, tmp_path: Path) -> None:
    wrong = what_is_wrong(step, tmp_path)
    assert not wrong, "\n\n".join(wrong)
