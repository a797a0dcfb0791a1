"""Pictures of the result files of a GPU: products, fused calls, collectives by size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt

from gpu.summary import cases, median_us

Document = dict[str, Any]
COLOURS = {
    "plan": "#c1121f", "bare": "#e9a23b", "cublaslt": "#1d4e89", "copy": "#1d4e89",
    "gemm": "#2a9d8f", "comm": "#8e5ea2", "pair": "#555555",
}  # fmt: skip


def caption(document: Document) -> str:
    """What machine, and whether it was one."""
    machine = document["machine"]
    mark = f", {document['mark']}" if document["mark"] else ""
    return (
        f"{machine['device']}, driver {machine['driver']}, kernels of CUDA "
        f"{machine['kernels_cuda']}, commit {document['commit']}, {document['date']}{mark}"
    )


def _bars(axes: Any, cells: dict[str, dict[str, float]], label: str) -> None:
    """A group of bars for each case, one for each candidate."""
    names = list(dict.fromkeys(name for cell in cells.values() for name in cell))
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        places = [j for j, cell in enumerate(cells.values()) if name in cell]
        axes.bar(
            [j + (i - len(names) / 2 + 0.5) * width for j in places],
            [cell[name] for cell in cells.values() if name in cell],
            width, color=COLOURS.get(name, "#999999"), label=name,
        )  # fmt: skip
    axes.set_xticks(range(len(cells)), [case.replace(" ", "\n") for case in cells], fontsize=7)
    axes.set_ylabel(label)
    axes.grid(True, axis="y", alpha=0.3)
    axes.legend(fontsize=8)


def _medians(document: Document, part: str) -> dict[str, dict[str, float]]:
    return {
        case: {name: median_us(line) for name, line in cell.items() if "rounds" in line}
        for case, cell in cases(document["lines"], part).items()
    }


def gemm(document: Document) -> Any:
    """TFLOP/s by shape."""
    rates = {}
    for case, cell in _medians(document, "gemm").items():
        m, n, k = (int(size) for size in case.split("x"))
        rates[case] = {name: 2e-6 * m * n * k / us for name, us in cell.items()}
    figure, axes = plt.subplots(figsize=(11, 4.6))
    _bars(axes, rates, "TFLOP/s, median")
    axes.set_title("C = A B, bf16, m x n x k")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def fused(document: Document) -> Any:
    """Times over that of the longer of product and all-reduce."""
    shares = {}
    for case, cell in _medians(document, "fused").items():
        longer = max(cell[name] for name in ("gemm", "comm"))
        shares[case] = {name: us / longer for name, us in cell.items()}
    figure, axes = plt.subplots(figsize=(11, 4.6))
    _bars(axes, shares, "time over the longer of gemm and comm")
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_title("sk_allreduce_gemm (plan), and what it is made of")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def collectives(document: Document) -> Any:
    """Speed over that of a copy of as many bytes, by bytes of one rank."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for case, cell in _medians(document, "collectives").items():
        name, ranks, _, size, _ = case.split()
        curves.setdefault(f"{name}, {ranks} ranks", []).append(
            (int(size), cell["copy"] / cell["plan"])
        )
    figure, axes = plt.subplots(figsize=(9, 4.8))
    for name, points in curves.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=3, label=name)
    axes.axhline(0.9, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="bytes", ylabel="speed over a copy's; black: goal")
    axes.legend(fontsize=7, ncols=2)
    axes.grid(True, alpha=0.3)
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


DRAWINGS: dict[str, Callable[[Document], Any]] = {
    "gpu-gemm": gemm,
    "gpu-fused": fused,
    "gpu-collectives": collectives,
}
