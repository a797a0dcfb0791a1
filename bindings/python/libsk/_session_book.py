"""What a session's events say: of its cells, its ranks, and to those who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from libsk._cell import Cell
from libsk._cell_values import event_of, numbers_of

_STATUS, _RANK, _START, _REPLY, _NOTE, _QUEUED = 1, 2, 3, 8, 9, 10
"""``enum sk_event_kind``."""
_STATES = {1: "starting", 2: "ready", 3: "degraded", 4: "over"}
"""``enum sk_session_state``."""
_STUCK, _DEAD = 2, 3
"""``enum sk_rank_state``."""


class Book:
    """All of it. Read and written with the link's ``changed`` held."""

    def __init__(self) -> None:
        self.state = "starting"
        self.lost: dict[int, str] = {}
        """Why ranks are dead or stuck."""
        self.notes: dict[str, str] = {}
        self.cells: dict[int, Cell] = {}
        """Those that have not ended."""
        self.told: list[Cell] = []
        """Of a session that attached: those that the one before it did not hand over."""
        self.replies: dict[int, dict[str, Any] | None] = {}
        """By request: None until the answer comes."""
        self.adopt: Callable[[int], Cell] | None = None
        """Makes a cell of before, while a session that attached hears of them."""
        self._states_told = 0

    def catches_up(self) -> bool:
        """Whether a session that attached still hears of what was before: between two states."""
        return self._states_told < 2

    def take(self, fields: dict[str, Any]) -> None:
        """The next event."""
        kind = fields["kind"]
        if kind == _STATUS:
            self.state = _STATES[fields["status"]]
            self._states_told += 1
            if not self.catches_up():
                self.adopt = None
        elif kind == _RANK:
            self._take_ranks(fields)
        elif kind == _NOTE:
            self.notes[fields["tag"]] = fields["text"]
        elif kind == _REPLY:
            if fields["request"] in self.replies:
                self.replies[fields["request"]] = fields
        else:
            self._take_of_cell(kind, fields)

    def _take_ranks(self, fields: dict[str, Any]) -> None:
        for rank in numbers_of(fields["ranks"]):
            if fields["status"] in (_STUCK, _DEAD):
                self.lost[rank] = fields["text"]
            else:
                self.lost.pop(rank, None)

    def _take_of_cell(self, kind: int, fields: dict[str, Any]) -> None:
        number = fields["cell"]
        cell = self.cells.get(number)
        if cell is None and kind in (_START, _QUEUED) and self.adopt is not None:
            cell = self.cells[number] = self.adopt(number)
            cell.tag = fields["tag"]
            self.told.append(cell)
        if cell is None:
            return  # It has ended; what its threads print behind that is in its log.
        event = event_of(fields)
        if event is None:
            return
        cell._add(event)
        if event.kind == "done":
            del self.cells[number]
