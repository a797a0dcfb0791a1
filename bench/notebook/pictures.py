"""The picture of the notebook stage: start, print(1) and memory by kernel, goals as black lines."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt

OURS, BASE, PEER = "#c1121f", "#555555", "#1d4e89"


def notebook(document: dict[str, Any]) -> Any:
    """Three panels, one bar per kernel; times on logarithmic axes."""
    figures = document["figures"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 4.6))
    for axes, field, title in (
        (panels[0], "start_s", "start to first finished cell, s"),
        (panels[1], "print_ms", "print(1) to reply and idle, ms"),
        (panels[2], "pss_mb_per_rank", "memory per rank (PSS), MB"),
    ):
        names = [name for name in figures if field in figures[name]]
        if field != "print_ms":
            names = [name for name in names if not name.startswith("stub")]
        medians = [figures[name][field]["median"] for name in names]
        highest = [figures[name][field]["p90"] for name in names]
        above = [max(0.0, high - mid) for high, mid in zip(highest, medians, strict=True)]
        axes.bar(
            range(len(names)), medians, color=[_colour(name) for name in names],
            yerr=[[0.0] * len(names), above], error_kw={"linewidth": 0.8},
        )  # fmt: skip
        for i, value in enumerate(medians):
            axes.annotate(
                f"{value:.3g}", (i, value), textcoords="offset points", xytext=(0, -9),
                ha="center", va="center", fontsize=7, color="white",
            )  # fmt: skip
        _goals(axes, document, names, field, figures)
        axes.set_title(f"{title}\nmedian, p90", fontsize=10)
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize=8)
        if field != "pss_mb_per_rank":
            axes.set_yscale("log")
            axes.set_ylim(bottom=min(medians) / 2)  # Room for the figure in the lowest bar.
        axes.grid(True, axis="y", alpha=0.3)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def _colour(name: str) -> str:
    if name == "ipykernel":
        return BASE
    return PEER if name.startswith("ipyparallel") else OURS


def _goals(
    axes: Any, document: dict[str, Any], names: list[str], field: str, figures: dict[str, Any]
) -> None:
    """A goal is a multiple of ipykernel's median, or absolute."""
    areas = {"start_s": "start to", "print_ms": "print", "pss_mb_per_rank": "PSS"}
    for goal in document["goals"]:
        if goal["goal"] is None or areas[field] not in goal["area"]:
            continue
        ranks = "".join(c for c in goal["case"].split("-")[-1] if c.isdigit())
        name = f"{'stub' if 'stub' in goal['case'] else 'libsk'}-{ranks}"
        if name not in names:
            continue
        base = figures["ipykernel"][field]["median"] if "ipykernel" in goal["unit"] else 1.0
        at = names.index(name)
        axes.plot([at - 0.45, at + 0.45], [goal["goal"] * base] * 2, color="black", linewidth=1.5)
