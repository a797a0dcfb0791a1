"""What can be asked of a session beside running cells: its state, its logs, its ranks' names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from libsk import _core
from libsk._cell import Cell
from libsk._cell_values import Display, Result, display_of, numbers_of
from libsk._checks import integer, refusal, shown, text_of, whole
from libsk._errors import TimeoutError, from_status, invalid

if TYPE_CHECKING:
    from libsk._session_book import Book
    from libsk._session_link import Link

_ANSWER_S = 60.0
"""Ranks that are busy are not waited for, so an answer takes less."""
_COMPLETE, _INSPECT, _IS_COMPLETE = 2, 3, 4
"""``enum sk_request_kind``."""
_COMPLETENESS = ("unknown", "complete", "incomplete", "invalid")
"""``enum sk_is_complete``."""
_LOG_TEXT, _LOG_DISPLAY = 1, 2
_PIECE_BYTES = 8 << 20
_TAGS = {None: 0, "set": 1, "none": 2, "spec": 3, "host": 4}
"""``enum sk_tag_mode``."""

Ranks = Any
"""A set as text ("0-3,5", "!0", "alive", ...), a rank, or several; None stands for all."""


class Completion(NamedTuple):
    """Names that continue a text: each may stand for ``code[start:end]``."""

    matches: tuple[str, ...]
    start: int
    end: int


class Completeness(NamedTuple):
    """Whether a text can be run as it is."""

    status: str
    """``"complete"``, ``"incomplete"``, ``"invalid"`` or ``"unknown"``."""
    indent: str
    """Of the next line, where it is incomplete."""


def rank_set(ranks: Ranks) -> str | None:
    """A set of ranks as the library reads it."""
    if ranks is None:
        return None
    allowed = 'a set as "0-3,5", a rank, several, or None for all'
    if isinstance(ranks, str) and ranks:
        return text_of(ranks, "ranks", allowed)
    single, why = whole(ranks)
    numbers = []
    if not isinstance(ranks, str):
        try:
            numbers = [whole(each)[0] for each in ([ranks] if single is not None else ranks)]
        except TypeError:  # It is nothing of which there are several.
            pass
        except Exception as raised:  # noqa: BLE001 - it may raise what it likes.
            why = [raised]
    if not numbers or None in numbers:
        raise refusal(f"ranks is {shown(ranks)}; give {allowed}", why)
    return ",".join(map(str, numbers))


def cell_number(cell: Cell | Result | SupportsIndex | None) -> int:
    """Of a cell, its result, or the number itself; 0 is the newest."""
    if cell is None:
        return 0
    if isinstance(cell, Cell):
        return cell.number
    if isinstance(cell, Result):
        return cell.cell
    return integer(cell, "cell", "a cell, its result or its number", low=1, end=2**63)


class Questions:
    """The half of :class:`Session` that asks and waits for the answer."""

    _link: Link
    _book: Book

    def _ask(self, call: str, send: Callable[[_core.Session], int]) -> dict[str, Any]:
        self._link.check(call)
        replies = self._book.replies
        with self._link.changed:  # So that the answer is not there before it is waited for.
            request = send(self._link.handle)
            replies[request] = None
        try:
            if not self._link.wait(lambda: replies[request] is not None, _ANSWER_S, call):
                raise TimeoutError(
                    f"session.{call}(): no answer within {_ANSWER_S:g} s", 30, "SK_ERR_TIMEOUT"
                )
            answer = replies[request]
        finally:
            with self._link.changed:
                del replies[request]
        assert answer is not None
        if answer["status"] != 0:
            name = _core.status_name(answer["status"])
            nobody = f"session.{call}(): no rank can answer now"
            why = answer["text"].decode(errors="replace") or nobody
            raise from_status(answer["status"], name, why)
        return answer

    def status(self) -> dict[str, Any]:
        """What the session and each of its ranks are doing, also while a cell runs.

        A dict as ``sk_session_status()`` has it (``include/sk/session.h``): ``"ranks"`` is a list
        of dicts with ``"rank"``, ``"state"``, ``"pid"``, ``"cause"``, ``"waits_for"`` and so on.
        """
        answer: dict[str, Any] = json.loads(self._ask("status", lambda h: h.status())["text"])
        return answer

    def stack(self, ranks: Ranks = None) -> str:
        """Where the ranks' main threads are, also while they are busy; equal stacks once."""
        chosen = rank_set(ranks)
        answer = self._ask("stack", lambda handle: handle.stack(chosen))
        return str(answer["text"].decode(errors="replace"))

    def revive(self, ranks: Ranks = None) -> tuple[int, ...]:
        """Starts dead and stuck ranks again, by default all of them; which those are.

        They come back empty, the others keep what they have. Does not wait for them: cells do.
        """
        chosen = rank_set(ranks)
        answer = self._ask("revive", lambda handle: handle.revive(chosen))
        return numbers_of(answer["strings"][0])

    def complete(self, code: str, cursor: SupportsIndex | None = None) -> Completion:
        """Names that continue ``code`` at ``cursor``, a number of characters; by default its end.

        One rank answers; where all are busy, from what it knew when its cell began.
        """
        text, at = self._position(code, cursor)
        answer = self._ask("complete", lambda handle: handle.ask(_COMPLETE, text, at, 0))
        before = [text.encode()[: answer[end]].decode(errors="ignore") for end in ("start", "end")]
        return Completion(tuple(answer["strings"]), len(before[0]), len(before[1]))

    def inspect(
        self, code: str, cursor: SupportsIndex | None = None, *, detail: SupportsIndex = 0
    ) -> dict[str, Any] | None:
        """What the name at ``cursor`` is, by MIME type; None if nothing is known of it.

        With ``detail=1`` its source, too.
        """
        text, at = self._position(code, cursor)
        level = integer(detail, "detail", "0 or 1", end=2)
        answer = self._ask("inspect", lambda handle: handle.ask(_INSPECT, text, at, level))
        return display_of(answer, ()).data if answer["answer"] == 1 else None

    def is_complete(self, code: str) -> Completeness:
        """Whether ``code`` can be run as it is, or its reader is still typing."""
        text, at = self._position(code, None)
        answer = self._ask("is_complete", lambda handle: handle.ask(_IS_COMPLETE, text, at, 0))
        indent = answer["strings"][0] if answer["strings"] else ""
        return Completeness(_COMPLETENESS[answer["answer"] & 3], indent)

    @staticmethod
    def _position(code: str, cursor: SupportsIndex | None) -> tuple[str, int]:
        text = text_of(code, "code", "source text")
        if cursor is None:
            return text, len(text.encode())
        allowed = f"a position in {len(text)} characters of code"
        at = integer(cursor, "cursor", allowed, end=len(text) + 1)
        return text, len(text[:at].encode())

    def log(self, cell: Cell | Result | SupportsIndex | None = None, ranks: Ranks = None) -> str:
        """All that a cell has printed, by default the newest, also while it runs.

        Of one rank as it came, of several merged as the cell shows it; but whole, where a
        :class:`Result` has at most 10,000 lines (:meth:`configure`). The newest 256 cells are kept.
        """
        number, chosen = cell_number(cell), rank_set(ranks)
        text = b""
        while True:
            at = len(text)
            answer = self._ask(
                "log", lambda h, at=at: h.log(_LOG_TEXT, number, chosen, at, _PIECE_BYTES)
            )
            text += answer["text"]
            if answer["end"] >= answer["total"] or len(text) == at:
                return text.decode(errors="replace")

    def log_displays(
        self, rank: SupportsIndex, cell: Cell | Result | SupportsIndex | None = None
    ) -> list[Display]:
        """The displays of one rank in a cell, each as the rank made it.

        Raises :class:`OutOfRangeError` if it made none there.
        """
        number, chosen = cell_number(cell), str(integer(rank, "rank", "the number of a rank"))
        found: list[Display] = []
        while True:
            at = len(found)
            answer = self._ask(
                "log_displays", lambda h, at=at: self._display(h, number, chosen, at)
            )
            found.append(display_of(answer, (int(chosen),)))
            if len(found) >= answer["total"]:
                return found

    @staticmethod
    def _display(handle: _core.Session, cell: int, rank: str, at: int) -> int:
        return handle.log(_LOG_DISPLAY, cell, rank, at, 0)

    def configure(
        self,
        *,
        tag: str | None = None,
        shown_lines: SupportsIndex = 0,
        shown_bytes: SupportsIndex = 0,
        kept_bytes: SupportsIndex = 0,
    ) -> None:
        """Changes how outputs are shown and kept, from the next cell that starts.

        ``tag`` says how lines are marked that not all ranks have: ``"set"`` as ``[0-3,5]``, which
        is so at first, ``"none"``, ``"spec"`` (each line of each rank), ``"host"``.
        ``shown_lines`` and ``shown_bytes`` bound what a cell's result has of its text, 10,000 and
        1 MiB at first; ``kept_bytes`` what :meth:`log` has of each rank, 64 MiB at first. What is
        not given stays.
        """
        if not (tag is None or isinstance(tag, str)) or tag not in _TAGS:
            raise invalid(f'tag is {shown(tag)}; allowed is "set", "none", "spec", "host", or None')
        limits = [
            integer(value, name, "a number, or 0 to leave it", end=2**63)
            for name, value in (
                ("shown_lines", shown_lines),
                ("shown_bytes", shown_bytes),
                ("kept_bytes", kept_bytes),
            )
        ]
        self._link.check("configure")
        self._link.handle.configure(_TAGS[tag], *limits)
