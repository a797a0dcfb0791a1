"""Cells of a session that were started: their events, their results, and who waits for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from libsk._cell_values import CellEvent, Outputs, Result
from libsk._checks import is_given, milliseconds, shown, text_of
from libsk._errors import TimeoutError, invalid

if TYPE_CHECKING:
    from libsk._session_link import Link


class Cell:
    """A cell that :meth:`Session.start` has queued.

    ``cell.result()`` waits for its end; so does ``await cell`` in an event loop, which goes on
    meanwhile. ``for event in cell`` and ``async for event in cell`` give each :class:`CellEvent` as
    it comes, from the first, to any number of readers.
    """

    def __init__(self, link: Link, number: int, owner: Any, *, keeps: bool = True) -> None:
        self.number = number
        """1, 2, 3: as the session has counted it."""
        self.tag = ""
        """What :meth:`Session.start` was given, also in a session that attaches later."""
        self._link = link
        self._owner = owner  # A session that somebody waits for is not closed.
        self._keeps = keeps  # All events, for those who iterate.
        self._events: list[CellEvent] = []
        self._outputs = Outputs()
        self._prompt: CellEvent | None = None  # The one that is open.
        self._result: Result | None = None

    def __reduce__(self) -> NoReturn:  # No event would reach a copy.
        raise TypeError("a Cell cannot be copied or pickled; its Result can")

    def __repr__(self) -> str:
        state = self._result.status if self._result else "not ended"
        return f"<libsk.Cell {self.number}: {state}>"

    def _add(self, event: CellEvent) -> None:
        if self._keeps:
            self._events.append(event)
        if event.kind == "input":
            self._prompt = event
        elif event.kind == "input_end" and self._prompt and self._prompt.request == event.request:
            self._prompt = None
        elif event.kind == "done":
            self._prompt = None
            self._result = self._outputs.result(self.number, event)
        else:
            self._outputs.add(event)

    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._result is not None

    @property
    def prompt(self) -> CellEvent | None:
        """The question that its ranks wait for an answer to, if one is open."""
        return self._prompt

    def result(self, timeout: float | None = None, *, check: bool = True) -> Result:
        """Waits for its end, and at most ``timeout`` seconds; the cell goes on behind those.

        Raises :class:`CellError` if it failed, unless ``check`` is False.
        """
        raises = is_given(check, "check")
        limit = None if timeout is None else milliseconds(timeout) / 1000
        if limit is None and not self.is_done():
            self._link.refuse_inside_input("cell.result", self.number)
        if not self._link.wait(self.is_done, limit, "cell.result"):
            raise TimeoutError(
                f"cell {self.number} has not ended within {timeout} s; it goes on",
                30,
                "SK_ERR_TIMEOUT",
            )
        return self._handed_over(raises)

    def answer(self, text: str | None) -> None:
        """Answers the question that is open with a line; None is the end of input.

        Only cells that were started with ``input=True`` may ask.
        """
        line = None if text is None else text_of(text, "text", "a line, or None")
        with self._link.changed:
            prompt, self._prompt = self._prompt, None
        if prompt is None:
            raise invalid(
                f"cell.answer(): cell {self.number} asks for nothing; text is {shown(text)}"
            )
        self._link.check("cell.answer")
        self._link.handle.answer(prompt.request, line)

    def interrupt(self) -> None:
        """Interrupts this cell and no other, or drops it if it has not begun.

        What is queued behind it is run. Nothing happens if it has ended. Does not wait.
        """
        self._link.check("cell.interrupt")
        self._link.handle.cancel(self.number)

    def __await__(self) -> Generator[Any, None, Result]:
        return self._ended().__await__()

    async def _ended(self) -> Result:
        await self._link.wait_in_loop(self.is_done, "cell.__await__")
        return self._handed_over(check=True)

    def __iter__(self) -> Iterator[CellEvent]:
        at = 0
        while not self._is_over(at):
            has = lambda at=at: self._has(at)  # type: ignore[misc]  # noqa: E731
            if not self._has(at):
                self._link.refuse_inside_input("cell.__iter__", self.number)
            self._link.wait(has, None, "cell.__iter__")
            yield self._events[at]
            at += 1

    async def __aiter__(self) -> AsyncIterator[CellEvent]:
        at = 0
        while not self._is_over(at):
            has = lambda at=at: self._has(at)  # type: ignore[misc]  # noqa: E731
            await self._link.wait_in_loop(has, "cell.__aiter__")
            yield self._events[at]
            at += 1

    def _has(self, at: int) -> bool:
        return len(self._events) > at

    def _is_over(self, at: int) -> bool:
        if at == 0 or self._events[at - 1].kind != "done":
            return False
        self._handed_over(check=False)
        return True

    def _handed_over(self, check: bool) -> Result:
        """From here on its reader has it, so that a session that attaches need not tell it anew."""
        result = self._result
        assert result is not None
        self._link.acknowledge(self.number)
        return result.check() if check else result
