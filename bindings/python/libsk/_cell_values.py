"""What cells of a session hand back: texts, displays, errors, one by one and all together."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from libsk._errors import Error

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_STATUSES = {1: "ok", 2: "error", 3: "aborted"}
"""``enum sk_cell_status``."""
_DISPLAYS = {1: "display", 2: "result", 3: "update", 6: "page"}
_CLEAR, _CLEAR_WAIT = 4, 5
"""``enum sk_display_kind``."""
_CONSEQUENCE = 1
"""SK_ERROR_CONSEQUENCE."""
_START, _STREAM, _DISPLAY, _ERROR, _DONE, _INPUT, _INPUT_END = 3, 4, 5, 6, 7, 20, 21
"""``enum sk_event_kind``."""


def numbers_of(ranks: str) -> tuple[int, ...]:
    """The ranks of "0-3,5"."""
    numbers: list[int] = []
    for part in filter(None, ranks.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def plain(text: str) -> str:
    """A text without its colours."""
    return _ANSI.sub("", text)


@dataclass(frozen=True)
class Display:
    """One display, or the value of a cell's last expression, in one or more representations."""

    data: dict[str, Any]
    """By MIME type: a str for text, what JSON says, bytes for all else (a picture)."""
    ranks: tuple[int, ...]
    """Whose it is. Displays that are alike on several ranks are one."""
    kind: str = "display"
    """``"display"``, ``"result"``, ``"update"`` of those with the same id, or ``"page"`` (help)."""
    metadata: dict[str, Any] = field(default_factory=dict)
    display_id: str = ""


@dataclass(frozen=True)
class RankFailure:
    """How a cell failed on one rank, in the words of that rank alone."""

    rank: int
    name: str
    """The exception's type, as its language has it."""
    value: str
    """What it says."""
    traceback: str
    """As a notebook shows it, with its colours."""
    is_consequence: bool = False
    """It failed only because a peer did."""


@dataclass(frozen=True)
class Failure:
    """An error that ended a cell, of all ranks that failed."""

    ranks: tuple[int, ...]
    """Whose it is; none where the cell was not run."""
    name: str
    """The exception's type, as its language has it; ``"MultiRankError"`` where ranks differ."""
    value: str
    """What it says, and for whom."""
    traceback: str
    """As a notebook shows it, with its colours."""
    each: tuple[RankFailure, ...] = ()
    """Each rank's own, from the lowest. A rank that raised and then died has two."""


@dataclass(frozen=True)
class CellEvent:
    """Something that a cell did. ``kind`` says which of the others are set:

    ``"start"``: it left the queue. ``"text"``: ``text`` on ``stream``. ``"display"``: ``display``.
    ``"clear"``: its outputs so far are gone, once the next comes where ``waits``. ``"error"``:
    ``error``. ``"input"``: its ranks wait for ``cell.answer()``; ``text`` is the prompt.
    ``"input_end"``: they do not any more. ``"done"``: the last one; ``status`` says how it ended.
    """

    kind: str
    ranks: tuple[int, ...] = ()
    text: str = ""
    stream: str = ""
    """``"stdout"`` or ``"stderr"``."""
    display: Display | None = None
    waits: bool = False
    error: Failure | None = None
    request: int = 0
    """Of ``"input"``: which question it is."""
    password: bool = False
    """What is typed is not to be shown."""
    status: str = ""
    """``"ok"``, ``"error"`` or ``"aborted"``."""
    times: tuple[tuple[int, float, float], ...] = ()
    """Of ``"done"``: rank, seconds, and seconds of processor time of each rank that ended it."""


