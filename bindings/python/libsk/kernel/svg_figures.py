"""SVG figures that are alike on all ranks are the same text, so that the notebook shows one.

Matplotlib writes random ids and the time into them, unless it is told not to.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

_SALT = "libsk"


def patch(module: ModuleType) -> None:
    """Of ``matplotlib.backends.backend_svg``. What a user has set (``svg.hashsalt``, a date in the
    metadata, ``SOURCE_DATE_EPOCH``) stays; other formats are not touched."""
    canvas = module.FigureCanvasSVG
    canvas.print_svg = _alike(canvas.print_svg)


def _alike(print_svg: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(print_svg)
    def printing(canvas: Any, *arguments: Any, metadata: Any = None, **options: Any) -> None:
        from matplotlib import rcParams

        if "SOURCE_DATE_EPOCH" not in os.environ:
            metadata = {"Date": None, **(metadata or {})}
        own = rcParams["svg.hashsalt"]
        if own is None:
            rcParams["svg.hashsalt"] = _SALT
        try:
            print_svg(canvas, *arguments, metadata=metadata, **options)
        finally:
            rcParams["svg.hashsalt"] = own

    return printing
