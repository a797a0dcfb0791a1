"""A control group with little memory, below our own: whoever exceeds it is killed by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class NoGroupError(Exception):
    """This user, or this machine, cannot make one."""


def _own_group() -> tuple[Path, str]:
    """Our memory group, and the name of the file with its limit."""
    root = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return root / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        if controllers == "" and (root / "cgroup.controllers").exists():
            return root / path.lstrip("/"), "memory.max"
    raise NoGroupError("there is no memory control group")


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[list[str]]:
    """The start of a command line whose program runs in such a group."""
    own, limit = _own_group()
    group = own / f"sk-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise NoGroupError(f"no control group can be made here: {error}") from None
    try:
        try:
            (group / limit).write_text(str(limit_bytes))
            if (group / "memory.swap.max").exists():
                (group / "memory.swap.max").write_text("0")
        except OSError as error:  # As in version 2 where the group above has processes.
            raise NoGroupError(f"control groups here have no limits: {error}") from None
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    except BaseException:
        with suppress(OSError):  # Processes may be left, and the failure is what counts.
            group.rmdir()
        raise
    group.rmdir()  # No process is left in it.
