"""One step as a process: its output goes to a file, and nothing of it outlives its time.

What it prints is in the file as soon as it is read, so whatever ends the step, or the visit, leaves
what was said until then. Output beyond its bound is an error of the writer; no other file of the
step is bounded, for drivers and checkers keep caches and share memory by files.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 2.0  # Between the wish that it ends and the word that ends it.
LAST_S = 5.0  # A process inside a driver that hangs may not end even then.
STEP_BYTES_MAX = 4 << 20  # Of one step's output.
LOG_BYTES_MAX = 15 << 20  # Of all of it: what comes back from a visit is 16 MiB a file at most.
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Ended:
    """How a step's process ended."""

    status: int | None  # None: killed, its time was over.
    seconds: float
    begin: int  # Of its output in the log.
    end: int
    left: tuple[str, ...] = ()  # Processes that were killed with it, or after it.
    alive: tuple[str, ...] = ()  # Those that would not die.


def adopt_orphans() -> None:
    """Grandchildren whose parents end become children of this process, so they can be found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, parents first."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(each) for each in tasks.read_text().split()]
        except OSError:
            continue  # That thread has just ended.
        for child in children:
            found += [child, *descendants(child)]
    return found


def named(pid: int) -> str:
    """For a reader: number, state and command."""
    try:
        words = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return f"{pid} (ended)"
    return f"{pid} (state {status[0]}) {words.strip()[:160]}"


def _is_alive(pid: int) -> bool:
    """Neither ended nor waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _bury() -> None:
    """Takes the status of adopted children that have ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def end_all(known: set[int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ends every process below this one that is not in `known`: who they were, who is left."""

    def rest() -> list[int]:
        return [pid for pid in descendants(os.getpid()) if pid not in known and _is_alive(pid)]

    were = tuple(named(pid) for pid in rest())
    for word, limit_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, LAST_S)):
        end = time.monotonic() + limit_s
        told: set[int] = set()
        while pids := rest():
            for pid in pids:
                if pid in told:
                    continue
                told.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, word)
            if time.monotonic() >= end:
                break
            time.sleep(0.02)
    return were, tuple(named(pid) for pid in rest())


def _end_group(process: subprocess.Popen[bytes]) -> tuple[str, ...]:
    """Where the kernel does not tell who is whose child: the step leads a group of its own."""
    if process.poll() is not None:
        return ()
    was = named(process.pid)
    for word, limit_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, LAST_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, word)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)
            break
    return (was,)


def _keep(
    process: subprocess.Popen[bytes], log: Path, begin: int, is_over: threading.Event
) -> None:
    """Its output, into the log as it comes, until there is too much of it."""
    left = max(0, min(STEP_BYTES_MAX, LOG_BYTES_MAX - begin))
    assert process.stdout is not None
    with process.stdout as pipe, log.open("ab", buffering=0) as out:
        while (said := pipe.read(1 << 16)) and not is_over.is_set():
            out.write(said[:left])
            left -= len(said)
            if left < 0:
                return


def run(command: list[str], env: dict[str, str], log: Path, limit_s: float) -> Ended:
    """Runs it with `log` for its output, at most so long. OSError: it cannot be started."""
    known = set(descendants(os.getpid()))
    log.touch()
    begin = log.stat().st_size
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, restore_signals=False, bufsize=0,
    )  # fmt: skip
    is_over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(process, log, begin, is_over), daemon=True)
    keeper.start()
    status: int | None = None
    left: tuple[str, ...] = ()
    alive: tuple[str, ...] = ()
    try:
        status = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        pass
    finally:  # Also where this process itself is told to end.
        if descendants(os.getpid()):
            left, alive = end_all(known)
        left += _end_group(process)
        process.poll()
        _bury()
        keeper.join(LAST_S)  # Who would not die may hold the pipe open.
        is_over.set()
    return Ended(status, round(time.monotonic() - began, 1), begin, log.stat().st_size, left, alive)


def text_of(log: Path, ended: Ended) -> str:
    """What the step has printed."""
    with log.open("rb") as file:
        file.seek(ended.begin)
        return file.read(ended.end - ended.begin).decode(errors="replace")
