"""docs/python-sessions.md: its programs run and print what it says."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import read_page
from reader import ROOT, what_is_wrong

PAGE = ROOT / "docs" / "python-sessions.md"


def test_the_programs_run(tmp_path: Path) -> None:
    wrong = what_is_wrong(PAGE, tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_programs_are_among_what_is_run() -> None:
    kinds = [example.kind for example in read_page(PAGE)]
    assert (kinds.count("console"), kinds.count("python")) == (2, 0)
