"""docs/faults.md: it is what the table of faults makes, and names tests that are there."""

from __future__ import annotations

from pathlib import Path

import make_faults_page
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / make_faults_page.PAGE).read_text()


def test_the_page_is_what_the_table_says() -> None:
    assert not make_faults_page.has_drifted(ROOT)
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "|---|" not in line]
    assert [row.split(" | ")[0] for row in rows[1:]] == [f"| {i}" for i in range(1, 51)]
    assert {row.count("|") for row in rows} == {7}


def test_another_page_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = make_faults_page.table(ROOT)
    monkeypatch.setattr(make_faults_page, "table", lambda _: faults)
    assert make_faults_page.has_drifted(tmp_path)  # There is none.
    (tmp_path / "docs").mkdir()
    (tmp_path / make_faults_page.PAGE).write_text(PAGE)
    assert not make_faults_page.has_drifted(tmp_path)
    (tmp_path / make_faults_page.PAGE).write_text(PAGE.replace("1 s", "2 s", 1))
    assert make_faults_page.has_drifted(tmp_path)


class Named:
    """A fault of one test."""

    number = 7

    def __init__(self, test: str) -> None:
        self.tests = (test,)


@pytest.mark.parametrize(
    ("there", "not_there"),
    [
        ("Wet.Rain", "Wet.Snow"),
        ("Wet.*", "Dry.*"),
        ("fuzz_frames", "fuzz_rain"),
        ("tests/net/test_wet.py", "tests/net/test_dry.py"),
        ("tests/net/test_wet.py::test_rain[1-2]", "tests/net/test_wet.py::test_rai"),
    ],
)
def test_a_test_that_is_not_there_is_named(
    there: str, not_there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "tests/unit/wet_test.cc": "TEST_P(Wet, Rain) {}",
        "tests/fuzz/CMakeLists.txt": "foreach(target frames merge)",
        "tests/net/test_wet.py": "def test_rain() -> None:\n    pass\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(make_faults_page, "table", lambda _: (Named(there), Named(not_there)))
    (found,) = make_faults_page.missing_tests(tmp_path)
    assert found == f"tests/faults: fault 7 names {not_there}, which is not there"
