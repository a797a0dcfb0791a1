"""Which tests show which acceptance check, and a table of them: "acceptance: N/14".

A test that shows a check, or a part of one, carries its number: ``@pytest.mark.acceptance(4)``. The
table stands at the end of a run of these tests; a check counts when at least one test of it ran and
none failed. ``pytest tests/kernel -m acceptance`` runs these alone.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

CHECKS = {
    1: "outsiders' conformance suites at 1, 4 and 16 ranks",
    3: "the same cell shows the same, however its ranks are delayed",
    4: "an error on all ranks is one error, and stops a run",
    5: "a killed rank ends its cell, and comes back by revive",
    6: "an interrupted sleep, twenty times",
    7: "an interrupted collective that one rank skips, and a rank stuck in C",
    8: "alike lines collapse, floods are thinned, every byte is kept",
    9: "a killed front end loses nothing",
    10: "answers while a cell runs",
    11: "input()",
    12: "pictures of ranks",
    14: "latency, start and memory beside ipykernel, 4 ranks and 256 stub ranks",
    18: "every way to print arrives, in order",
    19: "progress bars and widgets",
}

_outcomes: dict[int, dict[str, str]] = defaultdict(dict)
_numbers: dict[str, list[int]] = {}


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line("markers", "acceptance(number): shows this acceptance check")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Remembers which test shows which check."""
    for item in items:
        marks = [mark.args[0] for mark in item.iter_markers("acceptance")]
        unknown = set(marks) - CHECKS.keys() - {2}
        assert not unknown, f"{item.nodeid}: no acceptance check {unknown}"
        if marks:
            _numbers[item.nodeid] = marks


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps the worst of a test's phases."""
    for number in _numbers.get(report.nodeid, []):
        known = _outcomes[number].get(report.nodeid)
        if report.failed or known is None or (known == "passed" and report.skipped):
            _outcomes[number][report.nodeid] = report.outcome


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, if any test of it ran."""
    if not _outcomes:
        return
    terminalreporter.section("acceptance checks")
    good = 0
    for number, what in CHECKS.items():
        states = list(_outcomes[number].values())
        passed, failed = states.count("passed"), states.count("failed")
        state = "no test ran" if not passed + failed else "FAILED" if failed else "passed"
        good += state == "passed"
        tests = f"{passed} of {passed + failed} tests" if passed + failed else ""
        terminalreporter.line(f"{number:>3}  {state:<11}  {tests:<14} {what}")
    terminalreporter.line(f"acceptance: {good}/{len(CHECKS)}")
