"""docs/c.md: its program is compiled and run as it says, and it knows every header."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from reader import ROOT, what_is_wrong

PAGE = ROOT / "docs" / "c.md"


def test_the_program_runs(tmp_path: Path) -> None:
    wrong = what_is_wrong(PAGE, tmp_path)
    assert not wrong, "\n\n".join(wrong)


def test_it_names_every_header() -> None:
    there = {f"sk/{path.name}" for path in (ROOT / "include" / "sk").glob("*.h")}
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `sk/")]
    assert set(re.findall(r"`(sk/\w+\.h)`", "\n".join(rows))) == there
