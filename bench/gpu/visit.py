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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from measure import goals

from gpu import process, steps, summary
from gpu.attempt import FAILED, HOME, HUNG, KILLED, PASSED, NoGpuError, Place, environment
from gpu.awake import keep_awake
from gpu.book import Book
from gpu.steps import Step

BUDGET_S = 540.0  # Of one call; what is left goes on in the next.
TRIES = 2  # Of a check that fails: once may be a flake, which is then told as one.
FAKE_MARK = "FAKE GPU: no measurement"
FLAKY, ABSENT, HELD = "passed at the second try", "absent", "held back"
DONE = (PASSED, FLAKY, ABSENT)


@dataclass
class Visit:
    """One call."""

    book: Book
    place: Place
    clock: Callable[[], float] = time.monotonic
    budget_s: float = BUDGET_S
    limit_s: float | None = None  # Of every step, in place of its own.
    steps: tuple[Step, ...] = steps.STEPS
    began: float = field(init=False)
    tried: set[str] = field(default_factory=set)  # In this call.

    def __post_init__(self) -> None:
        self.began = self.clock()

    def say(self, text: str) -> None:
        """To the terminal and into the log."""
        line = f"[{self.clock() - self.began:6.1f} s] {text}"
        with self.place.log.open("a") as file:
            file.write(line + "\n")
        with contextlib.suppress(OSError):  # Nobody reads any more; the log goes on.
            print(line, flush=True)

    def run(self) -> int:
        """0: all steps are done; 1: some failed; 2: none did, but some are left."""
        # What failed in an earlier call comes behind what was not tried yet.
        before = [each for each in self.steps if self._outcome(each.name) in (FAILED, KILLED)]
        self.book.left = [each.name for each in self.steps if not self._is_done(each)]
        fresh = [each for each in self.steps if each not in before]
        for i, step in enumerate((*fresh, *before, *fresh)):
            if self._is_done(step) or step.name in self.tried:
                continue
            # At last those whose checks have passed since they were held back.
            again = i >= len(self.steps)
            if again and (self._outcome(step.name) != HELD or self._missing(step)):
                continue
            if self._time_left() < self._limit(step):
                continue  # A later one may be shorter.
            if not self._may_run(step):
                continue
            self._do(step)
            self.book.write()
        return self._close()

    def _limit(self, step: Step) -> float:
        return step.limit_s if self.limit_s is None else self.limit_s

    def _time_left(self) -> float:
        return self.began + self.budget_s - self.clock()

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

    def _do(self, step: Step) -> None:
        self.tried.add(step.name)
        limit_s = self._limit(step)
        command = self.place.command(step)
        if not command:
            why = self.place.why_absent(step)
            self.say(f"{step.name}: {ABSENT}: {why}")
            self._enter(step, {"outcome": ABSENT, "why": why})
            return
        entry: dict[str, Any] = {}
        tries: list[dict[str, Any]] = []
        for number in range(1, TRIES + 1):
            self.say(f"{step.name} ..." if number == 1 else f"{step.name}, once more ...")
            entry = self.place.try_step(step, command, limit_s)
            tries.append({key: value for key, value in entry.items() if key != "lines"})
            if entry["outcome"] == PASSED and number > 1:
                entry["outcome"] = FLAKY
            if entry["outcome"] != FAILED or not step.is_check:
                break
            if self._time_left() < limit_s:
                self.say(f"{step.name}: no time is left for a second try")
                break
        entry["tries"] = tries
        self._enter(step, entry)
        why = f": {entry['why']}" if entry.get("why") else ""
        self.say(f"{step.name}: {entry['outcome']}, {entry['seconds']} s{why}")
        if entry["outcome"] == KILLED:
            self._look_at_gpu(step)
            self._find_out(step, entry, limit_s)

    def _enter(self, step: Step, entry: dict[str, Any]) -> None:
        entry["call"] = len(self.book.calls)  # From 1.
        self.book.steps[step.name] = entry
        if entry["outcome"] in DONE and step.name in self.book.left:
            self.book.left.remove(step.name)

    def _look_at_gpu(self, step: Step) -> None:
        """Behind what was killed: a GPU that answers no more would cost every step its limit."""
        try:
            self.place.probe()
        except NoGpuError as problem:
            raise NoGpuError(f"behind {step.name} the GPU answers no more: {problem}") from None

    def _find_out(self, step: Step, entry: dict[str, Any], limit_s: float) -> None:
        """Why it hung: once more, by kernels that end where they hang, and say who waits where."""
        why = self._no_proof(step)
        if not why and self._time_left() < limit_s:
            why = "no time was left; the next call tries it again"
        if why:
            entry["watched"] = {"why": why}
            self.say(f"{step.name}, watched: {HELD}: {why}")
            return
        self.book.write()  # The GPU may not outlast that.
        self.say(f"{step.name}, watched ...")
        entry["watched"] = self.place.who_waits(step, limit_s)
        waits = entry["watched"].get("waits")
        why = "; ".join(waits) if waits else entry["watched"].get("why")
        self.say(f"{step.name}, watched: {'who waited longest first: ' if waits else ''}{why}")
        if entry["watched"].get("outcome") == KILLED:
            self._look_at_gpu(step)

    def _no_proof(self, step: Step) -> str:
        """Why nothing can be learnt of kernels whose waits are watched; "": something can."""
        if step.name == steps.PROOF:
            return "it is itself the proof that watched kernels end"
        proof = next((each for each in self.steps if each.name == steps.PROOF), None)
        if proof is None:
            return ""
        if proof.name not in self.tried and not self._is_done(proof):
            if self._time_left() < self._limit(proof):
                return "no time was left; the next call tries it again"
            self._do(proof)
        entry = self.book.steps.get(proof.name, {})
        # A launch that was ended by its watchman proves as much as one that did not hang.
        if entry.get("outcome") in DONE or HUNG.search(entry.get("why", "")):
            return ""
        return f"{proof.name} has not passed, so watched kernels may hang themselves"

    def _close(self) -> int:
        self.book.write()
        tried = [(step, self._outcome(step.name)) for step in self.steps]
        failed = [step.name for step, outcome in tried if outcome in (FAILED, KILLED)]
        left = [step.name for step, outcome in tried if outcome not in (*DONE, FAILED, KILLED)]
        rows = summary.all_rows(self.book.lines())[0]
        print(
            goals.table([row.without_goal() for row in rows] if self.place.fake else rows),
            flush=True,
        )
        if failed:
            self.say(f"failed: {', '.join(failed)}")
        if left:
            self.say(f"left, the same command goes on from here: {', '.join(left)}")
        if not failed and not left:
            self.say("all steps are done")
        return 1 if failed else 2 if left else 0


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
        help="a visit.json to go on from; default: those in --out and beside this program",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="forget what is done")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of this call")
    parser.add_argument("--limit", type=float, help="seconds of a step, in place of its own")
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
    if options.again and options.resume:
        print("run: --again forgets what --resume names; one of them is due", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(step.name for step in wanted))
        return 0
    if not wanted:
        print(f"run: no step is like {', '.join(options.only)}; --list says all", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    process.adopt_orphans()
    awake = "" if options.fake else keep_awake()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "visit.log"
    began = time.monotonic()
    try:
        place = Place(log, options.fake)
        machine = place.describe()
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
    there = [path for path in (options.out / "visit.json", kept) if path.exists()]
    taken = list(book.resume(options.resume or there)) if not options.again else []
    if options.resume and book.taken_from is None:
        print("\n".join(taken), file=sys.stderr)
        print("run: without --resume it begins anew", file=sys.stderr)
        return 2
    budget_s = options.budget - (time.monotonic() - began)
    visit = Visit(book, place, budget_s=budget_s, limit_s=options.limit, steps=wanted)
    visit.say(f"{machine['device']}, driver {machine['driver']}, commit {commit}")
    visit.say(of_cublaslt(machine, environment(fake=options.fake)))
    if awake:
        visit.say(f"the GPU may be started anew for each step: {awake}")
    for line in taken or ["nothing to resume: all steps are before it"]:
        visit.say(line)
    if book.calls and book.calls[-1].get("driver") != machine["driver"]:
        visit.say(f"another driver than the last call's, which was {book.calls[-1].get('driver')}")
    book.begin_call()
    book.write()
    try:
        return visit.run()
    except NoGpuError as problem:
        visit.say(str(problem))
        book.head["ended_by"] = str(problem)
        visit._close()
        return 1
    finally:  # Also where it was told to end.
        book.calls[-1]["seconds"] = round(time.monotonic() - began, 3)
        book.write()
