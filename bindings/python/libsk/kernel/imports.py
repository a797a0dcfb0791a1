"""Sees to what a cell imports and a rank must know of, without importing it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_PATCHES = {
    "asyncio": "libsk.kernel.asynchrony",
    "matplotlib.backends.backend_svg": "libsk.kernel.svg_figures",
    "torch.distributed.distributed_c10d": "libsk.kernel.torch_distributed",
    "ipywidgets.widgets.widget_output": "libsk.kernel.output_widget",
    "numpy.random": "libsk.kernel.seeds",
    "torch": "libsk.kernel.seeds",
}
"""Whose ``patch()`` a module is given to when it has just been imported."""


def install() -> None:
    """Once in a rank. What the template has imported is patched here."""
    # The loop of asyncio is a matter of each cell.
    there = [name for name in _PATCHES if name in sys.modules and name != "asyncio"]
    for name in there:
        importlib.import_module(_PATCHES[name]).patch(sys.modules[name])
    sys.meta_path.insert(0, _Finder(there))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds these modules as all others would, and patches each after it ran."""

    def __init__(self, patched: Sequence[str]) -> None:
        self._awaited = {name: patch for name, patch in _PATCHES.items() if name not in patched}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patch = self._awaited.pop(name, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = _then(  # type: ignore[method-assign]
                spec.loader.exec_module, patch
            )
        return spec


def _then(execute: Callable[[ModuleType], None], patch: str) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        importlib.import_module(patch).patch(module)

    return exec_module
