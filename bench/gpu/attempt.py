"""One try of a step: its program, what it sees, and what its output says of it.

A step that had to be killed is tried once more with its program's watched form, whose kernels end
by themselves where they hang, and say who waits where.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpu import package, places, process, steps
from gpu.package import Package
from gpu.steps import Step

HOME = Path(__file__).resolve().parent.parent
# The first program that opens a GPU starts it, and reads hundreds of megabytes of cuBLASLt from a
# disk that has never been read.
FIRST_S, PROBE_S, ASKED = 120.0, 30.0, 2
WAIT_SHARE = 0.25  # Of a step's time, that one wait in its kernels may last.
PASSED, FAILED, KILLED = "passed", "failed", "killed"
# As Device's and googletest's sentences have it.
HUNG = re.compile(r"a launch on .* hung and was ended; who waited longest first: ([^\n\"]*)")


class NoGpuError(RuntimeError):
    """There is none, or it answers no more; the sentence says why."""


def environment(*, fake: bool, home: Path = HOME) -> dict[str, str]:
    """What the programs see: the GPU that is meant, the plans, cuBLASLt where it is."""
    env = {**os.environ, "SK_GPU": "fake" if fake else "real"}
    env["SK_GOLDEN_PLANS"] = str(home / "plans")
    if not fake and "SK_CUBLASLT" not in env:
        found = places.find_cublaslt()
        if found:
            env["SK_CUBLASLT"] = str(found)
    return env


def read_lines(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a benchmark's output; a line that was cut off is none."""
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def passed_count(text: str) -> int:
    """How many tests or products passed; 0: nothing was shown, or a test was left out."""
    found = re.search(r"\[  PASSED  \] (\d+) tests?\.", text)
    if found is not None:
        return 0 if "SKIPPED" in text else int(found[1])
    if found := re.search(r"^(\d+) passed\b.*", text, re.MULTILINE):  # pytest's last line.
        return 0 if re.search(r"\d+ (skipped|deselected|xfailed)", found[0]) else int(found[1])
    return sum("checked" in line for line in read_lines(text))


def last_words(text: str) -> str:
    """Of what a step has said that is no figure, the end."""
    said = [line for line in text.strip().splitlines() if not line.startswith("{")]
    return "\n".join(said[-30:])


