"""Adding up runners: nothing is lost, and a skip keeps its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import results
import setup as environment
from results import FAILED, PASSED, SKIPPED, Outcome, Results

CTEST = """<?xml version="1.0"?><testsuite tests="4">
<testcase name="A.Passes" classname="A.Passes" status="run"><system-out>ok</system-out></testcase>
<testcase name="A.Skips" classname="A.Skips" status="notrun">
<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[ RUN      ] A.Skips
/src/a_test.cc:12: Skipped
no AMX on this CPU

[  SKIPPED ] A.Skips (0 ms)</system-out></testcase>
<testcase name="A.Fails" classname="A.Fails" status="fail"><failure message="Failed"/>
<system-out>a_test.cc:3: Failure</system-out></testcase>
<testcase name="a_NOT_BUILT" classname="a_NOT_BUILT" status="notrun"><system-out/></testcase>
</testsuite>"""

PYTEST = """<?xml version="1.0"?><testsuites><testsuite tests="3">
<testcase classname="tests.a" name="test_x"/>
<testcase classname="tests.a" name="test_y"><skipped message="needs two hosts"/></testcase>
<testcase classname="tests.a" name="test_z"><error message="boom">Traceback</error></testcase>
</testsuite></testsuites>"""


def read(folder: Path, text: str) -> list[Outcome]:
    path = folder / "junit.xml"
    path.write_text(text)
    return results.read_junit(path)


def test_ctest(tmp_path: Path) -> None:
    passed, skipped, failed, not_built = read(tmp_path, CTEST)
    assert passed == Outcome("A.Passes", PASSED)
    assert skipped == Outcome("A.Skips", SKIPPED, "no AMX on this CPU")
    assert (failed.state, failed.detail) == (FAILED, "a_test.cc:3: Failure")
    assert not_built.state == FAILED


def test_ctest_says_how_a_test_ended(tmp_path: Path) -> None:
    log = """The following tests FAILED:
\t  3 - A.Fails (SEGFAULT)
\t  1 - A.Passes (Timeout)
"""
    passed, _, failed, _ = results.with_endings(read(tmp_path, CTEST), log)
    assert passed == Outcome("A.Passes", PASSED)
    assert failed.detail == "a_test.cc:3: Failure\nended by: SEGFAULT"
    again = results.with_endings(read(tmp_path, CTEST), log.replace("SEGFAULT", "Failed"))
    assert again[2].detail == "a_test.cc:3: Failure"


def test_pytest(tmp_path: Path) -> None:
    passed, skipped, failed = read(tmp_path, PYTEST)
    assert passed == Outcome("tests.a.test_x", PASSED)
    assert skipped == Outcome("tests.a.test_y", SKIPPED, "needs two hosts")
    assert failed == Outcome("tests.a.test_z", FAILED, "Traceback")


def test_the_report_closes_with_the_sum(tmp_path: Path) -> None:
    both = Results()
    both.add(read(tmp_path, CTEST))
    both.add(read(tmp_path, PYTEST))
    lines = both.report()
    assert lines[-1] == "2 passed, 3 failed, 2 skipped"
    assert "skipped: A.Skips: no AMX on this CPU" in lines
    assert "skipped: tests.a.test_y: needs two hosts" in lines
    assert "failed: A.Fails" in lines


@pytest.mark.parametrize(
    ("verb", "expected"), [("test", ["cmake", "g++"]), ("check", ["cmake", "g++", "clang-tidy"])]
)
def test_packages_by_verb(verb: str, expected: list[str]) -> None:
    text = "# comment\ncmake\n\ng++  # compiler\nclang-tidy @check @x\nlibfoo @bench\n"
    assert environment.read_packages(text, verb) == expected


def test_a_package_that_no_archive_has_is_missing() -> None:
    assert environment.missing_packages(["libc6", "no-such-package"]) == ["no-such-package"]
