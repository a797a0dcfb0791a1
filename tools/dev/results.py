"""Adding up what several test runners found, and the one closing line."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Outcome:
    """One test: its name, what became of it, and for a skip or failure why."""

    name: str
    state: str
    detail: str = ""


@dataclass
class Results:
    """Outcomes of all runners so far."""

    outcomes: list[Outcome] = field(default_factory=list)

    def add(self, outcomes: Iterable[Outcome]) -> None:
        self.outcomes.extend(outcomes)

    def having(self, state: str) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.state == state]

    def report(self) -> list[str]:
        """Skips by reason, failures with their text, and last the closing line."""
        lines: list[str] = []
        by_reason: dict[str, list[str]] = {}
        for outcome in self.having(SKIPPED):
            by_reason.setdefault(outcome.detail, []).append(outcome.name)
        for reason, names in sorted(by_reason.items()):
            lines += [f"skipped: {name}: {reason}" for name in names]
        for outcome in self.having(FAILED):
            lines.append(f"failed: {outcome.name}")
            lines += [f"    {line}" for line in outcome.detail.splitlines()[-40:]]
        counts = [f"{len(self.having(state))} {state}" for state in (PASSED, FAILED, SKIPPED)]
        return [*lines, ", ".join(counts)]


# googletest prints "FILE:LINE: Skipped", then what the test streamed into GTEST_SKIP().
_GTEST_SKIP = re.compile(r"^\S+:\d+: Skipped\n(.*?)(?=^\[ |\Z)", re.MULTILINE | re.DOTALL)


def skip_reason(output: str) -> str:
    """The reason in a skipped googletest case's output, on one line."""
    reasons = [" ".join(text.split()) for text in _GTEST_SKIP.findall(output)]
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or "no reason given"


# ctest's JUnit file lacks how a test ended; its list of those that failed has it.
_CTEST_ENDING = re.compile(r"^\s*\d+ - (\S+) \((.+)\)$", re.MULTILINE)


def with_endings(outcomes: list[Outcome], log: str) -> list[Outcome]:
    """The outcomes, of failed ones also how they ended where ctest's log says more than that."""
    endings = dict(_CTEST_ENDING.findall(log))
    return [
        replace(outcome, detail=f"{outcome.detail.rstrip()}\nended by: {endings[outcome.name]}")
        if outcome.state == FAILED and endings.get(outcome.name, "Failed") != "Failed"
        else outcome
        for outcome in outcomes
    ]


def read_junit(path: Path) -> list[Outcome]:
    """Outcomes in a JUnit file of ctest or pytest; both write <testcase>, with other details."""
    outcomes = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name", "?")
        if case.get("classname") not in (None, name):
            name = f"{case.get('classname')}.{name}"
        outcomes.append(_read_case(case, name))
    return outcomes


def _read_case(case: ElementTree.Element, name: str) -> Outcome:
    output = case.findtext("system-out") or ""
    for problem in (*case.findall("failure"), *case.findall("error")):
        text = problem.text or output or problem.get("message", "")
        return Outcome(name, FAILED, text)
    skipped = case.find("skipped")
    if skipped is not None:
        message = skipped.get("message", "")
        ctest_word = message in ("", "SKIP_REGULAR_EXPRESSION_MATCHED", "SKIP_RETURN_CODE=77")
        return Outcome(name, SKIPPED, skip_reason(output) if ctest_word else message)
    if case.get("status") in ("fail", "notrun", "disabled"):
        # A test whose program is missing "did not run": that is no pass.
        return Outcome(name, FAILED, output or f"ctest says {case.get('status')}")
    return Outcome(name, PASSED)
