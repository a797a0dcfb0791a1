"""Traces: when each task of this rank waited and ran."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from libsk import _core
from libsk._checks import shown
from libsk._errors import UnsupportedError, invalid
from libsk._here import Here

Gather = Callable[[np.ndarray], np.ndarray]
"""``Comm.allgather()``."""


class Trace(Here):
    """Records from ``with`` to its end; afterwards ``events`` and ``json`` hold what was recorded.

    Times are microseconds of the host's monotonic clock, so ranks of one host share an axis.
    """

    def __init__(self, handle: _core.Comm, event_count_max: int, gather: Gather | None) -> None:
        self._handle = handle
        self._gather = gather  # None on a GPU.
        self._event_count_max = event_count_max
        self.json: str = '{"traceEvents": []}'
        """Chrome's and Perfetto's format: save it and open it there."""

    @property
    def events(self) -> list[dict[str, Any]]:
        """This rank's, one dict for each: ``name``, ``ts`` and ``dur`` in microseconds, ``pid`` the
        rank, ``tid`` the worker, ``args``."""
        return json.loads(self.json)["traceEvents"]

    def gather(self) -> list[dict[str, Any]]:
        """The events of all ranks, in one list in the order of ranks, on every rank. Collective.

        Not on a GPU, whose ranks are threads of one process: there they join their ``events``.
        """
        gather = self._gather
        if gather is None:
            raise UnsupportedError(
                "trace.gather() is for communicators on the CPU; ranks on a GPU are threads of one"
                " process: join their trace.events",
                12,
                "SK_ERR_UNSUPPORTED",
            )
        text = self.json.encode()
        sizes = gather(np.array([len(text)], np.int64)).ravel()
        words = np.zeros(-(-int(sizes.max()) // 8), np.int64)
        words.view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
        rows = gather(words)
        events: list[dict[str, Any]] = []
        for row, size in zip(rows, sizes, strict=True):
            events += json.loads(row.view(np.uint8)[:size].tobytes())["traceEvents"]
        return events

    def save(self, path: str | PathLike[str]) -> None:
        """Writes ``json``, this rank's events, to a file, which is overwritten.

        For all ranks in one: ``json.dump({"traceEvents": trace.gather()}, file)`` on one of them.
        """
        try:
            target = Path(path)
        except TypeError:
            raise invalid(f"path is {shown(path)}; give the path of a file") from None
        target.write_text(self.json, encoding="utf-8")

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
