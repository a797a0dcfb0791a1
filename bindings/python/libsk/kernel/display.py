"""IPython's two ways out, onto the rank's worker: results and displays."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from libsk import _core
from libsk.kernel import mime, places, streams


def flush() -> None:
    """Hands what Python holds back of stdout and stderr to the captured descriptors. Within a cell:
    what a user has put in their place is asked, too."""
    streams.flush()
    for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None)):
        if stream is None or streams.is_own(stream):
            continue
        with contextlib.suppress(Exception):  # What cannot be flushed holds nothing back.
            stream.flush()


class RankDisplayHook(DisplayHook):
    """Sends the value of a cell's last expression as its result."""

    worker: _core.Worker
    exec_result: Any = None  # IPython checks what it is given, twice a cell.
    _bundle: dict[str, Any]
    _metadata: dict[str, Any]

    def start_displayhook(self) -> None:
        self._bundle = {}
        self._metadata = {}

    def write_output_prompt(self) -> None:
        """The front end writes the prompt."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self._bundle = dict(format_dict)
        self._metadata = dict(md_dict or {})

    def finish_displayhook(self) -> None:
        flush()
        if self._bundle:
            metadata = mime.metadata_of(self._metadata)
            self.worker.display(mime.DISPLAY_RESULT, mime.bundle_of(self._bundle), None, metadata)


class RankDisplayPublisher(DisplayPublisher):
    """Sends what ``display()`` is given."""

    worker: _core.Worker

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: Any = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        """One display, or a new value for the displays of the same ``display_id``."""
        flush()
        display_id = (transient or {}).get("display_id")
        if display_id is not None:
            display_id = str(display_id)
        widget = places.here().widget
        if widget is not None and widget.display(data, metadata, display_id, update):
            return
        kind = mime.DISPLAY_UPDATE if update else mime.DISPLAY_DATA
        bundle, about = mime.bundle_of(data), mime.metadata_of(metadata)
        with places.claimed():
            self.worker.display(kind, bundle, display_id, about)

    def clear_output(self, wait: bool = False) -> None:
        """Removes the cell's outputs so far, at once or with the next one."""
        flush()
        widget = places.here().widget
        if widget is not None:
            return widget.clear(wait)
        kind = mime.DISPLAY_CLEAR_WAIT if wait else mime.DISPLAY_CLEAR
        with places.claimed():
            self.worker.display(kind, [], None)
