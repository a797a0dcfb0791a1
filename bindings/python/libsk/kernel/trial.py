"""A process that imports one module for all ranks, and the keeper's handle of it.

See :mod:`libsk.kernel.preload`. Every such process does what its keeper says over a socket of its
own, and is forked from the one before it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import io
import json
import os
import re
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from libsk.kernel import still, tracebacks

_ANSWER_S = 30.0
"""Within which a process answers that has nothing to do but that, on a crowded machine."""
_BYTES_MAX = 65_536
_TEXT_MAX = 300
_PR_SET_PDEATHSIG = 1
_WHERE = signal.SIGRTMAX - 2
"""On it, a candidate writes down where it is, also from C."""


class Process:
    """A base or a candidate, as the keeper sees it."""

    link_name = ""
    """What its own end of the link is called among its descriptors."""

    def __init__(self, pid: int, link: socket.socket, output: int = -1, where: int = -1) -> None:
        self.pid, self.link, self.output, self._where = pid, link, output, where
        self.pidfd = os.pidfd_open(pid)
        link.settimeout(_ANSWER_S)

    def order(self, what: dict[str, Any], fds: list[int] | None = None) -> None:
        """Says what to do next."""
        socket.send_fds(self.link, [json.dumps(what).encode()], fds or [])

    def answer(self) -> dict[str, Any] | None:
        """None: it is gone."""
        try:
            text = self.link.recv(_BYTES_MAX)
        except ConnectionError:
            return None
        return json.loads(text) if text else None

    def asked(self, what: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        """The answer to an order that is done at once."""
        self.order(what, fds)
        answer = self.answer()
        if answer is None:
            raise RuntimeError(f"process {self.pid}, which imports modules for ranks, is gone")
        return answer

    def fork(self, name: str) -> Process:
        """A candidate that begins to import a module."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output, their_output = os.pipe()
        os.set_blocking(output, False)
        where = os.memfd_create("sk-where")
        pid = self.asked({"try": name}, [theirs.fileno(), their_output, where])["pid"]
        candidate = Process(pid, ours, output, where)
        candidate.link_name = f"socket:[{os.fstat(theirs.fileno()).st_ino}]"
        theirs.close()
        os.close(their_output)
        return candidate

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether nothing is left of it but its status."""
        return bool(select.select([self.pidfd], [], [], wait_s)[0])

    def where(self, wait_s: float) -> str:
        """Where a candidate is that does not come to an end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, _WHERE)
        self.has_ended(wait_s)
        return place_in(os.pread(self._where, _BYTES_MAX, 0).decode("utf-8", "replace"))

    def end(self, candidate: Process) -> int:
        """In a base: kills what it has forked, and returns how that ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(candidate.pid, signal.SIGKILL)
        candidate.close()
        return int(self.asked({"reap": candidate.pid})["status"])

    def replace_by(self, candidate: Process) -> None:
        """Ends a base; its candidate is the keeper's child from then on."""
        candidate.asked({"stay": 0})
        self.order({"leave": True})
        os.waitpid(self.pid, 0)
        self.close()
        candidate.asked({"stay": os.getpid()})

    def close(self) -> None:
        """Lets go of what the keeper has of it."""
        self.link.close()
        for fd in (self.pidfd, self.output, self._where):
            if fd >= 0:
                os.close(fd)
        self.output = self._where = -1