@dataclass(frozen=True)
class Result:
    """What a cell gave, on all of its ranks together."""

    cell: int
    """Its number in the session: 1, 2, 3."""
    status: str
    """``"ok"``, ``"error"``, or ``"aborted"``: never begun, as an earlier cell failed."""
    ranks: tuple[int, ...]
    """Those it ran on."""
    text: str
    """All that it printed, as a notebook shows it: what ranks have in common once, and tags like
    ``[0-2]`` where they differ."""
    stdout: str
    """Its part on that stream."""
    stderr: str
    """And on this one."""
    displays: tuple[Display, ...]
    """Each with its ``data`` by MIME type (a str for text, what JSON says, bytes for all else), its
    ``ranks``, ``kind`` (``"display"``, ``"result"``, ``"page"``), ``metadata``, ``display_id``."""
    errors: tuple[Failure, ...]
    """What ended it, with ``name``, ``value``, ``traceback`` and ``ranks``: errors of several ranks
    as one, whose value and traceback tell them apart, and ``each`` rank's own."""
    seconds: dict[int, float]
    """How long each rank took that came to the cell's end."""
    cpu_seconds: dict[int, float]
    """How much of the processors, with all its threads."""

    @property
    def ok(self) -> bool:
        """Whether every rank came to the end of the cell without an error."""
        return self.status == "ok"

    @property
    def value(self) -> str | None:
        """The text of the cell's last expression; None if it has none."""
        for display in reversed(self.displays):
            if display.kind == "result":
                text = display.data.get("text/plain")
                return text if isinstance(text, str) else None
        return None

    @property
    def rank_errors(self) -> dict[int, RankFailure]:
        """By rank: how it failed, with its own ``name``, ``value`` and ``traceback``.

        Of a rank that raised and then died it is the death.
        """
        return {own.rank: own for error in self.errors for own in error.each}

    def check(self) -> Result:
        """Itself; raises :class:`CellError` unless the cell ended well."""
        if self.ok:
            return self
        raise cell_error(self)


class CellError(Error):
    """A cell of a session ended with an error, or was never begun.

    The text names the error and its ranks; the ranks' traceback is its cause. The call itself was
    right, so ``code`` is that of no status.
    """

    result: Result
    """All that the cell gave, up to its end."""
    ranks: tuple[int, ...] = ()
    """The ranks that failed; ``rank`` is the one of them, if it is one. What each says is in
    ``result.rank_errors``."""

    def __init__(self, sentence: str, code: int = 0, name: str = "SK_CELL_ERROR") -> None:
        super().__init__(sentence, code, name)


class CellTraceback(Exception):
    """Stands for the ranks' own exception, as the cause of a :class:`CellError`."""

    def __str__(self) -> str:
        return "\n" + super().__str__()


def cell_error(result: Result) -> CellError:
    """What is raised for a cell that did not end well."""
    if result.errors:
        first = result.errors[0]
        error = CellError(f"{first.name}: {first.value}" if first.value else first.name)
        error.__cause__ = CellTraceback(plain("\n".join(each.traceback for each in result.errors)))
    elif result.status == "aborted":
        error = CellError(
            f"cell {result.cell} was not run: it was interrupted, or one before it failed"
        )
    else:
        error = CellError(f"cell {result.cell} failed")
    error.result = result
    failed = {rank for each in result.errors for rank in each.ranks}
    error.ranks = tuple(sorted(failed))
    error.rank = error.ranks[0] if len(error.ranks) == 1 else None
    return error


