"""``input()`` and ``getpass()`` in ranks: the notebook is asked, and this thread waits.

What several ranks ask in the same words is one question for the user, whose answer all of them get.
"""

from __future__ import annotations

import builtins
import getpass
import threading
from typing import Any

from IPython.core.error import StdinNotImplementedError

from libsk import _core
from libsk._errors import AbortedError
from libsk.kernel.display import flush

_TEXT, _EOF = 1, 2
"""``enum sk_input_state``."""

_one_at_a_time = threading.Lock()


def install(worker: _core.Worker) -> None:
    """Puts both in the place of those that read a terminal."""

    def ask(prompt: object, password: bool) -> str:
        flush()
        with _one_at_a_time:
            try:
                state, text = worker.input(str(prompt), password)
            except AbortedError:  # A thread that gets no signal.
                raise KeyboardInterrupt from None
        if state == _TEXT:
            return text
        if state == _EOF:
            raise EOFError
        raise StdinNotImplementedError(text)

    def ask_line(prompt: object = "", /) -> str:
        """Asks the notebook's user for a line."""
        return ask(prompt, password=False)

    def ask_password(prompt: object = "Password: ", stream: Any = None, **_: Any) -> str:
        """Asks the notebook's user for a line that is not shown."""
        return ask(prompt, password=True)

    builtins.input = ask_line
    getpass.getpass = ask_password
