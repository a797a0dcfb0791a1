"""Goals and verdicts: the rows of the table at the end of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

MET, MET_DEFAULTS, MISSED, ABSENT = "met", "met (defaults)", "MISSED", "not measured"
NO_GOAL = "no goal"
UNPROVEN = "within the noise"


@dataclass(frozen=True)
class Row:
    """One goal. Ratios are "how many times faster than"; costs are "at most"."""

    area: str  # "all-reduce f32, 2 ranks, symmetric"
    case: str  # "32 KB"
    goal: float | None  # None: a figure beside the goals.
    unit: str  # "x best MPI", "x direct loop", "us", "% of a core", "MB".
    at_most: bool = False
    measured: float | None = None  # Against the peers as they come.
    tuned: float | None = None  # Against the best of default and tuned settings, where they differ.
    spread: str = ""  # Quartiles over rounds and A/A spread.
    against: str = ""  # The peer that set the bar.
    why: str = ""  # Why nothing was measured, or what else a reader must know.
    proven: bool = True  # The same program against itself differs less.

    def _meets(self, value: float) -> bool:
        assert self.goal is not None
        return value <= self.goal if self.at_most else value >= self.goal

    def without_goal(self) -> Row:
        """The same figure, measured in a way for which no goal is set."""
        return replace(self, goal=None)

    @property
    def verdict(self) -> str:
        """Met means met against tuned peers too; the middle case says so."""
        if self.measured is None:
            return ABSENT
        if self.goal is None:
            return NO_GOAL
        if not self._meets(self.measured):
            return MISSED
        if not self.proven:
            return UNPROVEN
        if self.tuned is not None and not self._meets(self.tuned):
            return MET_DEFAULTS
        return MET

    def as_dict(self) -> dict[str, object]:
        """For the result file."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, "verdict": self.verdict}


def size_name(size: int) -> str:
    """512 B, 4 KB, 2 MB: as the goals are written."""
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def allreduce_goal(ranks: int, kind: str, size: int) -> float | None:
    """Times faster than the best MPI; None where no goal is set."""
    if ranks == 2 and kind == "symmetric":
        return 1.6 if size <= 4 << 10 else 2.0 if size <= 256 << 10 else 3.0
    if ranks == 2 and kind == "ordinary":
        return 1.4 if size in (32 << 10, 2 << 20, 16 << 20) else 0.95
    if ranks == 4 and kind == "symmetric":
        return 2.0 if size >= 256 << 10 else 1.3 if size >= 32 << 10 else 0.8
    if ranks == 16 and kind == "symmetric":
        return 1.0  # Than Open MPI.
    return None


def fused_goal(dtype: str, shape: tuple[int, int, int], amx: bool) -> float:
    """Times faster than the best pair of a GEMM and an all-reduce."""
    if dtype == "bf16" and amx:
        return {(512, 512, 512): 2.0, (1024, 1024, 1024): 1.7, (2048, 2048, 1024): 1.7}.get(
            shape, 1.0
        )
    if dtype == "f32" and shape in ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 1024)):
        return 1.05
    return 1.0


def gemm_goal(dtype: str, n: int, amx: bool) -> float | None:
    """Times the best of the GEMM peers, one core, weights packed."""
    if dtype == "f32":
        return 0.98 if n in (512, 1024, 2048) else None
    if amx:
        return {256: 1.2, 512: 1.45, 1024: 1.4, 2048: 1.5}.get(n)
    return 0.97 if n in (256, 512, 1024, 2048) else None


def table(rows: list[Row]) -> str:
    """Aligned columns for the terminal."""
    head = ("area", "case", "goal", "measured", "tuned peers", "verdict", "against, spread")
    lines = [head]
    for row in rows:
        sign = "<=" if row.at_most else ">="
        value = "-" if row.measured is None else f"{row.measured:.2f}"
        tuned = "" if row.tuned is None else f"{row.tuned:.2f}"
        note = "; ".join(part for part in (row.against, row.spread, row.why) if part)
        goal = row.unit if row.goal is None else f"{sign} {row.goal:g} {row.unit}"
        lines.append((row.area, row.case, goal, value, tuned, row.verdict, note))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head) - 1)]
    text = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        text.append("  ".join([*cells, line[-1]]).rstrip())
    return "\n".join(text)
