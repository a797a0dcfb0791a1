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


@dataclass
class Seen:
    """What became of a fault's tests."""

    passed: int = 0
    skips: list[str] = field(default_factory=list)  # Reasons.
    failures: list[str] = field(default_factory=list)  # Names, and what they said.
    told: list[str] = field(default_factory=list)  # What tests have measured.
    seconds: float = 0
    seeds: dict[str, str] = field(default_factory=dict)

    def add(self, other: Seen) -> None:
        self.passed += other.passed
        self.skips += other.skips
        self.failures += other.failures
        self.told += other.told


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


def run(fault: Fault) -> Seen:
    """All of them, with fresh seeds unless the environment has some."""
    seen = Seen(seeds=drawn(fault))
    start = time.monotonic()
    env = {**os.environ, **seen.seeds}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.xml"
        of_ctest = [test for test in fault.tests if not is_of_pytest(test)]
        if of_ctest:
            seen.add(run_ctest(of_ctest, file, env))
        for tests in folders(fault.tests).values():
            seen.add(run_pytest(tests, file, env))
    seen.seconds = time.monotonic() - start
    return seen


def drawn(fault: Fault) -> dict[str, str]:
    """A seed for each of its variables."""
    fresh = random.SystemRandom().randrange(1, 1 << 30)
    return {name: os.environ.get(name, str(fresh)) for name in fault.seeds}


def run_ctest(tests: list[str], file: Path, env: dict[str, str]) -> Seen:
    """Each of the names must be there."""
    command = ["ctest", "--test-dir", str(BUILD), "--output-junit", str(file)]
    command += ["--timeout", str(CASE_TIMEOUT_S), "--output-on-failure", "--no-tests=error"]
    command += ["--test-output-size-passed", "65536", "--test-output-size-failed", "65536"]
    command += ["-R", "|".join(map(pattern, tests))]
    seen = run_all(command, file, env)
    names = [case.get("name", "") for case in cases(file)]
    for test in tests:
        if not any(re.search(pattern(test), name) for name in names):
            seen.failures.append(f"{test}: ctest has no such test")
    return seen


def run_pytest(tests: list[str], file: Path, env: dict[str, str]) -> Seen:
    """Of one folder; a name that is not there ends it with a sentence."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--color=no", "--junit-xml", str(file), "-o", "junit_logging=system-out"]
    command += ["-o", f"faulthandler_timeout={CASE_TIMEOUT_S}"]
    command += ["-o", "faulthandler_exit_on_timeout=true"]
    return run_all([*command, *tests], file, env)


def run_all(command: list[str], file: Path, env: dict[str, str]) -> Seen:
    """What a runner's file of results says, and its own status."""
    file.unlink(missing_ok=True)
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
        return Seen(failures=[f"{command[0]} ran for {RUN_TIMEOUT_S} s and was stopped"])
    print(done.stdout)
    seen = read(file)
    if done.returncode != 0 and not seen.failures:
        tail = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
        seen.failures.append(f"{command[0]} ended with {done.returncode}:\n{tail}")
    return seen


def cases(file: Path) -> Iterator[ElementTree.Element]:
    """Of a JUnit file of ctest or pytest."""
    if file.exists():
        yield from ElementTree.parse(file).getroot().iter("testcase")


_GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*?)(?=^\[ |\Z)", re.MULTILINE | re.DOTALL)
_TOLD = re.compile(r"^seen: (.*)$", re.MULTILINE)  # A line that a test prints.


def read(file: Path) -> Seen:
    """Adds up its cases."""
    seen = Seen()
    for case in cases(file):
        name, output = case.get("name", "?"), case.findtext("system-out") or ""
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if problem is not None or case.get("status") in ("fail", "notrun", "disabled"):
            said = (problem.text if problem is not None else "") or output
            seen.failures.append(f"{name}:\n" + "\n".join(said.splitlines()[-TAIL_LINES:]))
        elif skipped is not None:
            reasons = [" ".join(text.split()) for text in _GTEST_SKIP.findall(output)]
            seen.skips.append(f"{name}: {'; '.join(reasons) or skipped.get('message', '')}")
        else:
            seen.passed += 1
        seen.told += _TOLD.findall(output)
    return seen
