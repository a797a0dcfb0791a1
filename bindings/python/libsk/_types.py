"""What checkers of types know of arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class Array(Protocol):
    """NumPy's, torch's, or another library's: results of a call are of the kind of its input."""

    def __dlpack__(self, *arguments: Any, **options: Any) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
