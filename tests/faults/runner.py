"""Runs the tests that a fault of the table names, where they are, and adds up what they said."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from table import Fault

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SK_BUILD_DIR", ROOT / "build" / "release"))
RUN_TIMEOUT_S = 900  # Of all tests of a fault in one place.
CASE_TIMEOUT_S = 300
TAIL_LINES = 60


@dataclass(frozen=True)
class Case:
    """One test that was run, as its runner names it."""

    name: str  # Of ctest the whole, of pytest FILE::FUNCTION[CASE].
    state: str  # "passed", "failed" or "skipped".
    said: str


@dataclass
class Seen:
    """What became of a fault's tests."""

    passed: int = 0
    skips: list[str] = field(
        default_factory=list
    )  # Tests of the table that nothing ran of, and why.
    failures: list[str] = field(default_factory=list)  # Names, and what they said.
    told: list[str] = field(default_factory=list)  # What tests have measured.
    seconds: float = 0
    seeds: dict[str, str] = field(default_factory=dict)

    def add(self, tests: list[str], cases: list[Case]) -> None:
        """What a runner has said of some of the table's tests."""
        for case in cases:
            self.passed += case.state == "passed"
            if case.state == "failed":
                last = "\n".join(case.said.splitlines()[-TAIL_LINES:])
                self.failures.append(f"{case.name}:\n{last}")
            self.told += [told for told in _TOLD.findall(case.said) if told not in self.told]
        for test in tests:
            of_test = [case for case in cases if is_case_of(test, case.name)]
            if not of_test:
                self.failures.append(f"{test}: there is no such test, or it did not run")
            elif all(case.state == "skipped" for case in of_test):
                self.skips.append(f"{test}: {of_test[0].said}")


_TOLD = re.compile(r"^seen: (.*)$", re.MULTILINE)  # A line that a test prints.


def is_of_pytest(test: str) -> bool:
    """By its form; what else there is are names of ctest."""
    return "/" in test


def folders(tests: Iterable[str]) -> dict[str, list[str]]:
    """Tests of pytest by folder: each is a run of its own, for its conftest.py."""
    found: dict[str, list[str]] = {}
    for test in tests:
        if is_of_pytest(test):
            found.setdefault(str(Path(test.split("::")[0]).parent), []).append(test)
    return found


def pattern(test: str) -> str:
    """What ctest's names are searched for; suites may have a word before, and cases one behind."""
    name = re.escape(test.removesuffix("*"))
    if "." not in test:
        return f"^{name}$"
    ends = ["."] if test.endswith("*") else ["$", "/"]
    return "|".join(f"{begin}{name}{end}" for begin in ("^", "/") for end in ends)


def is_case_of(test: str, name: str) -> bool:
    """Whether a case that was run is one of the table's test."""
    if not is_of_pytest(test):
        return re.search(pattern(test), name) is not None
    return name == test or name.startswith((f"{test}[", f"{test}::"))


def run(fault: Fault) -> Seen:
    """All of them, with fresh seeds unless the environment has some."""
    seen = Seen(seeds=drawn(fault))
    start = time.monotonic()
    env = {**os.environ, **seen.seeds}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.xml"
        for tests, command in commands(fault.tests, file):
            run_all(seen, tests, command, file, env)
    seen.seconds = time.monotonic() - start
    return seen


def drawn(fault: Fault) -> dict[str, str]:
    """A seed for each of its variables."""
    fresh = random.SystemRandom().randrange(1, 1 << 30)
    return {name: os.environ.get(name, str(fresh)) for name in fault.seeds}


def commands(tests: Iterable[str], file: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Which tests are run together, and how; results go to `file`."""
    of_ctest = [test for test in tests if not is_of_pytest(test)]
    if of_ctest:
        command = ["ctest", "--test-dir", str(BUILD), "--output-junit", str(file)]
        command += ["--timeout", str(CASE_TIMEOUT_S), "--output-on-failure", "--no-tests=error"]
        command += ["--test-output-size-passed", "65536", "--test-output-size-failed", "65536"]
        yield of_ctest, [*command, "-R", "|".join(map(pattern, of_ctest))]
    for together in folders(tests).values():
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [f"--rootdir={ROOT}"]  # For names that are the table's.
        command += ["--color=no", "--junit-xml", str(file), "-o", "junit_logging=system-out"]
        command += ["-o", f"faulthandler_timeout={CASE_TIMEOUT_S}"]
        yield together, [*command, "-o", "faulthandler_exit_on_timeout=true", *together]


def run_all(
    seen: Seen, tests: list[str], command: list[str], file: Path, env: dict[str, str]
) -> None:
    """What a runner's file of results says, and its own status."""
    file.unlink(missing_ok=True)
    failed_before = len(seen.failures)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=RUN_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        seen.failures.append(f"{command[0]} ran for {RUN_TIMEOUT_S} s and was stopped")
        return
    print(done.stdout)
    if file.exists():
        seen.add(tests, read(file))
    if done.returncode != 0 and len(seen.failures) == failed_before:
        tail = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
        seen.failures.append(f"{command[0]} ended with {done.returncode}:\n{tail}")


_GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*?)(?=^\[ |\Z)", re.MULTILINE | re.DOTALL)


def read(file: Path) -> list[Case]:
    """Of a JUnit file of ctest or pytest."""
    return [read_case(case) for case in ElementTree.parse(file).getroot().iter("testcase")]


def read_case(case: ElementTree.Element) -> Case:
    """What both write, in their own ways: of ctest's a skipped one has not run either."""
    name, place = case.get("name", "?").split("  # ")[0], case.get("classname", "")
    if "." in place and place != case.get("name"):
        name = f"{place.replace('.', '/')}.py::{name}"
    output = case.findtext("system-out") or ""
    for problem in (*case.findall("failure"), *case.findall("error")):
        return Case(name, "failed", problem.text or output)
    skipped = case.find("skipped")
    if skipped is not None:
        reasons = [" ".join(text.split()) for text in _GTEST_SKIP.findall(output)]
        return Case(name, "skipped", "; ".join(reasons) or skipped.get("message", ""))
    if case.get("status") in ("fail", "notrun", "disabled"):
        return Case(name, "failed", output)
    return Case(name, "passed", output)
