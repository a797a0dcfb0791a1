"""Magics that change the host, and so are done once on it: files that are written, packages that
are installed.

Every rank runs the cell. The first that comes to such a magic does it, while the others wait; each
then shows what it put out, as if it had done it itself. Ranks that say different things, or stand
in different folders, each do their own.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import io
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from libsk.kernel import places

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

LINE = frozenset({"pip", "conda", "mamba", "micromamba", "uv"})
CELL = frozenset({"writefile", "file"})

_come_by: Counter[str] = Counter()
"""How often this rank has come to the same magic in its cell."""
_cell = 0


class Recorder(io.TextIOBase):
    """Text that is shown, and kept for the other ranks."""

    def __init__(self, name: str, kept: list[tuple[str, str]]) -> None:
        self._name, self._kept, self._stream = name, kept, getattr(sys, name)

    def write(self, text: str, /) -> int:
        self._kept.append((self._name, text))
        self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def run(shell: InteractiveShell, magic: Callable[[], Any], *said: str) -> Any:
    """``magic()`` on the first rank that comes here, and on each what it put out. ``said``: by what
    it is known to be the same."""
    place = _place()
    if place is None or type(sys.stdout) is Recorder:  # Inside another one: an alias.
        return magic()
    key = _key(*said)
    with _locked(place) as file:
        done = json.loads(file.read() or "{}")
        # What was done in earlier cells nobody comes to any more.
        here = done.get(str(_cell), {})
        if key not in here:
            outputs: list[tuple[str, str]] = []
            with (
                contextlib.redirect_stdout(Recorder("stdout", outputs)),
                contextlib.redirect_stderr(Recorder("stderr", outputs)),
            ):
                result = magic()
            here[key] = [outputs, shell.user_ns.get("_exit_code")]
            file.seek(0)
            file.truncate()
            file.write(json.dumps({str(_cell): here}, default=repr))
            return result
    outputs, status = here[key]
    if status is not None:
        shell.user_ns["_exit_code"] = status
    for name, text in outputs:
        getattr(sys, name).write(text)
    return None


def _place() -> Path | None:
    """The file in which the ranks of one session on one host tell each other."""
    session = os.environ.get("TORCHELASTIC_RUN_ID")
    if not session:
        return None
    memory = Path("/dev/shm")
    folder = memory if memory.is_dir() else Path(tempfile.gettempdir())
    name = hashlib.sha256(session.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return folder / f"sk-once-{os.getuid()}-{name}"


def _key(*parts: str) -> str:
    global _cell
    if _cell != places.here().cell:
        _cell = places.here().cell
        _come_by.clear()
    text = "\0".join([str(Path.cwd()), *parts]).encode("utf-8", "surrogatepass")
    key = hashlib.sha256(text).hexdigest()
    _come_by[key] += 1
    return f"{key} {_come_by[key]}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[io.TextIOWrapper]:
    """The file, while no other rank has it. Whoever has it and dies gives it free."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+", encoding="utf-8") as file:
        if os.fstat(file.fileno()).st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user")
        _forget_at_exit(path)
        fcntl.flock(file, fcntl.LOCK_EX)  # An interrupt ends it.
        yield file


@functools.cache
def _forget_at_exit(path: Path) -> None:
    atexit.register(path.unlink, missing_ok=True)
