"""ipywidgets' Output in a rank: ``with out:`` takes what this rank puts out meanwhile.

By Jupyter's protocol the notebook does that: the widget names a cell's message, and outputs of that
cell go to the widget. Here a cell's outputs are those of all ranks, merged, and every rank has a
widget of its own. So the rank itself puts them into the widget's ``outputs``, as append_stdout()
does, and none of them reaches the cell. What C code and child processes write stays the cell's.
"""

from __future__ import annotations

import base64
import functools
import os
import threading
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from libsk.kernel import places

_GAP_S = 0.1  # Between two messages of a widget that is printed to in a loop;
_BYTES_PER_S = 500_000  # each carries all that the widget holds, and all ranks send theirs.
_HELD_MAX = 2 << 20
"""Characters that a widget holds. What comes then is the cell's."""


def patch(module: ModuleType) -> None:
    """Called when ``ipywidgets.widgets.widget_output`` has just been imported."""
    output = module.Output
    leave = output.__exit__

    def __enter__(self: Any) -> None:
        self._flush()
        sink = self.__dict__.setdefault("_sk_sink", Sink(self))
        sink.enclosing.append(places.here())
        places.move(places.here()._replace(widget=sink))

    @functools.wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:
        sink = self.__dict__["_sk_sink"]
        try:
            return leave(self, *error)  # It shows the error, in the widget.
        finally:
            places.move(sink.enclosing.pop())
            sink.settle()

    output.__enter__, output.__exit__ = __enter__, __exit__


class Sink:
    """What one widget is given. Any thread."""

    def __init__(self, widget: Any) -> None:
        self.enclosing: list[places.Place] = []
        """Where the threads were that entered it."""
        self._widget = widget
        self._lock = threading.RLock()
        self._new: list[dict[str, Any]] = []
        self._held, self._full = 0, False
        self._clears = self._clears_later = False
        self._shown: dict[str, int] = {}  # Displays by their id.
        self._next_s = 0.0
        self._timer: threading.Timer | None = None

    def write(self, name: str, text: str) -> bool:
        """Text on ``stdout`` or ``stderr``. False, here and below: there is no room."""
        return self._add({"output_type": "stream", "name": name, "text": text}, len(text))

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
        display_id: str | None,
        update: bool,
    ) -> bool:
        """A display, or a new value for one that the widget has."""
        plain = {kind: _as_text(value) for kind, value in data.items()}
        output = {"output_type": "display_data", "data": plain, "metadata": dict(metadata or {})}
        size = sum(len(value) for value in plain.values() if isinstance(value, str))
        if not places.is_rank():
            return False
        with self._lock:
            if not update:
                return self._add(output, size, display_id)
            self.settle()
            at = self._shown.get(display_id or "", -1)
            outputs = list(self._widget.outputs)
            if not 0 <= at < len(outputs):
                return False
            outputs[at] = output
            self._widget.outputs = tuple(outputs)
            return True

    def error(self, name: str, text: str, traceback: list[str]) -> bool:
        """What an exception that leaves the ``with`` shows."""
        output = {"output_type": "error", "ename": name, "evalue": text, "traceback": traceback}
        return self._add(output, sum(map(len, traceback)))

    def clear(self, wait: bool) -> None:
        """Empties the widget, at once or with the next output."""
        if not places.is_rank():
            return
        with self._lock:
            self._clears_later = wait
            if not wait:
                self._empty()
                self._soon()

    def settle(self) -> None:
        """Hands over what there is."""
        if not places.is_rank():  # What the rank had written when it forked is the rank's.
            return
        with self._lock:
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            if not (self._new or self._clears):
                return
            outputs = [] if self._clears else list(self._widget.outputs)
            for output in self._new:
                display_id = output.pop("display_id", None)
                if display_id is not None:
                    self._shown[display_id] = len(outputs)
                if outputs and _continues(outputs[-1], output):
                    output = {**output, "text": outputs.pop()["text"] + output["text"]}
                outputs.append(output)
            self._new, self._clears = [], False
            self._widget.outputs = tuple(outputs)
            gap_s = self._held * int(os.environ.get("WORLD_SIZE", 1)) / _BYTES_PER_S
            self._next_s = time.monotonic() + max(_GAP_S, gap_s)

    def _add(self, output: dict[str, Any], size: int, display_id: str | None = None) -> bool:
        if not places.is_rank():
            return False
        with self._lock:
            if self._clears_later:
                self._empty()
                self._clears_later = False
            self._full = self._full or self._held + size > _HELD_MAX
            if self._full:
                return False
            self._held += size
            if display_id is not None:
                output["display_id"] = display_id  # Until it has its place.
            self._new.append(output)
            self._soon()
            return True

    def _empty(self) -> None:
        self._new.clear()
        self._shown.clear()
        self._held, self._full, self._clears = 0, False, True

    def _soon(self) -> None:
        left_s = self._next_s - time.monotonic()
        if left_s <= 0:
            self.settle()
        elif self._timer is None:
            self._timer = threading.Timer(left_s, self.settle)
            self._timer.daemon = True
            self._timer.start()


def _continues(last: Mapping[str, Any], output: Mapping[str, Any]) -> bool:
    kinds = (last["output_type"], output["output_type"])
    return kinds == ("stream", "stream") and last["name"] == output["name"]


def _as_text(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
