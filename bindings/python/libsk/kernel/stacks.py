"""How libsk's I/O thread sees where the main thread is while a cell runs."""

from __future__ import annotations

import faulthandler
import os
import signal

NATIVE_SIGNAL = signal.SIGRTMAX - 1
"""libsk's own; its handler gathers the native frames."""
PYTHON_SIGNAL = signal.SIGRTMAX - 2
"""On it, faulthandler writes the Python frames, also while C code holds the GIL."""


def register() -> int:
    """Lets faulthandler answer PYTHON_SIGNAL; the descriptor of the file that it writes to."""
    file = os.memfd_create("sk-stack")
    faulthandler.register(PYTHON_SIGNAL, file=file, all_threads=False, chain=False)
    return file
