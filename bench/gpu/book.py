"""visit.json: what a visit has found so far, whole at any time.

What is done is not done again by the next call, which takes the file over where device and commit
are the same. The driver may be another one: machines that are lent for a call differ in its last
number. Each call notes its own, and each step the call that did it.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu import publish, summary


@dataclass
class Book:
    """visit.json: what was done so far, for one kind of GPU and one commit."""

    paths: tuple[Path, ...]  # All the same; a folder that cannot be written is passed over.
    head: dict[str, Any]
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    taken_from: Path | None = None  # Where resume() found what it took.

    @property
    def key(self) -> str:
        """What results of other calls must have in common with these."""
        return f"{self.head['machine']['device']}, commit {self.head['commit']}"

    def resume(self, files: Iterable[Path]) -> Iterator[str]:
        """Takes over what earlier calls did, from the first of these that has the same key.

        Says what it took, and why it took nothing from those before.
        """
        for path in files:
            try:
                kept = json.loads(path.read_text())
                of_key, taken, calls = kept["key"], dict(kept["steps"]), list(kept["calls"])
            except (OSError, ValueError, KeyError, TypeError) as problem:
                yield f"NOT resumed: {path}: {type(problem).__name__}: {problem}"
                continue
            if of_key != self.key:
                yield f"NOT resumed: {path} is of {of_key}; this is {self.key}"
                continue
            self.steps, self.calls, self.taken_from = taken, calls, path
            drivers = " and ".join(dict.fromkeys(str(each.get("driver")) for each in calls))
            what = f"{len(taken)} steps of {len(calls)} calls, driver {drivers}"
            yield f"resumed: {what}, from {path}"
            return

    def begin_call(self) -> None:
        """Notes when, and by which driver."""
        machine = self.head["machine"]
        self.calls.append(
            {
                "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                "driver": machine["driver"],
                "driver_cuda": machine["driver_cuda"],
            }
        )

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
