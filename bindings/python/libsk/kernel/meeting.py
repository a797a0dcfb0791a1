"""Ranks wait for each other at their rank 0 until all have come, and get a word from it then.

In Python, so that Ctrl-C ends the wait, and with the names of those that lack. Used by the start of
PyTorch's process groups; no part of libsk's own communicators.

They meet at a Unix socket in a folder of this user alone, and each side asks the kernel who the
other is. So there is no port that another user could take before rank 0 does, and no stranger that
could say it is a rank.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import selectors
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

_PAUSE_S = 0.005
_PAUSE_MAX_S = 0.1
_LINE_BYTES_MAX = 4096
"""What one side sends: one line, shorter than this, so that it comes in one piece."""
_NAMED_MAX = 500
_SILENCE_S = 5.0
"""How long one that came may keep its number to itself."""
_SILENT_MAX = 64
_CREDENTIALS = struct.Struct("3i")


class LackingError(TimeoutError):
    """Not all came in time."""

    def __init__(self, ranks: list[int]) -> None:
        super().__init__(f"missing: {', '.join(map(str, ranks))}")
        self.ranks = ranks


class RefusedError(RuntimeError):
    """Rank 0 said why nothing will come of it."""


def _base() -> Path | None:
    """What ``XDG_RUNTIME_DIR`` names, if this user can use it: in containers and behind ``su`` it
    may name a folder that is not there, or another user's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = runtime.startswith("/") and Path(runtime).is_dir()
    return Path(runtime) if usable and os.access(runtime, os.W_OK | os.X_OK) else None


class Place:
    """Where the ranks of one job meet: the name of a socket that only this user can reach.

    ``job`` is whatever only the ranks of one job have in common.
    """

    def __init__(self, job: str) -> None:
        base = _base()
        own = f"/tmp/superkernel-{os.geteuid()}"
        self.folder = base / "superkernel" if base else Path(own)
        self.name = f"torch-{hashlib.sha256(job.encode()).hexdigest()[:32]}.sock"

    @contextlib.contextmanager
    def open(self) -> Iterator[Path]:
        """The path to bind or connect to. By the folder's descriptor: what was looked at is what is
        used, and the name is short enough for a socket wherever the folder lies."""
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        fd = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            what = os.fstat(fd)
            if what.st_uid != os.geteuid() or stat.S_IMODE(what.st_mode) & 0o077:
                raise PermissionError(
                    f"{self.folder} must be a folder of user {os.geteuid()} with mode 0700; it is "
                    f"one of user {what.st_uid} with mode {stat.S_IMODE(what.st_mode):04o}: set "
                    "XDG_RUNTIME_DIR to a folder of yours"
                )
            yield Path(f"/proc/self/fd/{fd}/{self.name}")
        finally:
            os.close(fd)


def _is_same_user(peer: socket.socket) -> bool:
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(found)[1] == os.geteuid())


def _listen(place: Place, backlog: int) -> socket.socket:
    """Under the name once it listens, so that nobody ever finds it there and not listening."""
    with place.open() as path:
        # A connection of the wrong kind reaches nobody; the kernel says whether there is somebody.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            if probe.connect_ex(str(path)) not in (errno.ENOENT, errno.ECONNREFUSED):
                raise OSError(errno.EADDRINUSE, "other ranks of this job are meeting just now")
        listener = socket.socket(socket.AF_UNIX)
        early = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            listener.bind(str(early))
            early.chmod(0o600)
            listener.listen(backlog)
            early.rename(path)  # Over what a rank 0 that was killed has left there.
        except BaseException:
            listener.close()
            with contextlib.suppress(OSError):
                early.unlink()
            raise
    return listener


