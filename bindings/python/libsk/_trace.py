"""Traces: when each task of this rank waited and ran."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from libsk import _core


class Trace:
    """Records from ``with`` to its end; afterwards ``events`` and ``json`` hold what was recorded.

    Times are microseconds of the host's monotonic clock, so ranks of one host share an axis.
    """

    def __init__(self, handle: _core.Comm, event_count_max: int) -> None:
        self._handle = handle
        self._event_count_max = event_count_max
        self.json = '{"traceEvents": []}'
        """Chrome's and Perfetto's format: save it and open it there."""

    @property
    def events(self) -> list[dict[str, Any]]:
        """One dict for each event: ``name``, ``ts`` and ``dur`` in microseconds, ``pid`` the rank,
        ``tid`` the worker, ``args``."""
        return json.loads(self.json)["traceEvents"]

    def save(self, path: str | PathLike[str]) -> None:
        """Writes ``json`` to a file."""
        Path(path).write_text(self.json, encoding="utf-8")

    def __enter__(self) -> Trace:
        _core.trace_start(self._handle, self._event_count_max)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _core.trace_stop(self._handle)
        self.json = _core.trace_dump(self._handle)
