"""The table itself: what it must have, what its lines say, and how a run is added up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from faults import FAULTS, Lines, Verdict, of_run, without_run
from runner import Case, Seen, drawn, folders, pattern, read
from table import Fault

CTEST = """<testsuite>
<testcase name="A.B" status="run"/>
<testcase name="A.C/0  # GetParam() = 7" classname="A.C/0  # GetParam() = 7" status="fail">
<failure message=""/><system-out>no &amp; no</system-out></testcase>
<testcase name="A.D" classname="A.D" status="notrun"/>
<testcase name="A.E" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>x.cc:7: Skipped
not
here

</system-out></testcase>
<testcase name="test_t[1]" classname="tests.m.test_x"><system-out>and
seen: 1.5 s
so on</system-out></testcase></testsuite>
"""


def test_there_are_fifty_in_their_order() -> None:
    assert [fault.number for fault in FAULTS] == list(range(1, 51))
    assert len({fault.what for fault in FAULTS}) == 50


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_is_whole(fault: Fault) -> None:
    """It is tried and promises something, or says in one way why it is not."""
    ways = [bool(fault.tests), bool(fault.out_of_reach), bool(fault.not_built)]
    assert sum(ways) == 1
    assert bool(fault.does and fault.code) == bool(fault.tests)
    assert len(set(fault.tests)) == len(fault.tests)
    assert fault.tests or not (fault.seeds or fault.lacks or fault.within)
    for text in (fault.what, fault.does, fault.lacks, fault.out_of_reach, fault.not_built):
        assert not text.endswith(".")


def test_names_of_ctest_match_cases_and_nothing_else() -> None:
    matches = {
        "A.B": ["A.B", "All/A.B/0", "A.B/x"],
        "A.*": ["A.B", "All/A.C/0"],
        "fuzz_frames": ["fuzz_frames"],
    }
    others = ["XA.B", "A.Bx", "AxB", "fuzz_frames2", "xfuzz_frames"]
    for test, names in matches.items():
        assert all(re.search(pattern(test), name) for name in names)
        found = [name for name in others if re.search(pattern(test), name)]
        assert found == (["A.Bx"] if test == "A.*" else [])


def test_tests_of_pytest_are_run_by_folder() -> None:
    tests = ["tests/a/test_x.py::test_1", "A.B", "tests/b/test_x.py", "tests/a/test_y.py::t[1]"]
    assert folders(tests) == {"tests/a": [tests[0], tests[3]], "tests/b": [tests[2]]}


def test_results_are_read(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    file.write_text(CTEST)
    cases = read(file)
    assert [(case.name, case.state) for case in cases] == [
        ("A.B", "passed"),
        ("A.C/0", "failed"),
        ("A.D", "failed"),
        ("A.E", "skipped"),
        ("tests/m/test_x.py::test_t[1]", "passed"),
    ]
    seen = Seen()
    seen.add(["A.B", "A.E", "A.F", "tests/m/test_x.py::test_t", "tests/m/test_x.py"], cases)
    assert seen.passed == 2
    assert seen.skips == ["A.E: not here"]
    assert seen.failures == [
        "A.C/0:\nno & no",
        "A.D:\n",
        "A.F: there is no such test, or it did not run",
    ]
    assert seen.told == ["1.5 s"]


def test_one_of_several_cases_that_ran_is_enough() -> None:
    seen = Seen()
    seen.add(["A.*"], [Case("A.B/0", "skipped", "no"), Case("A.B/1", "passed", "")])
    assert (seen.passed, seen.skips, seen.failures) == (1, [], [])


FAULT = Fault(7, "Rain", "Dries", "`SK_OK`", "1 s", tests=("A.B",), seeds=("SK_RAIN",))


def test_a_seed_that_is_given_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SK_RAIN", raising=False)
    assert len({drawn(FAULT)["SK_RAIN"] for _ in range(4)}) > 1
    monkeypatch.setenv("SK_RAIN", "5")
    assert drawn(FAULT) == {"SK_RAIN": "5"}


def test_lines() -> None:
    seen = Seen(passed=2, seconds=3.2, told=["wet"], seeds={"SK_RAIN": "5"})
    start = "Rain: SK_OK (1 s); 2 tests in 3 s; wet"
    assert of_run(FAULT, seen) == (
        Verdict.AS_PROMISED,
        f" 7  as promised   {start}; SK_RAIN=5",
    )
    seen.skips.append("A.B: no clouds")
    assert of_run(FAULT, seen)[0] is Verdict.NOT_TRIED
    seen.failures.append("A.C:\nwrong")
    verdict, line = of_run(FAULT, seen)
    assert verdict is Verdict.FAILED
    assert line.endswith(f"{start}; not run: A.B: no clouds; 1 failed, as A.C:; SK_RAIN=5")
    assert without_run(Fault(8, "Snow", not_built="too warm")) == (
        Verdict.NOT_BUILT,
        " 8  not built     Snow: too warm",
    )


def test_lines_are_in_order_and_counted(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "told")
    assert lines.text() == ""
    lines.tell(Fault(3, "Snow"), Verdict.NOT_BUILT, "3 snow")
    lines.tell(Fault(1, "Rain"), Verdict.AS_PROMISED, "1 rain")
    lines.tell(Fault(2, "Hail"), Verdict.IN_PART, "2 hail")
    told = "1 rain\n2 hail\n3 snow\n1/3 as promised, 1 in part, 1 not built"
    assert lines.text() == told
    assert (tmp_path / "told").read_text() == f"{told}\n"
