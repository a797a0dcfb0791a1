"""Checks, then benchmarks, on this machine's GPU, in parts: each call goes on where one ended.

Python's own library is all this needs, so that it runs from a bundle on a bare machine. The folder
that holds this package holds bin/ (programs, and the kernels beside them) and plans/.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import goals

from gpu import summary

HOME = Path(__file__).resolve().parent.parent
BUDGET_S = 480.0  # Of one call; what is left goes on in the next.
LEAST_S = 20.0  # No part is begun with less.
FAKE_MARK = "FAKE GPU: no measurement"
CUBLASLT = "nvidia/*/lib/libcublasLt.so.13"  # Where Python's wheels have it.


class PartError(RuntimeError):
    """A part cannot be had; the sentence says why."""


@dataclass(frozen=True)
class Part:
    """One program's run. No benchmark is run behind a check that failed."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    is_check: bool = False
    env: tuple[tuple[str, str], ...] = ()


SANITIZER = "compute-sanitizer"
PAIRS = "Products.ByPairsOfBlocks"
SOME = "Silicon.PlansFromTheirTexts:Products.OfEveryKernelAndType"
# Slow under it, so a part of the tests; and last, so that it takes no time from the benchmarks.
SANITIZED = (
    "--error-exitcode=9", "gpu_silicon_test", "--gtest_brief=1", f"--gtest_filter={SOME}",
)  # fmt: skip
TOOLKIT = Path("/usr/local/cuda/bin")
PARTS = (
    Part(
        "results",
        ("gpu_silicon_test", "--gtest_brief=1", f"--gtest_filter=-{PAIRS}"),
        150,
        is_check=True,
    ),
    Part("endurance", ("gpu_endurance_test", "--gtest_brief=1"), 100, is_check=True),
    Part("gemm", ("gpu_bench", "gemm"), 150),
    Part("fused", ("gpu_bench", "fused"), 90),
    Part("collectives", ("gpu_bench", "collectives"), 90),
    Part("latency", ("gpu_bench", "latency"), 60),
    Part(  # What later GPUs will run: the PTX, compiled by the driver.
        "ptx",
        ("gpu_silicon_test", "--gtest_brief=1", f"--gtest_filter={SOME}"),
        60,
        is_check=True,
        env=(("CUDA_FORCE_PTX_JIT", "1"),),
    ),
    Part("memcheck", (SANITIZER, "--tool", "memcheck", *SANITIZED), 90, is_check=True),
    Part("synccheck", (SANITIZER, "--tool", "synccheck", *SANITIZED), 60, is_check=True),
    # An experiment that nothing else depends on: last, so that it can spoil nothing else.
    Part(
        "pair-results",
        ("gpu_silicon_test", "--gtest_brief=1", f"--gtest_filter={PAIRS}"),
        60,
        is_check=True,
    ),
    Part("pairs", ("gpu_bench", "pairs"), 90),
)


def environment(*, fake: bool, home: Path = HOME) -> dict[str, str]:
    """What the programs see: the GPU that is meant, the plans, cuBLASLt where it may be."""
    env = {**os.environ, "SK_GPU": "fake" if fake else "real"}
    env["SK_GOLDEN_PLANS"] = str(home / "plans")
    if "SK_CUBLASLT" not in env:
        found = [file for path in sys.path if path for file in Path(path).glob(CUBLASLT)]
        if found:
            env["SK_CUBLASLT"] = str(found[0])
    return env


def call(command: list[str], env: dict[str, str], limit_s: float) -> str:
    """The program's output; PartError when it fails or does not end."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise PartError(f"{name} did not end within {limit_s:.0f} s") from None
    except OSError as problem:
        raise PartError(f"{name} cannot be run: {problem}") from None
    if done.returncode != 0:
        text = (done.stdout + done.stderr).strip().splitlines()
        said = [line for line in text if not line.startswith("{")]
        raise PartError("\n".join(said[-30:]) or f"{name} ended with {done.returncode}")
    return done.stdout


def read_lines(text: str) -> list[dict[str, Any]]:
    """The JSON objects of a benchmark's output."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@dataclass
class Session:
    """What was done so far, on disk: one file for one GPU, driver and commit."""

    path: Path
    key: str
    done: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path, key: str) -> Session:
        """What an earlier call did with the same key; else nothing."""
        try:
            kept = json.loads(path.read_text())
        except (OSError, json.JSONDecodeError):
            kept = {}
        return cls(path, key, kept["done"] if kept.get("key") == key else {})

    def add(self, name: str, entry: dict[str, Any]) -> None:
        """Kept at once, and whole or not at all."""
        self.done[name] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps({"key": self.key, "done": self.done}))
        fresh.replace(self.path)


