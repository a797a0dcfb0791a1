"""Pictures of the newest result files, beside them: times by size, GEMM shares, fused ratios."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from gpu import pictures as gpu
from measure import placement
from notebook.pictures import notebook

Document = dict[str, Any]
OURS_COLOUR, FLOOR_COLOUR = "#c1121f", "#555555"
PEER_COLOURS = ("#1d4e89", "#2a9d8f", "#e9a23b", "#8e5ea2", "#6b8e23", "#a0522d", "#4682b4")


def newest(results: Path) -> dict[str, Path]:
    """The youngest file of each stage; names end in date and CPU."""
    found: dict[str, Path] = {}
    for path in sorted(results.glob("*.json"), key=lambda p: (_date(p), p.stat().st_mtime)):
        found[json.loads(path.read_text())["stage"]] = path
    return found


def _date(path: Path) -> str:
    return json.loads(path.read_text()).get("date", "")


def draw_all(results: Path) -> tuple[list[Path], list[str]]:
    """Draws every stage that has a picture; returns the files written, and what could not be."""
    drawn, failed = [], []
    for stage, path in newest(results).items():
        document = json.loads(path.read_text())
        draw = _drawing(stage)
        if draw is None or not _has_figures(document):
            continue
        target = path.with_suffix(".png")
        try:
            figure = draw(document)
            figure.text(0.01, 0.005, _caption_of(stage)(document), fontsize=6, color="#666666")
            figure.savefig(target, dpi=110)
        except (KeyError, ValueError) as error:  # A file of an older format, or half empty.
            failed.append(f"{path.name}: {type(error).__name__}: {error}")
            continue
        finally:
            plt.close("all")
        drawn.append(target)
    return drawn, failed


def _drawing(stage: str) -> Callable[[Document], Any] | None:
    if stage.startswith("allreduce"):
        return allreduce
    own = {"gemm": gemm, "fused": fused, "notebook": notebook}
    return own.get(stage) or gpu.DRAWINGS.get(stage)


def _caption_of(stage: str) -> Callable[[Document], str]:
    return gpu.caption if stage in gpu.DRAWINGS else _caption


def _has_figures(document: Document) -> bool:
    return bool(document.get("figures") or document.get("places", {}).get("classes"))


def _classes(document: Document) -> list[tuple[str, str, Document]]:
    """Name, title and figures of each class of places that was seen."""
    return [
        (name, f"{placement.TITLES[name]}, hand-off {about['handoff_ns']:.0f} ns", about)
        if "handoff_ns" in about
        else (name, "", about)
        for name, about in document["places"]["classes"].items()
    ]


def _goals_of(document: Document, place: str) -> list[dict[str, Any]]:
    return [goal for goal in document["goals"] if goal["area"].endswith(f", {place}")]


def _caption(document: Document) -> str:
    machine = document["machine"]
    counted = sum(1 for entry in document["rounds"] if entry["valid"])
    quick = ", QUICK RUN: not a measurement" if document["quick"] else ""
    return (
        f"{machine['cpu']}, {machine['cores']} cores, commit {document['commit']}, "
        f"{document['date']}, {counted} of {len(document['rounds'])} rounds count{quick}"
    )


def _bytes(name: str) -> int:
    number, unit = name.split()
    return int(number) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20}[unit]


def allreduce(document: Document) -> Any:
    """A row per class of places. Left: time by size. Right: each MPI's time over ours, goals as
    short lines."""
    classes = _classes(document)
    figure, panels = plt.subplots(len(classes), 2, figsize=(12, 4.8 * len(classes)), squeeze=False)
    ranks, outputs = document["protocol"]["ranks"], document["protocol"]["outputs"]
    for (name, title, about), (left, right) in zip(classes, panels, strict=True):
        _allreduce_row(about["figures_us"], _goals_of(document, name), left, right)
        left.set_title(f"All-reduce f32, {ranks} ranks, outputs {outputs}")
        right.set_title(
            f"Above 1: libsk is faster; {title}" if title else "Above 1: libsk is faster"
        )
    figure.tight_layout(rect=(0, 0.03 / len(classes), 1, 1))
    return figure


def _allreduce_row(figures: Document, goals: list[dict[str, Any]], left: Any, right: Any) -> None:
    colours = iter(PEER_COLOURS)
    reference = figures.get("symmetric", {})
    for name, by_size in figures.items():
        if not by_size:
            continue
        sizes = sorted(by_size, key=_bytes)
        x = [_bytes(size) for size in sizes]
        y = [by_size[size]["median"] for size in sizes]
        style: dict[str, Any] = {"marker": "o", "markersize": 3}
        if name in ("symmetric", "ordinary"):
            style |= {"color": OURS_COLOUR, "linewidth": 2}
            style |= {"linestyle": "--"} if name == "ordinary" else {}
        elif name.startswith("direct"):
            style |= {"color": FLOOR_COLOUR, "linestyle": ":" if name == "direct" else "-."}
        else:
            style |= {"color": next(colours), "linewidth": 1}
        label = f"libsk, {name}" if name in ("symmetric", "ordinary") else name
        left.plot(x, y, label=label, **style)
        if name not in ("symmetric", "direct", "direct_nt") and reference:
            both = [size for size in sizes if size in reference]
            ratio = [by_size[size]["median"] / reference[size]["median"] for size in both]
            right.plot([_bytes(size) for size in both], ratio, label=label, **style)
    for goal in goals:
        if goal["goal"] is not None and ", symmetric, " in goal["area"] and "MPI" in goal["unit"]:
            at = _bytes(goal["case"])
            right.plot([at / 1.7, at * 1.7], [goal["goal"]] * 2, color="black", linewidth=1.5)
    right.axhline(1.0, color=OURS_COLOUR, linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="bytes", ylabel="microseconds, median")
    right.set(xscale="log", yscale="log", xlabel="bytes")
    right.set_ylabel("time over libsk symmetric; black: goal")
    left.legend(fontsize=7)
    for axes in (left, right):
        axes.grid(True, which="major", alpha=0.3)


def gemm(document: Document) -> Any:
    """Share of the peak read beside each sample, by size and library; quartiles as whiskers."""
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.4), sharey=True)
    for axes, dtype in zip(panels, ("f32", "bf16"), strict=True):
        cells = {k: v for k, v in document["figures"].items() if k.startswith(f"{dtype} ")}
        names = sorted({name for cell in cells.values() for name in cell})
        names.sort(key=lambda name: name != "libsk")
        width = 0.8 / max(1, len(names))
        colours = {"libsk": OURS_COLOUR}
        colours |= dict(zip([n for n in names if n != "libsk"], PEER_COLOURS, strict=False))
        for i, name in enumerate(names):
            for j, cell in enumerate(cells.values()):
                entry = cell.get(name, {})
                if "percent_of_peak" not in entry:
                    continue
                height = entry["percent_of_peak"]
                low, high = entry["percent_of_peak_quartiles"]
                axes.bar(
                    j + (i - len(names) / 2 + 0.5) * width, height, width, color=colours[name],
                    yerr=[[max(0.0, height - low)], [max(0.0, high - height)]],
                    error_kw={"linewidth": 0.7}, label=name if j == 0 else None,
                )  # fmt: skip
        axes.set_xticks(range(len(cells)), [key.split()[1] for key in cells])
        axes.set(xlabel="n = m = k", title=f"GEMM {dtype}, one core, weights packed")
        axes.grid(True, axis="y", alpha=0.3)
        axes.legend(fontsize=7, ncols=4, loc="upper center")
        axes.set_ylim(0, 112)  # Room for the legend above the bars.
    panels[0].set_ylabel("% of the peak read beside the sample")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def fused(document: Document) -> Any:
    """A row per class of places: best unfused pair over libsk's fused call, and T_fused over its
    longer half."""
    classes = _classes(document)
    figure, panels = plt.subplots(len(classes), 2, figsize=(12, 4.4 * len(classes)), squeeze=False)
    for (name, title, about), (left, right) in zip(classes, panels, strict=True):
        goals = [each for each in _goals_of(document, name) if each["measured"] is not None]
        labels = [f"{goal['area'].split()[3].rstrip(',')}\n{goal['case']}" for goal in goals]
        left.bar(range(len(goals)), [goal["measured"] for goal in goals], color=OURS_COLOUR)
        for i, goal in enumerate(goals):
            left.plot([i - 0.45, i + 0.45], [goal["goal"]] * 2, color="black", linewidth=1.5)
        left.axhline(1.0, color=FLOOR_COLOUR, linewidth=0.8)
        left.set_xticks(range(len(goals)), labels, fontsize=6, rotation=60)
        left.set(ylabel="time of the best pair over libsk's; black: goal")
        left.set_title(f"GEMM + all-reduce, 2 ranks; {title}" if title else "GEMM + all-reduce")
        cells = {k: v for k, v in about["figures_us"].items() if "fused_over_max" in v}
        right.bar(range(len(cells)), [v["fused_over_max"] for v in cells.values()], color="#1d4e89")
        right.axhline(1.0, color=FLOOR_COLOUR, linewidth=0.8)
        names = [key.replace(" ", "\n") for key in cells]
        right.set_xticks(range(len(cells)), names, fontsize=6, rotation=60)
        right.set(ylabel="T_fused / max(T_gemm, T_comm)", title="Overlap: 1 hides the shorter half")
    figure.tight_layout(rect=(0, 0.03 / len(classes), 1, 1))
    return figure


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results"
    written, problems = draw_all(folder)
    print("\n".join([*map(str, written), *problems]))
