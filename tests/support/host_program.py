"""A program in the namespaces of another process, as subprocess.Popen has those of this one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from processes import descendants, wait_until


def _state(pid: int) -> str:
    """The kernel's letter for what a process does; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Program(subprocess.Popen[str]):
    """Runs `command` where `target` is: in all its namespaces.

    nsenter stands between: it waits for the program, and ends as that does. Its own number is
    `pid`, the program's is `program_pid`, both as this process counts; signals go to the program.
    """

    def __init__(self, target: int, command: list[str], cwd: Path, **options: Any) -> None:
        enter = ["nsenter", f"--target={target}", "--all", f"--wdns={cwd}", "--"]
        super().__init__([*enter, *command], text=True, **options)

    @property
    def program_pid(self) -> int:
        """Waits for the program to be there; 0 when it has ended."""
        found: list[int] = []

        def is_told() -> bool:
            found[:] = descendants(self.pid)
            return bool(found) or self.poll() is not None or _state(self.pid) == "T"

        if not wait_until(is_told):
            raise RuntimeError(f"nsenter ({self.pid}) has started nothing: {self.args!r}")
        return found[0] if found else 0

    def send_signal(self, sig: int) -> None:
        """Returns when a SIGSTOP or SIGCONT has done its work."""
        pid = self.program_pid
        if pid == 0:
            if _state(self.pid) == "T":  # Its program was stopped, and has died with its host.
                os.kill(self.pid, signal.SIGCONT)
            return
        # nsenter stops itself when it sees the program stopped, and later wakes both. Were both
        # told, it could wake a program that is stopped again meanwhile.
        if sig == signal.SIGCONT and _state(self.pid) == "T":
            os.kill(self.pid, sig)
            wait_until(lambda: _state(pid) != "T")
            return
        with contextlib.suppress(ProcessLookupError):  # It has just ended, and nsenter will.
            os.kill(pid, sig)
        if sig == signal.SIGSTOP:
            wait_until(lambda: _state(self.pid) in ("T", "Z", ""))
        elif sig == signal.SIGKILL and _state(self.pid) == "T":
            os.kill(self.pid, signal.SIGCONT)

    def kill_if_stopped(self) -> None:
        """nsenter is stopped too then, and a world does not end before it has seen its program."""
        if _state(self.pid) == "T":
            self.kill()