@dataclass(frozen=True)
class Place:
    """Where programs are found, and their output goes."""

    log: Path
    fake: bool
    home: Path = HOME

    def command(self, step: Step, *, watched: bool = False) -> list[str]:
        """Our programs by their place, others' where they are; empty where there is none."""
        if step.command[0] in (steps.API, steps.PYTEST):
            return [] if watched or self.why_absent(step) else self._of_package(step)
        words = [
            self._program(word, watched) if word.startswith("gpu_") else word
            for word in step.command
        ]
        if words[0] == steps.CHECKER:
            found = None if self.fake or watched else places.find_sanitizer()
            return [found, *words[1:]] if found else []
        return words if not watched or Path(words[0]).exists() else []

    @cached_property
    def package(self) -> Package:
        """The Python package, and what runs it."""
        if self.fake:
            return Package(why="torch knows no fake GPU")
        return package.find(self.home, self.log.parent)

    def why_absent(self, step: Step) -> str:
        """Of a step that has no command."""
        if step.command[0] == steps.API:
            return "" if self.package.site else self.package.why
        if step.command[0] == steps.PYTEST:
            return self.package.why or self.package.lacks.get(step.name, "")
        return f"there is no {steps.CHECKER} for a GPU here"

    def _of_package(self, step: Step) -> list[str]:
        if step.command[0] == steps.API:
            return self.package.program(self.home, *step.command)
        return self.package.command(self.home, *step.command[1:])

    def _program(self, name: str, watched: bool) -> str:
        name += steps.WATCHED if watched and not name.endswith(steps.WATCHED) else ""
        return str(self.home / "bin" / name)

    def try_step(self, step: Step, command: list[str], limit_s: float) -> dict[str, Any]:
        """What became of it, for visit.json."""
        env = {**environment(fake=self.fake, home=self.home), **dict(step.env)}
        env["SK_GPU_STEP"] = step.name
        if not self.fake:  # So that kernels tell who waited for whom before they are ended.
            env.setdefault("SK_GPU_WAIT_S", f"{limit_s * WAIT_SHARE:g}")
        try:
            ended = process.run(command, env, self.log, limit_s)
        except OSError as problem:
            return {"outcome": FAILED, "seconds": 0.0, "why": f"cannot be run: {problem}"}
        text = process.text_of(self.log, ended)
        entry: dict[str, Any] = {"seconds": ended.seconds, "log": [ended.begin, ended.end]}
        if lines := read_lines(text):
            entry["lines"] = lines
        if ended.left:
            entry["ended_with_it"] = ended.left
        if ended.alive:
            entry["would_not_die"] = ended.alive
        return entry | judged(step, ended, text, limit_s)

    def who_waits(self, step: Step, limit_s: float) -> dict[str, Any]:
        """Of a step that hung: its watched form's output, and the sentence that it ended with."""
        command = self.command(step, watched=True)
        if not command:
            return {"why": "there is no watched form of its program"}
        entry = self.try_step(step, command, limit_s)
        entry.pop("lines", None)
        with self.log.open("rb") as file:
            begin, end = entry.get("log", (0, 0))
            file.seek(begin)
            found = HUNG.search(file.read(end - begin).decode(errors="replace"))
        if found:
            entry["waits"] = [each.strip() for each in found[1].split(";")]
        elif entry["outcome"] == PASSED:
            entry["why"] = "its watched form did not hang"
        elif entry["outcome"] == KILLED:
            entry["why"] = (
                "its watched form hung too, and no warp told of a wait: the launch has not begun, "
                f"or what hangs is no wait of a kernel's; {entry['why']}"
            )
        return entry

    def describe(self) -> dict[str, Any]:
        """Device, driver, versions. NoGpuError says what is absent."""
        return self._ask("describe", FIRST_S)

    def probe(self) -> None:
        """Whether the GPU answers, by a launch; it loads none of the peers. Else NoGpuError."""
        self._ask("probe", PROBE_S)

    def _ask(self, what: str, limit_s: float) -> dict[str, Any]:
        """A line of gpu_bench's; one failure may be a flake."""
        env = {**environment(fake=self.fake, home=self.home), "SK_GPU_STEP": what}
        command = [str(self.home / "bin" / steps.BENCH), what]
        why = ""
        for _ in range(ASKED):
            try:
                ended = process.run(command, env, self.log, limit_s)
            except OSError as problem:
                raise NoGpuError(f"gpu_bench cannot be run: {problem}") from None
            text = process.text_of(self.log, ended)
            lines = read_lines(text)
            if ended.status == 0 and lines:
                return lines[0]
            why = said = last_words(text)
            if ended.status is None:
                why = f"gpu_bench {what} did not end within {limit_s:.0f} s; it said: {said}"
            elif not said:
                why = f"gpu_bench {what}: exit status {ended.status}"
        raise NoGpuError(why)


def judged(step: Step, ended: process.Ended, text: str, limit_s: float) -> dict[str, Any]:
    """By its exit status, and whether it has shown anything."""
    said = last_words(text)
    if ended.status is None:
        return {"outcome": KILLED, "why": f"not done within {limit_s:.0f} s; it said: {said}"}
    if ended.status != 0:
        how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
        return {"outcome": FAILED, "why": f"{how}; it said: {said}"}
    if step.is_check:
        count = passed_count(text)
        if count > 0:
            return {"outcome": PASSED, "passed": count}
        return {"outcome": FAILED, "passed": 0, "why": f"not every test ran; it said: {said}"}
    if read_lines(text):
        return {"outcome": PASSED}
    return {"outcome": FAILED, "why": f"it has no figures; it said: {said}"}