def _data_of(mimes: list[tuple[str, bytes]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for kind, content in mimes:
        if kind == "application/json" or kind.endswith("+json"):
            data[kind] = json_of(content)
        elif kind.startswith("text/") or kind.endswith("+xml") or kind in _TEXTS:
            data[kind] = content.decode(errors="replace")
        else:
            data[kind] = content
    return data


_TEXTS = {"application/javascript", "application/xml", "application/x-latex"}


def json_of(content: bytes | str) -> Any:
    """What it says; of what is none, the text."""
    try:
        return json.loads(content)
    except ValueError:
        return content if isinstance(content, str) else content.decode(errors="replace")


def display_of(fields: dict[str, Any], ranks: tuple[int, ...]) -> Display:
    """Of an event of the session, or its answer about the log."""
    metadata = json_of(fields["metadata"] or "{}")
    return Display(
        data=_data_of(fields["mimes"]),
        ranks=ranks,
        kind=_DISPLAYS.get(fields["display"], "display"),
        metadata=metadata if isinstance(metadata, dict) else {},
        display_id=fields["display_id"],
    )


def _rank_failure(rank: int, flags: int, words: tuple[str, str, list[str]]) -> RankFailure:
    name, value, lines = words
    return RankFailure(rank, name, plain(value), "\n".join(lines), bool(flags & _CONSEQUENCE))


def event_of(fields: dict[str, Any]) -> CellEvent | None:
    """An event of a cell; None of one that says nothing here (a widget's)."""
    kind, ranks, text = fields["kind"], numbers_of(fields["ranks"]), fields["text"]
    if kind == _START:
        return CellEvent("start", ranks)
    if kind == _STREAM:
        stream = "stderr" if fields["stream"] == 2 else "stdout"
        return CellEvent("text", ranks, text, stream)
    if kind == _DISPLAY:
        if fields["display"] in (_CLEAR, _CLEAR_WAIT):
            return CellEvent("clear", ranks, waits=fields["display"] == _CLEAR_WAIT)
        return CellEvent("display", ranks, display=display_of(fields, ranks))
    if kind == _ERROR:
        failure = Failure(
            ranks,
            fields["ename"],
            plain(fields["evalue"]),
            "\n".join(fields["traceback"]),
            tuple(_rank_failure(*each) for each in fields["errors"]),
        )
        return CellEvent("error", ranks, error=failure)
    if kind == _INPUT:
        secret = fields["answer"] == 1
        return CellEvent("input", ranks, text, request=fields["request"], password=secret)
    if kind == _INPUT_END:
        return CellEvent("input_end", ranks, request=fields["request"])
    if kind == _DONE:
        times = tuple((rank, wall / 1e9, cpu / 1e9) for rank, wall, cpu in fields["times"])
        status = _STATUSES.get(fields["status"], "error")
        return CellEvent("done", ranks, status=status, times=times)
    return None


class Outputs:
    """What is left of a cell's outputs, as its events come."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []
        self._displays: list[Display] = []
        self._errors: list[Failure] = []
        self._ranks: tuple[int, ...] = ()
        self._clears = False  # Once the next output comes.

    def add(self, event: CellEvent) -> None:
        """One more event."""
        if event.kind == "start":
            self._ranks = event.ranks
        elif event.kind == "clear":
            self._clears = event.waits
            if not event.waits:
                self._clear()
        elif event.kind == "text":
            self._clear_if_due()
            self._texts.append((event.stream, event.text))
        elif event.display is not None:
            self._clear_if_due()
            self._show(event.display)
        elif event.error is not None:
            self._clear_if_due()
            self._errors.append(event.error)

    def _clear_if_due(self) -> None:
        if self._clears:
            self._clears = False
            self._clear()

    def _clear(self) -> None:
        self._texts.clear()
        self._displays.clear()

    def _show(self, display: Display) -> None:
        if display.kind != "update":
            self._displays.append(display)
            return
        for i, shown in enumerate(self._displays):
            if shown.display_id == display.display_id:
                self._displays[i] = Display(
                    display.data, display.ranks, shown.kind, display.metadata, shown.display_id
                )

    def result(self, cell: int, done: CellEvent) -> Result:
        """All of it, when the cell has ended."""
        of = {
            name: "".join(text for stream, text in self._texts if stream == name)
            for name in ("stdout", "stderr")
        }
        return Result(
            cell=cell,
            status=done.status,
            ranks=done.ranks or self._ranks,
            text="".join(text for _, text in self._texts),
            stdout=of["stdout"],
            stderr=of["stderr"],
            displays=tuple(self._displays),
            errors=tuple(self._errors),
            seconds={rank: wall for rank, wall, _ in done.times},
            cpu_seconds={rank: cpu for rank, _, cpu in done.times},
        )
