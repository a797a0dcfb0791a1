"""What an import has left in a process that a fork would break: threads, processes, open GPUs,
connections, open files.

Looked at from outside, in /proc: what a module has replaced in its own process does not matter.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

GPU_FILES = ("/dev/nvidia", "/dev/dri/", "/dev/kfd")
"""How their paths begin."""

_THREADS_END_S = 0.2
"""A thread that has been joined is in /proc a moment longer."""
_END_S = 5.0
_SHOWN_MAX = 3
_PROC = Path("/proc")
_CONNECTION = re.compile(r"(socket|pipe):|anon_inode:\[?(eventpoll|eventfd|inotify|io_uring)")
"""Of what a fork shares and what several readers spoil."""
_MEMORY = ("/memfd:", "/dev/shm/", "/dev/zero")
"""Files without a place to read or write at that anyone uses: they are mapped."""
_KIND = re.compile(r"^anon_inode:|[][]|:.*")


@dataclass
class Left:
    """By name."""

    threads: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    gpu_files: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def of(pid: int, but: int, link: str = "") -> Left:
    """What a process that has imported a module has beside itself. ``but``: the process that it
    was forked from; other children of this one are orphans of the import. ``link``: a descriptor
    of ours."""
    until = time.monotonic() + _THREADS_END_S
    while len(threads := _threads(pid)) > 0 and time.monotonic() < until:
        time.sleep(0.005)
    orphans = [child for child in _children(os.getpid()) if child != but]
    processes = [_name(child) for child in [*descendants(pid), *orphans]]
    now = _descriptors(pid)
    opened = set(now) - set(_descriptors(but)) - {link}
    return Left(
        threads,
        processes,
        sorted(name for name in opened if name.startswith(GPU_FILES)),
        sorted(_KIND.sub("", name) for name in opened if _CONNECTION.match(name)),
        sorted(Path(name).name for name in opened if now[name] and not name.startswith(_MEMORY)),
    )


def sentence(name: str, left: Left) -> str:
    """Why a module is left out, and what would happen if it were not; ``""``: it need not be."""
    why = _why(left)
    if not why:
        return ""
    return f"{name} is left out: its import {why}. Each rank that needs it imports it by itself"


def _why(left: Left) -> str:
    if left.gpu_files:
        return (
            f"opens {_some(left.gpu_files)}. What a GPU's driver "
            "keeps for a process does not live through a fork, so in every rank the first use of "
            "the GPU would fail"
        )
    if left.threads:
        one = len(left.threads) == 1
        return (
            f"leaves {_count(left.threads, 'thread')} running"
            f"{_in_brackets(left.threads)}. No forked rank would have {'it' if one else 'them'}: "
            f"what {'it does' if one else 'they do'} would never be done there, and a lock that "
            f"{'it' if one else 'one'} holds would stay locked"
        )
    if left.processes:
        one = len(left.processes) == 1
        return (
            f"leaves {_count(left.processes, 'process')} behind"
            f"{_in_brackets(left.processes)}. {'It' if one else 'They'} would be no rank's: none "
            f"could wait for {'it' if one else 'them'}, and all ranks would talk to the same"
        )
    if left.connections:
        return (
            f"leaves {_count(left.connections, 'descriptor')} open"
            f" ({_some(left.connections)}). All ranks would have the same, and take from each "
            "other what comes in there"
        )
    if left.files:
        one = len(left.files) == 1
        return (
            f"leaves {_count(left.files, 'file')} open ({_some(left.files)}). All ranks would have"
            f" one place in {'it' if one else 'each'} where they read and write, and each would"
            " write what the import has left to be written"
        )
    return ""


def _count(things: list[str], what: str) -> str:
    if len(things) == 1:
        return f"a {what}"
    return f"{len(things)} {what}{'es' if what.endswith('s') else 's'}"


def _in_brackets(names: list[str]) -> str:
    """Not those that are called as this program is: they have no names of their own."""
    own = [name for name in names if name != _name(os.getpid())]
    return f" ({_some(own)})" if own else ""


def _some(names: list[str]) -> str:
    some = list(dict.fromkeys(names))
    return ", ".join(some[:_SHOWN_MAX]) + (", …" if len(some) > _SHOWN_MAX else "")


def descendants(pid: int) -> list[int]:
    """All processes below it, parents first."""
    return [below for child in _children(pid) for below in (child, *descendants(child))]


def end(processes: list[int], but: int) -> None:
    """Kills what a module has begun, and what falls to this process when its parent is killed."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        orphans = [child for child in _children(os.getpid()) if child != but]
        for pid in {*processes, *orphans}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        processes = []
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def own_memory(pid: int) -> int:
    """Bytes that are no file's."""
    for line in _lines(_PROC / str(pid) / "status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def _threads(pid: int) -> list[str]:
    """Names of those beside the first."""
    names = []
    for task in _entries(_PROC / str(pid) / "task"):
        if task.name != str(pid):
            names += _lines(task / "comm") or ["?"]
    return names


def _children(pid: int) -> list[int]:
    found = []
    for task in _entries(_PROC / str(pid) / "task"):
        for line in _lines(task / "children"):
            found += [int(word) for word in line.split()]
    return found


def _descriptors(pid: int) -> dict[str, bool]:
    """What they lead to, and whether that is a regular file."""
    found = {}
    for entry in _entries(_PROC / str(pid) / "fd"):
        with contextlib.suppress(OSError):
            found[str(entry.readlink())] = stat.S_ISREG(entry.stat().st_mode)
    return found


def _name(pid: int) -> str:
    return (_lines(_PROC / str(pid) / "comm") or ["?"])[0]


def _entries(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):  # It has ended.
        yield from folder.iterdir()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