class Host:
    """Rank 0's side: ``with Host(...) as host: host.gather(until_s); host.tell(word)``."""

    def __init__(self, place: Place, world_size: int) -> None:
        self._world_size = world_size
        self._place = place
        self._listener = _listen(place, world_size + _SILENT_MAX)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._silent: dict[socket.socket, float] = {}
        """Those that have not said their number, the oldest first, and until when they may."""
        self._came: dict[socket.socket, int] = {}

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *failure: object) -> None:
        with contextlib.suppress(OSError), self._place.open() as path:
            path.unlink()
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def gather(self, until_s: float) -> None:
        """Until all ranks are here; :class:`LackingError` when they are not by then."""
        while lacking := sorted(set(range(1, self._world_size)) - set(self._came.values())):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                self.tell("lacking " + ",".join(map(str, lacking[:_NAMED_MAX])))
                raise LackingError(lacking)
            ready = [key.fileobj for key, _ in self._selector.select(min(left_s, 1.0))]
            # Those that are here first: one that comes now may send away the oldest silent one.
            for peer in ready:
                assert isinstance(peer, socket.socket)
                if peer is not self._listener:
                    self._hear(peer)
            if self._listener in ready:
                self._accept()
            self._send_away_silent()

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except BlockingIOError:
            return
        if not _is_same_user(peer):
            peer.close()
            return
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ)
        self._silent[peer] = time.monotonic() + _SILENCE_S

    def _send_away_silent(self) -> None:
        now_s = time.monotonic()
        while self._silent:
            peer, until_s = next(iter(self._silent.items()))
            if until_s > now_s and len(self._silent) <= self._world_size + _SILENT_MAX:
                return
            self._send_away(peer)

    def _hear(self, peer: socket.socket) -> None:
        """A rank's number, in one small packet; its end when it gave up; else a stranger. One that
        is no rank of this world is told, for it would come again."""
        try:
            text = peer.recv(_LINE_BYTES_MAX)
        except OSError:
            text = b""
        digits = text.strip()
        if peer in self._silent and digits.isdigit() and 0 < int(digits) < self._world_size:
            del self._silent[peer]
            self._came[peer] = int(digits)
            return
        if peer in self._silent and digits.isdigit() and int(digits[:20]) >= self._world_size:
            number = digits[:20].decode()
            self._say(
                peer,
                f"refused rank {number} is none of the {self._world_size} ranks that rank 0 waits"
                " for",
            )
        self._send_away(peer)

    def _send_away(self, peer: socket.socket) -> None:
        self._came.pop(peer, None)
        self._silent.pop(peer, None)
        self._selector.unregister(peer)
        peer.close()

    def tell(self, word: str) -> None:
        """To all that came."""
        for peer in self._came:
            self._say(peer, word)

    def refuse(self, why: str) -> None:
        """To all that came: :class:`RefusedError` with this sentence."""
        line = " ".join(why.split())
        self.tell("refused " + line.encode("ascii", "replace").decode()[: _LINE_BYTES_MAX // 2])

    @staticmethod
    def _say(peer: socket.socket, word: str) -> None:
        with contextlib.suppress(OSError):  # One that is gone will lack elsewhere.
            peer.send(f"{word}\n".encode())


def attend(place: Place, rank: int, until_s: float) -> str:
    """Another rank's side: the word of :meth:`Host.tell`, or what :meth:`Host.refuse` raises."""
    pause_s = _PAUSE_S
    while True:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise LackingError([0])
        word = _ask(place, rank, until_s)
        if word.startswith("lacking "):
            raise LackingError([int(each) for each in word.split()[1].split(",") if each])
        if word.startswith("refused "):
            raise RefusedError(word.removeprefix("refused "))
        if word:
            return word
        time.sleep(pause_s)  # Rank 0 is not there yet, or gave up and may come again.
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _ask(place: Place, rank: int, until_s: float) -> str:
    """One visit: the word, or "" when rank 0 is not there or leaves without one."""
    with place.open() as path, socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(1.0)
        try:
            peer.connect(str(path))
            if not _is_same_user(peer):
                return ""
            peer.sendall(f"{rank}\n".encode())
            while time.monotonic() < until_s + 1.0:  # Rank 0's own word comes first.
                try:
                    return peer.recv(_LINE_BYTES_MAX).decode("ascii", "replace").strip()
                except TimeoutError:
                    continue
        except OSError:
            pass
    return ""
