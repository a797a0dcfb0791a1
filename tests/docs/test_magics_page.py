"""docs/notebook/magics.md: its list of magics is the one that the front end has."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tools" / "sk_kernel" / "magic_table.cpp"
PAGE = ROOT / "docs" / "notebook" / "magics.md"
ENTRY = re.compile(r'\{"(%[^"]+)", "([^"]*)",\s*"([^"]+)",')
ROW = re.compile(r"^\| `(%[^`]+)` \| ([^(|]+?) *(?:\(.*\) )?\|$", re.MULTILINE)


def test_it_lists_all_of_them_in_their_words() -> None:
    known = {
        f"{name} {arguments}".strip(): what
        for name, arguments, what in ENTRY.findall(TABLE.read_text())
    }
    assert len(known) == TABLE.read_text().count('      {"%') > 15
    section = PAGE.read_text().split("## All of them")[1].split("\n## ")[0]
    listed = {
        usage.replace("\\|", "|"): what.replace("`", "") for usage, what in ROW.findall(section)
    }
    assert listed == known
