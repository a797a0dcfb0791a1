"""The end of a process that a cell has forked: what a Python program would say, and its status."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from typing import NoReturn

from libsk import _core
from libsk.kernel import still, streams, tracebacks

_STDERR = 2

# The interpreter's own, whatever a class derived from SystemExit has put over it.
_code = SystemExit.__dict__["code"]


def leave(error: BaseException | None, traceback: Sequence[str]) -> NoReturn:
    """Ends the process, which no handler of its parent's may see out of the cell."""
    status = 1
    try:
        streams.flush()
        status, text = _status_and_text(error, traceback)
        if text:
            with contextlib.suppress(OSError):  # It has closed its stderr.
                os.write(_STDERR, _core.to_wire(text + "\n"))
        if still.is_a(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        os._exit(status)


def _status_and_text(error: BaseException | None, traceback: Sequence[str]) -> tuple[int, str]:
    if error is None:
        return 0, ""
    if not still.is_a(error, SystemExit):
        return 1, "\n".join(traceback) or tracebacks.line_of(error)
    code = _code.__get__(error)
    if code is None:
        return 0, ""
    if still.is_a(code, int):
        return int.__and__(code, 0xFF), ""
    return 1, tracebacks.text_of(code)
