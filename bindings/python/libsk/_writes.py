"""What torch hears of its tensors that a call has overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libsk._errors import MAY_BE_UNDER_WAY, Error, TileError


def counter(torch: Any) -> tuple[Callable[[Any], Any], bool]:
    """Its function that is told of what is overwritten, as its own operations in place tell it, and
    whether that takes a list. AttributeError: it has none.

    What is compiled goes first: no handler of a signal runs in that, which might raise between a
    write and the word of it.
    """
    compiled = getattr(getattr(torch, "_C", None), "_increment_version", None)
    if compiled is None:
        return torch.autograd.graph.increment_version, False
    try:
        compiled([])
    except (TypeError, RuntimeError):  # Somewhat older ones take one at a time.
        return compiled, False
    return compiled, True


def count_writes(torch: Any, tensors: list[Any]) -> None:
    """Tells it of tensors that have versions; releases of it that have none hear of nothing."""
    try:
        count, takes_lists = counter(torch)
    except AttributeError:
        return
    for told in [tensors] if takes_lists else tensors:
        count(told)


def has_written(error: BaseException) -> bool:
    """Whether a call that failed so may have written: one that was refused has not."""
    is_refused = isinstance(error, Error) and error.code < MAY_BE_UNDER_WAY
    return not is_refused or isinstance(error, TileError)