def begin() -> Process | None:
    """The first base, which has imported nothing. None in the process that becomes the template."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeper = os.getpid()
    pid = os.fork()
    if pid > 0:
        theirs.close()
        return Process(pid, ours)
    ours.close()
    _die_with(keeper)
    _serve(theirs)
    return None


def _serve(link: socket.socket) -> None:
    """Does as the keeper says; a candidate that it forks goes on in here as well. Returns when the
    ranks are to be forked from this process."""
    while True:
        text, fds, _, _ = socket.recv_fds(link, _BYTES_MAX, 3)
        order: dict[str, Any] = json.loads(text) if text else {"leave": True}
        if "serve" in order:
            return link.close()
        if "leave" in order:
            os._exit(0)
        elif "stay" in order:
            _die_with(order["stay"])
            if order["stay"]:
                with contextlib.suppress(OSError):  # The module has begun a session.
                    os.setpgid(0, os.getpgid(order["stay"]))
            answer: dict[str, Any] = {}
        elif "reap" in order:
            answer = {"status": os.waitpid(order["reap"], 0)[1]}
        else:
            base = os.getpid()
            pid = os.fork()
            if pid == 0:
                _die_with(base)
                os.setpgid(0, 0)  # A signal to its group is not for us.
                link.close()
                link = socket.socket(fileno=fds[0])
                answer = _import(order["try"], *fds[1:])
            else:
                for fd in fds:
                    os.close(fd)
                answer = {"pid": pid}
        link.send(json.dumps(answer).encode())


def _die_with(parent: int) -> None:
    """From now on; 0: no more with any."""
    number = signal.SIGKILL if parent else 0
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)  # It has died before that.


# ---- in a candidate ------------------------------------------------------------------------------


class _Nobody(io.TextIOBase):
    """Standard input while a module is imported for all ranks."""

    asked = False

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        return self._refuse()

    def read(self, size: int | None = -1, /) -> str:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        _Nobody.asked = True
        raise EOFError("a module that is imported for all ranks can ask nobody for input")


def _import(name: str, output: int, where: int) -> dict[str, Any]:
    """Imports it with its output in a pipe; what there is to say of that."""
    pid = os.getpid()
    kept = [os.dup(1), os.dup(2)]
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    faulthandler.register(_WHERE, file=where, all_threads=False, chain=False)
    stdin, sys.stdin = sys.stdin, _Nobody()
    streams = [(name, getattr(sys, name)) for name in ("stdout", "stderr")]
    error: BaseException | None = None
    try:
        importlib.import_module(name)
    except BaseException as raised:  # noqa: BLE001 - whatever it is.
        error = raised
    if os.getpid() != pid:  # A process that the module has forked, and that came back from it.
        os._exit(0)
    answer = _words(name, error)
    answer["replaced"] = [each for each, was in streams if getattr(sys, each, None) is not was]
    sys.stdin = stdin
    faulthandler.unregister(_WHERE)
    os.close(where)
    for each, was in streams:
        for stream in (was, getattr(sys, each, was)):
            with contextlib.suppress(Exception):
                stream.flush()
    ctypes.CDLL(None).fflush(None)
    for fd, number in zip(kept, (1, 2), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    return answer


def _words(name: str, error: BaseException | None) -> dict[str, Any]:
    answer = {"error": "", "exits": None, "asks": _Nobody.asked, "place": ""}
    if error is None:
        return answer | {"asks": False}  # It can do without.
    if still.is_a(error, SystemExit):
        answer["exits"] = ""
        with contextlib.suppress(BaseException):  # Its own class may do anything.
            answer["exits"] = repr(error.args[0])[:_TEXT_MAX] if error.args else ""
    answer["error"] = tracebacks.line_of(error)[:_TEXT_MAX]
    # Of the import system's own frames nobody is told.
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename != importlib.__file__
    ][1:]
    if frames and frames[-1].filename != __file__:
        answer["place"] = f" ({_place(frames[-1].filename, frames[-1].lineno)})"
    return answer


def _place(file: str, line: object) -> str:
    return f"{'/'.join(file.split('/')[-2:])}, line {line}"


def place_in(text: str) -> str:
    """The first line that faulthandler's stack names, in brackets; ``""`` if there is none."""
    for file, line in re.findall(r'File "([^"\n]+)", line (\d+)', text):
        if file.startswith("<frozen") or file in (importlib.__file__, __file__):
            break
        return f" ({_place(file, line)})"
    return ""
