"""Result files: everything needed to judge a figure later, and small enough to commit."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

from measure import machine, placement, stats
from measure.goals import Row
from measure.rounds import Bench

REPO = Path(__file__).resolve().parent.parent.parent
KEEP = 6  # Samples per visit in the committed file; medians are of all samples.


def summary(visits: list[stats.Visits]) -> dict[str, Any]:
    """Figures over all rounds, and thinned samples [round][visit][sample]."""
    everything = stats.pooled(visits)
    return {
        "median": round(stats.median(everything), 3),
        "min": round(min(everything), 3),
        "p90": round(stats.quantile(everything, 0.9), 3),
        "spread_of_rounds": round(stats.spread(stats.round_medians(visits)), 4),
        "count": len(everything),
        "samples": [[stats.thin(visit, KEEP) for visit in pair] for pair in visits],
    }


def round_heads(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a round was like, without its samples."""
    return [{k: v for k, v in entry.items() if k != "visits"} for entry in rounds]


def head(stage: str, bench: Bench, protocol: dict[str, Any], peers: dict[str, Any]) -> dict:
    """The fields that every result file begins with."""
    return {
        "stage": stage,
        "date": datetime.date.today().isoformat(),
        "quick": bench.quick,
        "commit": machine.commit(REPO),
        "machine": machine.describe(),
        "peers": peers,
        "protocol": {
            "order": "ABBA per round, every candidate twice",
            "rounds_wanted": bench.rounds,
            "rounds_max": bench.rounds_max,
            "clock_move_max": stats.PROBE_MOVE_MAX,
            "foreign_cores_max": stats.FOREIGN_CPU_MAX,
            "rounds_min": stats.ROUNDS_MIN,
            "shared_core_below": placement.SHARED_MAX,
            "handoff_gap_min": placement.GAP_MIN,
            "samples_kept_per_visit": KEEP,
            **protocol,
        },
    }


def write(bench: Bench, stage: str, document: dict[str, Any], rows: list[Row]) -> Path:
    """Writes <stage>-<date>-<cpu>.json, a quick run's into the scratch folder; returns its path."""
    document = {**document, "goals": [row.as_dict() for row in rows]}
    folder = bench.scratch / "quick" if bench.quick else bench.results
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{stage}-{document['date']}-{machine.slug(document['machine'])}.json"
    text = json.dumps(document, indent=1)
    # Lists of numbers on one line: the file is read by people and by diff.
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", _one_line, text)
    path = folder / name
    path.write_text(text + "\n")
    bench.say(f"{stage}: wrote {path} ({len(text) // 1024} KB)")
    return path


def _one_line(match: re.Match[str]) -> str:
    return "[" + re.sub(r"\s+", " ", match.group(1)) + "]"