@dataclass
class Runner:
    """One call of `run`."""

    machine: dict[str, Any]
    commit: str
    session: Session
    results: Path
    fake: bool
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    budget_s: float = BUDGET_S
    parts: tuple[Part, ...] = PARTS
    home: Path = HOME

    def run(self) -> int:
        """0: all parts are done; 1: some failed; 2: no time is left for the rest."""
        end = self.clock() + self.budget_s
        failed, unsound = False, False
        for part in self.parts:
            if unsound and not part.is_check:
                self.say("no benchmark is run where a check failed")
                return 1
            if part.name in self.session.done:
                self.say(f"{part.name}: done before")
                continue
            left = end - self.clock()
            if left < LEAST_S:
                self.say(f"{part.name}: no time is left; the same command goes on from here")
                return 2
            failure = self._do(part, min(part.limit_s, left))
            if failure:
                self.say(f"{part.name}: FAILED: {failure}")
                failed, unsound = True, unsound or part.is_check
        if not failed:
            self.say("all parts are done")
        return 1 if failed else 0

    def _do(self, part: Part, limit_s: float) -> str:
        begin = self.clock()
        self.say(f"{part.name} ...")
        command = self._find(part.command)
        if not command:
            self.say(f"{part.name}: left out: there is no {SANITIZER} for a GPU here")
            return ""
        try:
            env = {**environment(fake=self.fake, home=self.home), **dict(part.env)}
            text = call(command, env, limit_s)
            seconds = round(self.clock() - begin, 1)
            entry: dict[str, Any] = {"seconds": seconds}
            if part.is_check:
                entry["passed"] = _passed(text, part.name)
            else:
                entry["lines"] = read_lines(text)
                self._publish(part, entry)
        except PartError as problem:
            return str(problem)
        self.session.add(part.name, entry)
        self.say(f"{part.name}: {seconds} s")
        return ""

    def _find(self, command: tuple[str, ...]) -> list[str]:
        """Our programs by their place, NVIDIA's where it is; empty where it is not."""
        words = [
            str(self.home / "bin" / word) if word.startswith("gpu_") else word for word in command
        ]
        if words[0] != SANITIZER:
            return words
        found = shutil.which(SANITIZER) or shutil.which(SANITIZER, path=str(TOOLKIT))
        return [found, *words[1:]] if found and not self.fake else []

    def _publish(self, part: Part, entry: dict[str, Any]) -> None:
        try:
            rows = summary.ROWS[part.name](entry["lines"])
        except (KeyError, ValueError) as problem:  # What was measured is kept in any case.
            self.say(f"{part.name}: no summary: {type(problem).__name__}: {problem}")
            rows = []
        if self.fake:
            rows = [row.without_goal() for row in rows]
        document = {
            "stage": f"gpu-{part.name}",
            "date": datetime.date.today().isoformat(),
            "commit": self.commit,
            "machine": self.machine,
            "mark": FAKE_MARK if self.fake else "",
            "checks": {
                name: {key: done[key] for key in ("passed", "seconds")}
                for name, done in self.session.done.items()
                if "passed" in done
            },
            "figures": summary.figures(entry["lines"]),
            "goals": [row.as_dict() for row in rows],
            "lines": entry["lines"],
        }
        self.results.mkdir(parents=True, exist_ok=True)
        path = self.results / f"{document['stage']}-{document['date']}.json"
        text = re.sub(r"\n +(?=[-\d\[\]])", " ", json.dumps(document, indent=1))
        path.write_text(text + "\n")
        self.say(f"{part.name}: wrote {path}")
        print(goals.table(rows), flush=True)


def _passed(text: str, name: str) -> int:
    """How many tests passed; a run that ran none, or skipped one, has shown nothing."""
    found = re.search(r"\[  PASSED  \] (\d+) tests?\.", text)
    if found is None or int(found[1]) == 0 or "SKIPPED" in text:
        raise PartError(f"{name}: not every test ran")
    return int(found[1])


def describe(*, fake: bool, home: Path = HOME) -> dict[str, Any]:
    """Device, driver, versions. PartError says what is absent."""
    text = call([str(home / "bin" / "gpu_bench"), "describe"], environment(fake=fake), 60)
    return read_lines(text)[0]


def main(arguments: list[str]) -> int:
    """Exit status: 0 all done, 1 a part failed, 2 there is no GPU, or parts are left."""
    parser = argparse.ArgumentParser(prog="run", description=__doc__)
    parser.add_argument("--results", type=Path, default=HOME / "results", help="where files go")
    parser.add_argument("--state", type=Path, default=HOME / "state.json", help="what is done")
    parser.add_argument("--again", action="store_true", help="forget what is done")
    parser.add_argument("--fake", action="store_true", help="try it all on the CPU; no measurement")
    options = parser.parse_args(arguments)
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begin:6.1f} s] {text}", flush=True)

    try:
        machine = describe(fake=options.fake)
    except PartError as problem:
        print(f"gpu: {problem}", file=sys.stderr)
        return 2
    commit = json.loads((HOME / "bundle.json").read_text())["commit"]
    say(f"{machine['device']}, driver {machine['driver']}, commit {commit}")
    if options.again:
        options.state.unlink(missing_ok=True)
    key = " ".join((machine["device"], machine["driver"], machine["driver_cuda"], commit))
    session = Session.read(options.state, key)
    return Runner(machine, commit, session, options.results, options.fake, say).run()
