"""Seeds of the random generators that libraries keep: of Python, NumPy and PyTorch."""

from __future__ import annotations

import random
import sys
from types import ModuleType

SEED_MAX = 2**32 - 4097
"""NumPy takes 32 bits, and the highest rank adds 4095."""

_GENERATORS = {"numpy.random": ("seed", "seed"), "torch": ("seed", "manual_seed")}
"""By module: the function that draws a new seed, and the one that takes it."""

_chosen: int | None = None
"""This rank's, once ``%sk seed`` has said one."""


def renew() -> None:
    """After a fork: each rank draws numbers of its own. Python's ``random`` sees to that itself."""
    for name, (draw, _) in _GENERATORS.items():
        seed = getattr(sys.modules.get(name), draw, None)
        if seed is not None:
            seed()


def choose(seed: int, rank: int) -> None:
    """``%sk seed``. What is imported later begins with it as well."""
    global _chosen
    if not 0 <= seed <= SEED_MAX:
        raise ValueError(f"%sk seed is {seed}; it must be a number from 0 to {SEED_MAX}")
    _chosen = seed + rank
    random.seed(_chosen)
    for name in _GENERATORS:
        module = sys.modules.get(name)
        if module is not None:
            patch(module)


def patch(module: ModuleType) -> None:
    """Of a module that has just been imported."""
    take = getattr(module, _GENERATORS[module.__name__][1], None)
    if _chosen is not None and take is not None:
        take(_chosen)
