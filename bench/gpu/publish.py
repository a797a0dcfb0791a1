"""From a visit.json to the result files that are kept and drawn: one for each part."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from gpu import summary
from gpu.steps import STEPS

CHECKS = frozenset(step.name for step in STEPS if step.is_check)


def documents(visit: dict[str, Any]) -> list[dict[str, Any]]:
    """One for each part that has figures, with all checks of the visit and what became of them."""
    steps = visit["steps"]
    checks = {
        name: {key: step[key] for key in ("outcome", "passed", "seconds", "why") if key in step}
        for name, step in steps.items()
        if name in CHECKS
    }
    by_part: dict[str, list[dict[str, Any]]] = {}
    for name, step in steps.items():
        for line in () if name in CHECKS else step.get("lines", ()):
            by_part.setdefault(line["part"], []).append(line)
    made = []
    for part, lines in by_part.items():
        rows, problems = summary.all_rows(lines)
        if visit["mark"]:
            rows = [row.without_goal() for row in rows]
        made.append(
            {
                "stage": f"gpu-{part}",
                "date": visit["date"],
                "commit": visit["commit"],
                "machine": visit["machine"],
                "mark": visit["mark"],
                "checks": checks,
                "figures": summary.figures(lines),
                "goals": [row.as_dict() for row in rows],
                "no_summary": problems,
                "lines": lines,
            }  # fmt: skip
        )
    return made


def publish(visit: Path, results: Path) -> list[Path]:
    """Writes them; the files."""
    written = []
    results.mkdir(parents=True, exist_ok=True)
    for document in documents(json.loads(visit.read_text())):
        path = results / f"{document['stage']}-{document['date']}.json"
        path.write_text(as_text(document) + "\n")
        written.append(path)
    return written


def as_text(document: dict[str, Any]) -> str:
    """JSON with lists of numbers on one line."""
    return re.sub(r"\n +(?=[-\d\[\]])", " ", json.dumps(document, indent=1))


def main(visit: str, results: str) -> int:
    """Exit status 2: it is no visit.json."""
    try:
        written = publish(Path(visit), Path(results))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        print(f"{visit} is no visit.json: {type(problem).__name__}: {problem}", file=sys.stderr)
        return 2
    print("\n".join(f"wrote {path}" for path in written))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
