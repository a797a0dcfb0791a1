"""The process that all ranks of a session are forked from, and what a fork must not share.

The controller starts ``python -m libsk.kernel`` once as a template. It loads what every rank needs
and then forks: a rank is there within milliseconds and shares the template's memory until one of
them writes to it. Started any other way, the process is a rank by itself, and all here but
:func:`make_shell` does nothing.
"""

from __future__ import annotations

import gc
import linecache
import os
import sys
from typing import TYPE_CHECKING

from libsk import _core
from libsk._errors import InvalidArgumentError
from libsk.kernel import seeds

if TYPE_CHECKING:
    from libsk.kernel.shell import RankShell


def make_shell() -> RankShell:
    """The shell; in a template, also what the first cells would load."""
    is_template = "SK_TEMPLATE_FD" in os.environ
    if is_template:
        gc.disable()  # Nothing of what is loaded here is ever garbage.
    from libsk.kernel.shell import RankShell

    shell = RankShell.make()
    if is_template:
        _warm(shell)
    return shell


def _warm(shell: RankShell) -> None:
    """Loads what the loop, the first cell and the first completion need."""
    import libsk.kernel.answers
    import libsk.kernel.asking
    import libsk.kernel.comm
    import libsk.kernel.comms
    import libsk.kernel.imports
    import libsk.kernel.names

    # The second for what formats a traceback: an interrupt ends a cell in time at the first, too.
    for code in ("None", "raise ValueError"):
        shell.run_cell(code, store_history=False, silent=True)
    libsk.kernel.answers.complete(shell, "rank.", 5)
    # The template's own cell is nobody's.
    for table in (shell.compile._filename_map, linecache.cache):
        for name in [name for name in table if "ipython-input" in name]:
            del table[name]
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    shell.last_traceback = []
    shell.last_execution_succeeded = True
    shell.last_execution_result = None


def become_rank(shell: RankShell) -> None:
    """In a template: returns in each process forked from it, which is a rank from then on."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    shared = _preload(shell)
    gc.freeze()  # A collection in a rank would write to every object, and so copy all of them.
    try:
        lines = _core.worker_template()
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error}. What this interpreter loads at its start begins threads; "
            "SK_TEMPLATE=0 starts every rank by itself",
            error.code,
            error.name,
        ) from None
    if lines is None:
        gc.unfreeze()
        return
    _renew_environment(lines)
    seeds.renew()
    if shared:
        from libsk.kernel import thread_counts

        thread_counts.apply()
    gc.enable()


def _preload(shell: RankShell) -> bool:
    """Imports what the kernel was told to share among its ranks. Whether that was anything."""
    if "SK_TEMPLATE_FD" not in os.environ or not os.environ.get("SK_PRELOAD"):
        return False
    from libsk.kernel import preload

    shell.displayhook.worker = shell.display_pub.worker = preload.Nobody()
    with shell.builtin_trap:
        preload.run(preload.wanted())
    return True


def _renew_environment(lines: list[bytes]) -> None:
    """``os.environ`` is a copy, made when the template started."""
    fresh = dict(line.split(b"=", 1) for line in lines)
    for name in os.environb.keys() - fresh.keys():
        del os.environb[name]
    for name, value in fresh.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
