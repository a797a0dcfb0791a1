"""Running commands: a line when a step starts and ends, its output in a log, progress meanwhile."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "log"
START_S = time.monotonic()
PROGRESS_PERIOD_S = 15.0
TAIL_LINES = 60


class DevError(Exception):
    """A verb cannot go on; the text is the sentence for the person at the terminal."""


class TimedOutError(DevError):
    """A command had to be stopped."""


def say(text: str) -> None:
    """Prints one line with the time since the verb began."""
    print(f"[{time.monotonic() - START_S:6.1f} s] {text}", flush=True)


def jobs() -> int:
    """Parallel jobs: the cores this process may use."""
    return len(os.sched_getaffinity(0))


def _stop_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and whatever it started: it was made the leader of its own session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


_under_way: set[subprocess.Popen[bytes]] = set()
_under_way_lock = threading.Lock()


def side_by_side(*works: Callable[[], T]) -> list[T]:
    """What each of `works` returns, all at once: one that waits leaves the cores to the others.

    When one fails, or Ctrl-C comes, the commands of all are ended, and that is raised.
    """
    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(work) for work in works]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            with _under_way_lock:
                left = list(_under_way)
            for process in left:
                _stop_group(process)
            raise
    return [future.result() for future in futures]


class _Follower:
    """Shares out a command's output: log, last lines, and the terminal as far as wanted."""

    def __init__(self, what: str, stream: bool) -> None:
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._what = what
        self._stream = stream
        self._shown_s = time.monotonic()
        self._pending = b""

    def feed(self, data: bytes, log_file: int) -> None:
        os.write(log_file, data)
        if self._stream:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        lines = (self._pending + data).split(b"\n")
        self._pending = lines.pop()
        self.tail.extend(line.decode(errors="replace").rstrip() for line in lines)

    def tick(self) -> None:
        """Shows the latest line every few seconds, so that a long step is seen to move."""
        now_s = time.monotonic()
        if self._stream or now_s - self._shown_s < PROGRESS_PERIOD_S:
            return
        self._shown_s = now_s
        latest = next((line for line in reversed(self.tail) if line.strip()), "no output yet")
        say(f"  {self._what}: {latest.strip()[:100]}")


def log_of(what: str) -> Path:
    """Where run() keeps the output of `what`."""
    return LOGS / ("".join(c if c.isalnum() else "-" for c in what).strip("-") + ".log")


def run(
    command: Sequence[str | Path],
    what: str,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    stream: bool = False,
    may_fail: bool = False,
    timeout_s: float = 3600.0,
) -> int:
    """Runs `command` and returns its exit status; a failure is a DevError unless `may_fail`.

    Output goes to build/log/; `stream` shows it too. After `timeout_s` the command and its
    children are killed, and that is a TimedOutError always.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log_path = log_of(what)
    begin_s = time.monotonic()
    say(f"{what} ...")
    with log_path.open("wb") as log_file:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        follower = _Follower(what, stream)
        with _under_way_lock:
            _under_way.add(process)
        try:
            _follow(process, follower, log_file.fileno(), begin_s + timeout_s)
        except BaseException:  # Ctrl-C included: leave no build or test behind.
            _stop_group(process)
            raise
        finally:
            with _under_way_lock:
                _under_way.discard(process)
        status = process.wait()
    if time.monotonic() - begin_s >= timeout_s and status != 0:
        raise TimedOutError(f"{what} was stopped after {timeout_s:.0f} s; its output is {log_path}")
    if status != 0 and not may_fail:
        if not stream:
            print("\n".join(follower.tail), flush=True)
        raise DevError(f"{what} failed with exit status {status}; its output is {log_path}")
    say(f"{what}: {time.monotonic() - begin_s:.1f} s")
    return status


def _follow(
    process: subprocess.Popen[bytes], follower: _Follower, log_file: int, deadline_s: float
) -> None:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if time.monotonic() >= deadline_s:
                _stop_group(process)
                return
            if selector.select(timeout=1.0):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return
                follower.feed(data, log_file)
            elif process.poll() is not None:
                return  # A grandchild that left the session may hold the pipe open for ever.
            follower.tick()


def output_of(command: Sequence[str | Path]) -> str:
    """The standard output of a short command that must succeed."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        raise DevError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout
