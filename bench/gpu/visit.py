"""A visit to this machine's GPU: steps by worth, each a process, and two files that tell.

visit.log has every step's output as it came; visit.json what became of each step, every sample,
figures and goals. Both are whole after every step, whatever ends the visit. What is done is not
done again by the next call, which goes on where this one ended.

Python's own library is all this needs, so that it runs from a bundle on a bare machine. The folder
that holds this package holds bin/ (programs, and the kernels beside them) and plans/.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from measure import goals

from gpu import places, process, publish, steps, summary
from gpu.steps import Step

HOME = Path(__file__).resolve().parent.parent
BUDGET_S = 540.0  # Of one call; what is left goes on in the next.
TRIES = 2  # Of a check that fails: once may be a flake, which is then told as one.
FAKE_MARK = "FAKE GPU: no measurement"
PASSED, FLAKY, FAILED, KILLED = "passed", "passed at the second try", "failed", "killed"
ABSENT, HELD = "absent", "held back"
DONE = (PASSED, FLAKY, ABSENT)


class NoGpuError(RuntimeError):
    """There is none, or it answers no more; the sentence says why."""


def environment(*, fake: bool, home: Path = HOME) -> dict[str, str]:
    """What the programs see: the GPU that is meant, the plans, cuBLASLt where it is."""
    env = {**os.environ, "SK_GPU": "fake" if fake else "real"}
    env["SK_GOLDEN_PLANS"] = str(home / "plans")
    if "SK_CUBLASLT" not in env:
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
    """How many tests or products passed; 0: nothing was shown, or a test was skipped."""
    found = re.search(r"\[  PASSED  \] (\d+) tests?\.", text)
    if found is not None:
        return 0 if "SKIPPED" in text else int(found[1])
    return sum("checked" in line for line in read_lines(text))


def last_words(text: str) -> str:
    """Of what a step has said that is no figure, the end."""
    said = [line for line in text.strip().splitlines() if not line.startswith("{")]
    return "\n".join(said[-30:])


@dataclass
class Book:
    """visit.json: what was done so far, for one GPU, driver and commit."""

    paths: tuple[Path, ...]  # All the same; a folder that cannot be written is passed over.
    head: dict[str, Any]
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """What results of other calls must have in common with these."""
        machine = self.head["machine"]
        words = (machine["device"], machine["driver"], machine["driver_cuda"], self.head["commit"])
        return " ".join(map(str, words))

    def resume(self, files: Iterable[Path]) -> None:
        """Takes over what earlier calls did, from the first of these that has the same key."""
        for path in files:
            try:
                kept = json.loads(path.read_text())
                if kept["key"] != self.key:
                    continue
                self.steps, self.calls = dict(kept["steps"]), list(kept["calls"])
            except (OSError, ValueError, KeyError, TypeError):
                continue
            return

    def lines(self) -> list[dict[str, Any]]:
        """Every line of every benchmark."""
        return [line for step in self.steps.values() for line in step.get("lines", ())]

    def document(self) -> dict[str, Any]:
        """The whole of it, with what can be said of it so far."""
        rows, problems = summary.all_rows(self.lines())
        if self.head["mark"]:
            rows = [row.without_goal() for row in rows]
        return {
            "key": self.key, **self.head, "calls": self.calls, "left": self.left,
            "steps": self.steps, "figures": summary.figures(self.lines()),
            "goals": [row.as_dict() for row in rows], "no_summary": problems,
        }  # fmt: skip

    def write(self) -> None:
        """Whole or not at all, in each place."""
        text = publish.as_text(self.document())
        for path in self.paths:
            fresh = path.with_suffix(".new")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                fresh.write_text(text + "\n")
                fresh.replace(path)
            except OSError as problem:
                print(f"visit: {path} is not written: {problem}", file=sys.stderr)


@dataclass
class Visit:
    """One call."""

    book: Book
    log: Path
    fake: bool
    clock: Callable[[], float] = time.monotonic
    budget_s: float = BUDGET_S
    limit_s: float = steps.LIMIT_S
    steps: tuple[Step, ...] = steps.STEPS
    home: Path = HOME
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def say(self, text: str) -> None:
        """To the terminal and into the log."""
        line = f"[{self.clock() - self.began:6.1f} s] {text}"
        with self.log.open("a") as file:
            file.write(line + "\n")
        with contextlib.suppress(OSError):  # Nobody reads any more; the log goes on.
            print(line, flush=True)

    def run(self) -> int:
        """0: all steps are done; 1: some failed; 2: none did, but some are left."""
        end = self.began + self.budget_s
        # What failed in an earlier call comes behind what was not tried yet.
        before = [each for each in self.steps if self._outcome(each.name) in (FAILED, KILLED)]
        self.book.left = [each.name for each in self.steps if not self._is_done(each)]
        fresh = [each for each in self.steps if each not in before]
        for i, step in enumerate((*fresh, *before, *fresh)):
            if self._is_done(step):
                continue
            # At last those whose checks have passed since they were held back.
            again = i >= len(self.steps)
            if again and (self._outcome(step.name) != HELD or self._missing(step)):
                continue
            limit_s = min(step.limit_s, self.limit_s)
            if end - self.clock() < limit_s:
                continue  # A later one may be shorter.
            if not self._may_run(step):
                continue
            self._do(step, limit_s)
            self.book.write()
        return self._close()

    def _outcome(self, name: str) -> str:
        return self.book.steps.get(name, {}).get("outcome", "")

    def _is_done(self, step: Step) -> bool:
        return self._outcome(step.name) in DONE

    def _missing(self, step: Step) -> list[str]:
        known = {each.name for each in self.steps}
        return [each for each in step.after if each in known and self._outcome(each) not in DONE]

    def _may_run(self, step: Step) -> bool:
        """Whether the checks that it names have passed; else it says which has not."""
        missing = self._missing(step)
        if missing:
            why = f"{missing[0]} has not passed"
            self.say(f"{step.name}: {HELD}: {why}")
            self.book.steps[step.name] = {"outcome": HELD, "why": why}
            self.book.write()
        return not missing

    def _do(self, step: Step, limit_s: float) -> None:
        command = self._find(step.command)
        if not command:
            why = f"there is no {steps.CHECKER} for a GPU here"
            self.say(f"{step.name}: {ABSENT}: {why}")
            self._enter(step, {"outcome": ABSENT, "why": why})
            return
        entry: dict[str, Any] = {}
        tries: list[dict[str, Any]] = []
        for number in range(1, TRIES + 1):
            self.say(f"{step.name} ..." if number == 1 else f"{step.name}, once more ...")
            entry = self._try(step, command, limit_s)
            tries.append({key: value for key, value in entry.items() if key != "lines"})
            if entry["outcome"] == PASSED and number > 1:
                entry["outcome"] = FLAKY
            if entry["outcome"] != FAILED or not step.is_check:
                break
        entry["tries"] = tries
        self._enter(step, entry)
        why = f": {entry['why']}" if entry.get("why") else ""
        self.say(f"{step.name}: {entry['outcome']}, {entry['seconds']} s{why}")
        if entry["outcome"] == KILLED:
            self._look_at_gpu(step)

    def _enter(self, step: Step, entry: dict[str, Any]) -> None:
        self.book.steps[step.name] = entry
        if entry["outcome"] in DONE and step.name in self.book.left:
            self.book.left.remove(step.name)

    def _try(self, step: Step, command: list[str], limit_s: float) -> dict[str, Any]:
        env = {**environment(fake=self.fake, home=self.home), **dict(step.env)}
        env["SK_GPU_STEP"] = step.name
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
        said = last_words(text)
        if ended.status is None:
            entry |= {"outcome": KILLED, "why": f"not done within {limit_s:.0f} s; it said: {said}"}
        elif ended.status != 0:
            how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
            entry |= {"outcome": FAILED, "why": f"{how}; it said: {said}"}
        elif step.is_check:
            entry["passed"] = passed_count(text)
            shown = entry["passed"] > 0
            entry["outcome"] = PASSED if shown else FAILED
            if not shown:
                entry["why"] = f"not every test ran; it said: {said}"
        else:
            entry["outcome"] = PASSED if lines else FAILED
            if not lines:
                entry["why"] = f"it has no figures; it said: {said}"
        return entry

    def _look_at_gpu(self, step: Step) -> None:
        """Behind what was killed: a GPU that answers no more would cost every step its limit."""
        try:
            describe(self.log, fake=self.fake, home=self.home)
        except NoGpuError as problem:
            raise NoGpuError(f"behind {step.name} the GPU answers no more: {problem}") from None

    def _find(self, command: tuple[str, ...]) -> list[str]:
        """Our programs by their place, NVIDIA's where it is; empty where it is not."""
        words = [
            str(self.home / "bin" / word) if word.startswith("gpu_") else word for word in command
        ]
        if words[0] != steps.CHECKER:
            return words
        found = None if self.fake else places.find_sanitizer()
        return [found, *words[1:]] if found else []

    def _close(self) -> int:
        self.book.write()
        tried = [(step, self._outcome(step.name)) for step in self.steps]
        failed = [step.name for step, outcome in tried if outcome in (FAILED, KILLED)]
        left = [step.name for step, outcome in tried if outcome not in (*DONE, FAILED, KILLED)]
        rows = summary.all_rows(self.book.lines())[0]
        print(goals.table([row.without_goal() for row in rows] if self.fake else rows), flush=True)
        if failed:
            self.say(f"failed: {', '.join(failed)}")
        if left:
            self.say(f"left, the same command goes on from here: {', '.join(left)}")
        if not failed and not left:
            self.say("all steps are done")
        return 1 if failed else 2 if left else 0


def describe(log: Path, *, fake: bool, home: Path = HOME) -> dict[str, Any]:
    """Device, driver, versions. NoGpuError says what is absent."""
    env = {**environment(fake=fake, home=home), "SK_GPU_STEP": "describe"}
    try:
        ended = process.run([str(home / "bin" / "gpu_bench"), "describe"], env, log, steps.LIMIT_S)
    except OSError as problem:
        raise NoGpuError(f"gpu_bench cannot be run: {problem}") from None
    text = process.text_of(log, ended)
    lines = read_lines(text)
    if ended.status == 0 and lines:
        return lines[0]
    why = "it did not end in time" if ended.status is None else f"exit status {ended.status}"
    raise NoGpuError(last_words(text) or f"gpu_bench describe: {why}")


def of_cublaslt(machine: dict[str, Any], env: dict[str, str]) -> str:
    """Whether products can be measured against it, and where it is."""
    if machine.get("cublaslt"):
        return f"cuBLASLt {machine['cublaslt']}, {env.get('SK_CUBLASLT', 'where the linker looks')}"
    return f"NO cuBLASLt, so no product has a peer: {machine.get('cublaslt_absent')}"


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("SK_GPU_OUT") or HOME / "out"),
        help="where the two files go; default: SK_GPU_OUT, else out/ beside this program",
    )  # fmt: skip
    parser.add_argument(
        "--resume", type=Path, action="append", default=[],
        help="a visit.json to go on from, beside those in --out and beside this program",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="forget what is done")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of this call")
    parser.add_argument("--limit", type=float, default=steps.LIMIT_S, help="seconds of a step")
    parser.add_argument("--only", action="append", default=[], help="steps with names like this")
    parser.add_argument("--list", action="store_true", help="say the steps in their order")
    parser.add_argument("--fake", action="store_true", help="try it all on the CPU; no measurement")
    return parser.parse_args(arguments)


def chosen(patterns: list[str]) -> tuple[Step, ...]:
    """The steps of which some pattern matches the whole name; all where there is none."""
    if not patterns:
        return steps.STEPS
    return tuple(
        step for step in steps.STEPS if any(re.fullmatch(each, step.name) for each in patterns)
    )


def stop(number: int, _frame: FrameType | None) -> None:
    """Told to end: unwind, so that the step under way ends too and the files are whole."""
    raise SystemExit(128 + number)


def main(arguments: list[str]) -> int:
    """Exit status: 0 all done, 1 a step failed, 2 there is no GPU, or steps are left."""
    options = parse(arguments)
    wanted = chosen(options.only)
    if options.list:
        print("\n".join(step.name for step in wanted))
        return 0
    if not wanted:
        print(f"run: no step is like {', '.join(options.only)}; --list says all", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    process.adopt_orphans()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "visit.log"
    began = time.monotonic()
    try:
        machine = describe(log, fake=options.fake)
    except NoGpuError as problem:
        with log.open("a") as file:
            file.write(f"no visit: {problem}\n")
        print(f"gpu: {problem}", file=sys.stderr)
        return 2
    commit = json.loads((HOME / "bundle.json").read_text())["commit"]
    head = {
        "date": datetime.date.today().isoformat(), "commit": commit, "machine": machine,
        "mark": FAKE_MARK if options.fake else "",
    }  # fmt: skip
    kept = HOME / "visit.json"
    book = Book((options.out / "visit.json", kept), head)
    if not options.again:
        book.resume((*options.resume, options.out / "visit.json", kept))
    budget_s = options.budget - (time.monotonic() - began)
    visit = Visit(book, log, options.fake, budget_s=budget_s, limit_s=options.limit, steps=wanted)
    visit.say(f"{machine['device']}, driver {machine['driver']}, commit {commit}")
    visit.say(of_cublaslt(machine, environment(fake=options.fake)))
    book.calls.append({"at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")})
    book.write()
    try:
        return visit.run()
    except NoGpuError as problem:
        visit.say(str(problem))
        book.head["ended_by"] = str(problem)
        visit._close()
        return 1
    finally:  # Also where it was told to end.
        book.calls[-1]["seconds"] = round(time.monotonic() - began, 1)
        book.write()
