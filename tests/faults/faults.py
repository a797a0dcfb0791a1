"""All faults of the table, and the line that tells of each."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import network
import program
from runner import Seen
from table import Fault

FAULTS = (*network.FAULTS, *program.FAULTS)
TOLD_MAX = 3  # Measurements in a line.


class Verdict(enum.Enum):
    """How a fault stands; the value is the word of its line."""

    AS_PROMISED = "as promised"
    IN_PART = "in part"
    FAILED = "FAILED"
    NOT_TRIED = "not tried"  # Something of its tests needs what is not here.
    OUT_OF_REACH = "out of reach"
    NOT_BUILT = "not built"


def plain(text: str) -> str:
    """Without Markdown's marks."""
    return text.replace("`", "")


def without_run(fault: Fault) -> tuple[Verdict, str]:
    """Of one that has no tests."""
    verdict = Verdict.OUT_OF_REACH if fault.out_of_reach else Verdict.NOT_BUILT
    return verdict, line(fault, verdict, [fault.out_of_reach or fault.not_built])


def of_run(fault: Fault, seen: Seen) -> tuple[Verdict, str]:
    """Of one whose tests have run."""
    verdict = Verdict.IN_PART if fault.lacks else Verdict.AS_PROMISED
    within = f" ({fault.within})" if fault.within else ""
    parts = [] if fault.code == "none" else [f"{fault.code}{within}"]
    parts.append(f"{seen.passed} tests in {seen.seconds:.0f} s")
    parts += seen.told[:TOLD_MAX]
    if fault.lacks:
        parts.append(f"lacks: {fault.lacks}")
    if seen.skips:
        verdict = Verdict.NOT_TRIED
        parts.append(f"not run: {seen.skips[0]}")
    if seen.failures:
        verdict = Verdict.FAILED
        parts.append(f"{len(seen.failures)} failed, as {seen.failures[0].splitlines()[0]}")
    parts += [f"{name}={value}" for name, value in seen.seeds.items()]
    return verdict, line(fault, verdict, parts)


def line(fault: Fault, verdict: Verdict, parts: list[str]) -> str:
    """Number, verdict, the fault, and what there is to say."""
    return plain(f"{fault.number:2}  {verdict.value:12}  {fault.what}: {'; '.join(parts)}")


def closing(verdicts: Mapping[int, Verdict]) -> str:
    """The last line, over all that were looked at."""
    count = Counter(verdicts.values())
    words = {
        Verdict.IN_PART: "in part",
        Verdict.OUT_OF_REACH: "not within reach of this machine",
        Verdict.NOT_TRIED: "not tried here",
        Verdict.NOT_BUILT: "not built",
        Verdict.FAILED: "failed",
    }
    rest = [f"{count[verdict]} {text}" for verdict, text in words.items() if count[verdict]]
    return ", ".join([f"{count[Verdict.AS_PROMISED]}/{len(verdicts)} as promised", *rest])


class Lines:
    """Those that there are by now, in a file as well if one is named."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._told: dict[int, tuple[Verdict, str]] = {}

    def tell(self, fault: Fault, verdict: Verdict, text: str) -> None:
        """Of one more."""
        self._told[fault.number] = verdict, text
        if self._file is not None:
            self._file.write_text(f"{self.text()}\n")

    def text(self) -> str:
        """In their order, and how many are what; "" where there are none."""
        table = [self._told[number][1] for number in sorted(self._told)]
        verdicts = {number: verdict for number, (verdict, _) in self._told.items()}
        return "\n".join([*table, closing(verdicts)]) if table else ""
