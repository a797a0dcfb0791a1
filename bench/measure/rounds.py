"""Runs rounds until enough of them count, keeps what is done on disk, and resumes from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import machine, stats
from measure.launch import LaunchError

Say = Callable[[str], None]
Visit = Callable[[], list[dict[str, Any]]]


@dataclass
class Bench:
    """What a stage is given: where things are, how much to measure, how to talk."""

    build: Path  # Our programs.
    scratch: Path  # Progress, full samples, built peers' programs.
    results: Path
    say: Say
    quick: bool
    rounds: int  # That must count.
    rounds_max: int  # Tried at most.
    mpis: list[str]
    fresh: bool
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def probe(self) -> Path:
        return self.build / "bench_probe"


@dataclass
class Candidate:
    """One program of a round. `visit` runs it once and returns its JSON lines."""

    name: str
    visit: Visit


def run_rounds(
    bench: Bench,
    label: str,
    candidates: Sequence[Candidate],
    settings: dict[str, Any],
    *,
    one_core: bool = False,
    judged: bool = True,
) -> list[dict[str, Any]]:
    """Rounds in ABBA order. Each is {"valid", "why", "visits": {name: [lines, lines]}, ...}.

    `one_core`: nothing passes between cores, so it does not matter where the host keeps them.
    Not `judged`: no probes, and every round counts; for what takes so long, and so many processes,
    that only ratios within a round mean anything.

    A candidate whose program fails is reported and left out of all further rounds; its rounds so
    far lack it. Rounds are written to disk one by one under a key of everything that shapes them,
    and a later call with the same key goes on from there.
    """
    key = _key(label, [c.name for c in candidates], settings)
    path = bench.scratch / "progress" / f"{label}-{key}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    if bench.fresh:
        path.unlink(missing_ok=True)
    done = _read(path)
    judge_placement(done, one_core=one_core)
    if done:
        bench.say(f"{label}: going on after {len(done)} rounds of an earlier run")
    visits = {c.name: c.visit for c in candidates}
    dead = {name: why for entry in done for name, why in entry["failed"].items()}
    while _valid(done) < bench.rounds and len(done) < bench.rounds_max:
        alive = [c.name for c in candidates if c.name not in dead]
        if not alive:
            break
        entry = _round(bench, alive, visits, one_core=one_core, judged=judged)
        dead.update(entry["failed"])
        for name, why in entry["failed"].items():
            bench.say(f"{label}: without {name}: {why}")
        done.append(entry)
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        judge_placement(done, one_core=one_core)
        state = "counts" if entry["valid"] else f"discarded: {entry['why']}"
        bench.say(f"{label}: round {len(done)}, {entry['seconds']:.0f} s, {state}")
    if _valid(done) < bench.rounds:
        bench.say(f"{label}: only {_valid(done)} of {len(done)} rounds count")
    return done


def judge_placement(rounds: list[dict[str, Any]], *, one_core: bool = False) -> None:
    """Discards rounds of another placement of the cores; anew after each round, as the usual
    one may change."""
    pairs = [
        (entry["probe_before"]["handoff_ns"], entry["probe_after"]["handoff_ns"])
        for entry in rounds
    ]
    for entry, why in zip(rounds, stats.moved_placement(pairs), strict=True):
        entry["why"] = entry["own_why"] or ("" if one_core else why)
        entry["valid"] = not entry["why"]


def _round(
    bench: Bench, names: list[str], visits: dict[str, Visit], *, one_core: bool, judged: bool
) -> dict[str, Any]:
    lines: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    nothing = machine.Probe([], 0.0)
    before, times = machine.probe(bench.probe) if judged else nothing, machine.cpu_times()
    handoffs, moved = [before.handoff_ns], ""
    for name in stats.abba(names):
        if name in failed:
            continue
        try:
            lines[name].append(visits[name]())
        except LaunchError as error:
            failed[name] = str(error)
            del lines[name]
        if not judged:
            continue
        # A host that moves the cores does so within a round as well; the rest would be in vain.
        handoffs.append(machine.handoff(bench.probe))
        if not one_core and (moved := stats.moved_during(handoffs)):
            break
    after_times, after = machine.cpu_times(), machine.probe(bench.probe) if judged else nothing
    foreign = machine.foreign_cores(times, after_times)
    stolen = machine.stolen_cores(times, after_times)
    why = moved
    if judged:
        why = why or stats.discard_reason(before.clocks(), after.clocks(), foreign, stolen)
    return {
        "valid": not why,
        "why": why,
        "own_why": why,
        "foreign_cores": round(foreign, 4),
        "stolen_cores": round(stolen, 4),
        "seconds": round(after_times.wall - times.wall, 2),
        "probe_before": before.as_dict(),
        "probe_after": after.as_dict(),
        "handoffs_ns": handoffs,
        "failed": failed,
        "visits": lines,
    }


def usable(rounds: list[dict[str, Any]], bench: Bench) -> list[dict[str, Any]]:
    """The rounds that count. A quick run keeps discarded rounds too and its figures say so."""
    valid = [entry for entry in rounds if entry["valid"]]
    return valid if valid or not bench.quick else rounds


def samples(
    rounds: list[dict[str, Any]], name: str, match: Callable[[dict[str, Any]], bool], field_: str
) -> list[stats.Visits]:
    """Per round, the samples of both visits of `name` in the lines that `match`.

    Empty when a round lacks the candidate or the line: a comparison needs all rounds.
    """
    found: list[stats.Visits] = []
    for entry in rounds:
        both = [
            [value for line in lines if match(line) for value in line.get(field_, [])]
            for lines in entry["visits"].get(name, [])
        ]
        if len(both) != 2 or not both[0] or not both[1]:
            return []
        found.append((both[0], both[1]))
    return found


def _valid(rounds: list[dict[str, Any]]) -> int:
    return sum(1 for entry in rounds if entry["valid"])


def _key(label: str, names: list[str], settings: dict[str, Any]) -> str:
    text = json.dumps([label, names, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    rounds = []
    for line in path.read_text().splitlines():
        try:
            rounds.append(json.loads(line))
        except json.JSONDecodeError:  # The run was cut off while it wrote this line.
            path.write_text("".join(json.dumps(entry) + "\n" for entry in rounds))
            break
    return rounds
