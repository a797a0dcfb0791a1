"""What is of this process, and of nobody else's."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex


class Here:
    """Its objects stand for something of the library's that is in this process alone."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a {_name_of(type(self))} can be neither pickled nor copied: it is of the process that"
            " made it; make another one where it is needed"
        )


def _name_of(own: type[Any]) -> str:
    """As users call it, or the class that theirs is one of."""
    return next(
        f"libsk.{each.__name__}" for each in own.__mro__ if each.__module__.startswith("libsk.")
    )
