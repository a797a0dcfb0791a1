"""What docs/doctor.md names is what `sk doctor` looks at, and it knows every variable of ours."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCTOR = ROOT / "tools" / "sk_doctor"


def test_the_doctor_knows_the_variables_that_the_page_of_them_has() -> None:
    page = (ROOT / "docs" / "env.md").read_text()
    documented = set(re.findall(r"^\| `(SK_[A-Z_]+)` \|", page, re.MULTILINE))
    text = (DOCTOR / "variables.cpp").read_text()
    known = set(re.findall(r'"(SK_[A-Z_]+)"', text)) - {"SK_"}
    assert documented == known


def test_the_page_names_every_finding() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text()
    text = "".join(path.read_text() for path in sorted(DOCTOR.glob("check_*.cpp")))
    named = set(re.findall(r'(?:ok|info|limit|fault)\(\s*"([a-z.-]+)"', text))
    assert len(named) >= 13
    missing = {name for name in named if f"`{name}`" not in page}
    assert not missing
