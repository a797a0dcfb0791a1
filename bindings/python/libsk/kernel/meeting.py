"""Ranks wait for each other at rank 0 until all have come, and get a word from it then.

In Python, so that Ctrl-C ends the wait, and with the names of those that lack. Used by the start of
PyTorch's process groups; no part of libsk's own communicators.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time

_PAUSE_S = 0.005
_PAUSE_MAX_S = 0.1
_LINE_BYTES_MAX = 4096
"""What one side sends: one line, shorter than this, so that it comes in one piece."""
_NAMED_MAX = 500


class LackingError(TimeoutError):
    """Not all came in time."""

    def __init__(self, ranks: list[int]) -> None:
        super().__init__(f"missing: {', '.join(map(str, ranks))}")
        self.ranks = ranks


class Host:
    """Rank 0's side: ``with Host(...) as host: host.gather(until_s); host.tell(word)``."""

    def __init__(self, place: tuple[str, int], world_size: int) -> None:
        self._world_size = world_size
        self._listener = socket.create_server(place, backlog=world_size)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._came: dict[socket.socket, int] = {}

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *failure: object) -> None:
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
            for key, _ in self._selector.select(min(left_s, 1.0)):
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._hear(key.fileobj)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except BlockingIOError:
            return
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ)

    def _hear(self, peer: socket.socket) -> None:
        """A rank's number, in one small packet; its end when it gave up; else a stranger."""
        try:
            text = peer.recv(_LINE_BYTES_MAX)
        except OSError:
            text = b""
        digits = text.strip()
        if peer not in self._came and digits.isdigit() and 0 < int(digits) < self._world_size:
            self._came[peer] = int(digits)
            return
        self._came.pop(peer, None)
        self._selector.unregister(peer)
        peer.close()

    def tell(self, word: str) -> None:
        """To all that came."""
        for peer in self._came:
            with contextlib.suppress(OSError):  # One that is gone will lack elsewhere.
                peer.send(f"{word}\n".encode())


def attend(place: tuple[str, int], rank: int, until_s: float) -> str:
    """Another rank's side: the word of :meth:`Host.tell`."""
    pause_s = _PAUSE_S
    while True:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise LackingError([0])
        word = _ask(place, rank, until_s)
        if word.startswith("lacking "):
            raise LackingError([int(each) for each in word.split()[1].split(",") if each])
        if word:
            return word
        time.sleep(pause_s)  # Rank 0 is not there yet, or gave up and may come again.
        pause_s = min(2 * pause_s, _PAUSE_MAX_S)


def _ask(place: tuple[str, int], rank: int, until_s: float) -> str:
    """One visit: the word, or "" when rank 0 is not there or leaves without one."""
    try:
        with socket.create_connection(place, timeout=1.0) as peer:
            peer.sendall(f"{rank}\n".encode())
            while time.monotonic() < until_s + 1.0:  # Rank 0's own word comes first.
                try:
                    return peer.recv(_LINE_BYTES_MAX).decode("ascii", "replace").strip()
                except TimeoutError:
                    continue
    except OSError:
        pass
    return ""
