"""What torch hears of its tensors that a call has overwritten."""

from __future__ import annotations

import sys
from typing import Any

from libsk._errors import MAY_BE_UNDER_WAY, Error, TileError


def count_writes(tensors: list[Any]) -> None:
    """Tells it of tensors that have versions, as its own operations in place do."""
    if not tensors:
        return
    count = sys.modules["torch"].autograd.graph.increment_version
    if len(tensors) > 1:
        try:
            return count(tensors)
        except (TypeError, RuntimeError):  # Somewhat older ones take one at a time.
            pass
    for x in tensors:
        count(x)


def has_written(error: BaseException) -> bool:
    """Whether a call that failed so may have written: one that was refused has not."""
    is_refused = isinstance(error, Error) and error.code < MAY_BE_UNDER_WAY
    return not is_refused or isinstance(error, TileError)
