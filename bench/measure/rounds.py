"""Runs rounds until enough of them count, keeps what is done on disk, and resumes from it."""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measure import machine, stats
from measure.launch import LaunchError
from measure.placement import Placement

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

    @property
    def rounds_least(self) -> int:
        """That a comparison must have."""
        return min(stats.ROUNDS_MIN, self.rounds)


@dataclass
class Candidate:
    """One program of a round. `visit` runs it once and returns its JSON lines."""

    name: str
    visit: Visit


class Judge(enum.Enum):
    """What decides whether a measurement counts."""

    # Each batch by itself: the looks at the cores around it (placement.py), and what others took
    # while its program ran.
    BATCHES = "batches"
    # A whole round by its probes; for what stays on one core, wherever the host keeps that.
    ROUNDS = "rounds"
    # Nothing: for what takes so long, and so many processes, that only ratios within a round mean
    # anything.
    NOTHING = "nothing"


def run_rounds(
    bench: Bench,
    label: str,
    candidates: Sequence[Candidate],
    settings: dict[str, Any],
    *,
    judge: Judge = Judge.BATCHES,
    seconds_max: float = math.inf,
) -> list[dict[str, Any]]:
    """Rounds in ABBA order. Each is {"valid", "why", "visits": {name: [lines, lines]}, ...}.

    After `seconds_max` no round is begun that would not end within it, once ROUNDS_MIN count.

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
    if done:
        bench.say(f"{label}: going on after {len(done)} rounds of an earlier run")
    visits = {c.name: c.visit for c in candidates}
    dead = {name: why for entry in done for name, why in entry["failed"].items()}
    while _valid(done) < bench.rounds and len(done) < bench.rounds_max:
        alive = [c.name for c in candidates if c.name not in dead]
        if not alive:
            break
        spent = sum(entry["seconds"] for entry in done)
        longest = max((entry["seconds"] for entry in done), default=0.0)
        if spent + longest > seconds_max and _valid(done) >= bench.rounds_least:
            bench.say(f"{label}: {spent:.0f} s are enough")
            break
        entry = _round(bench, alive, visits, judge)
        dead.update(entry["failed"])
        for name, why in entry["failed"].items():
            bench.say(f"{label}: without {name}: {why}")
        done.append(entry)
        with path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        state = "counts" if entry["valid"] else f"discarded: {entry['why']}"
        left_out = sum(1 for pair in entry["left_out"].values() for why in pair if why)
        state += f", {left_out} visits left out" if entry["valid"] and left_out else ""
        bench.say(f"{label}: round {len(done)}, {entry['seconds']:.0f} s, {state}")
    if _valid(done) < bench.rounds:
        bench.say(f"{label}: only {_valid(done)} of {len(done)} rounds count")
    return done


def _round(
    bench: Bench, names: list[str], visits: dict[str, Visit], judge: Judge
) -> dict[str, Any]:
    lines: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in names}
    left_out: dict[str, list[str]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    judged = judge is not Judge.NOTHING
    nothing = machine.Probe([], [])
    before, times = machine.probe(bench.probe) if judged else nothing, machine.cpu_times()
    looked, place = machine.cpu_times(), before.place
    for name in stats.abba(names):
        if name in failed:
            continue
        try:
            found = visits[name]()
        except LaunchError as error:
            failed[name] = str(error)
            del lines[name], left_out[name]
            continue
        if judge is Judge.BATCHES:
            was, at = looked, place
            looked, place = machine.cpu_times(), machine.place(bench.probe)
            why = stats.taken_reason(*_taken(was, looked))
            found = [] if why else [_placed(line, [at, place]) for line in found]
            left_out[name].append(why)
        lines[name].append(found)
    after_times, after = machine.cpu_times(), machine.probe(bench.probe) if judged else nothing
    foreign, stolen = _taken(times, after_times)
    why = ""
    if judge is Judge.ROUNDS:
        why = stats.discard_reason(before.clocks(), after.clocks(), foreign, stolen)
    elif judge is Judge.BATCHES and not all(any(pair) for pair in lines.values()):
        reasons = [why for pair in left_out.values() for why in pair if why]
        why = reasons[0] if reasons else "a program printed nothing"
    return {
        "valid": not why,
        "why": why,
        "foreign_cores": round(foreign, 4),
        "stolen_cores": round(stolen, 4),
        "seconds": round(after_times.wall - times.wall, 2),
        "probe_before": before.as_dict(),
        "probe_after": after.as_dict(),
        "left_out": left_out,
        "failed": failed,
        "visits": lines,
    }


def _taken(before: machine.CpuTimes, after: machine.CpuTimes) -> tuple[float, float]:
    """Cores' worth of time that other processes and the host took."""
    return machine.foreign_cores(before, after), machine.stolen_cores(before, after)


def _placed(line: dict[str, Any], places: list[list[float]]) -> dict[str, Any]:
    """With the looks around the visit, where the program did not look around each batch itself."""
    return (
        {**line, "place": places} if "us" in line and all(places) and "place" not in line else line
    )


def usable(rounds: list[dict[str, Any]], bench: Bench) -> list[dict[str, Any]]:
    """The rounds that count. A quick run keeps discarded rounds too and its figures say so."""
    valid = [entry for entry in rounds if entry["valid"]]
    return valid if valid or not bench.quick else rounds


def of_class(rounds: list[dict[str, Any]], places: Placement, name: str) -> list[dict[str, Any]]:
    """The same rounds with the samples of one class of places alone."""

    def kept(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if "us" not in line or places.of_line(line) == name]

    return [
        {**entry, "visits": {who: [kept(x) for x in both] for who, both in entry["visits"].items()}}
        for entry in rounds
    ]


def all_lines(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of all candidates, those with samples."""
    return [
        line
        for entry in rounds
        for pair in entry["visits"].values()
        for lines in pair
        for line in lines
        if "us" in line
    ]


def samples(
    rounds: list[dict[str, Any]], name: str, match: Callable[[dict[str, Any]], bool], field_: str
) -> list[stats.Visits]:
    """Per round, the samples of both visits of `name` in the lines that `match`, none where a visit
    has no such line. Empty when no round has any, or one lacks the candidate, which has failed."""
    found: list[stats.Visits] = []
    for entry in rounds:
        if name not in entry["visits"]:
            return []
        both = [
            [value for line in lines if match(line) for value in line.get(field_, [])]
            for lines in entry["visits"][name]
        ]
        first, second = (*both, [], [])[:2]
        found.append((first, second))
    return found if any(first or second for first, second in found) else []


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
