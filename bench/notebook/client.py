"""A Jupyter client that costs little: one thread, sockets that are there before the kernel is.

jupyter_client's own clients poll and wait in steps of tens of milliseconds while a kernel starts,
which would be measured along with it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session
from measure.launch import LaunchError

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
RECONNECT_MS = 2  # While the kernel does not listen yet.
LIMIT_S = 120.0
NOT_A_USERS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""What build machines set. Without byte code each start compiles hundreds of modules, of one kernel
and not of the other where only one environment came with it."""


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """As a user's shell would give it to a kernel, and ``more``."""
    return {name: text for name, text in os.environ.items() if name not in NOT_A_USERS} | {**more}


@dataclass
class Cell:
    """What a cell led to, as the client saw it."""

    seconds: float = 0.0  # From the request to its reply and idle, whichever came later.
    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)  # iopub's, without status.
    sizes: list[int] = field(default_factory=list)  # Bytes on the wire of each of them.

    @property
    def text(self) -> str:
        """Both streams, and displays as text (ipyparallel's), after the last clear_output."""
        text = ""
        for message in self.messages:
            content = message["content"]
            if message["msg_type"] == "clear_output":
                text = ""
            if message["msg_type"] == "stream":
                text += content["text"]
            if message["msg_type"] == "display_data":
                text += content["data"].get("text/plain", "")
        return text


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Kernel:
    """A kernel process and the channels to it, until the end of ``with``."""

    def __init__(
        self, command: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """``command`` has ``{connection_file}`` in it, as a kernelspec does."""
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / f"kernel-{uuid.uuid4().hex}.json"
        ports = dict(zip((f"{name}_port" for name in CHANNELS), _free_ports(5), strict=True))
        key = uuid.uuid4().hex
        connection = {"transport": "tcp", "ip": "127.0.0.1", "key": key}
        connection |= {"signature_scheme": "hmac-sha256", **ports}
        self._file.write_text(json.dumps(connection))
        self._file.chmod(0o600)
        self._session = Session(key=key.encode(), signature_scheme="hmac-sha256")
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        kinds = {"shell": zmq.DEALER, "control": zmq.DEALER, "iopub": zmq.SUB}
        self._sockets = {name: self._context.socket(kind) for name, kind in kinds.items()}
        for name, each in self._sockets.items():
            each.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
            each.setsockopt(zmq.RCVHWM, 0)
            each.linger = 0
            if name == "iopub":
                each.setsockopt(zmq.SUBSCRIBE, b"")
            each.connect(f"tcp://127.0.0.1:{ports[f'{name}_port']}")
            self._poller.register(each, zmq.POLLIN)
        self._log = (folder / "kernel.log").open("wb")
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            [part.replace("{connection_file}", str(self._file)) for part in command],
            env=environment(env or {}),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self._send("control", "shutdown_request", {"restart": False})
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for each in self._sockets.values():
            each.close()
        self._context.term()
        self._log.close()
        self._file.unlink(missing_ok=True)

    def _send(self, channel: str, kind: str, content: dict[str, Any]) -> str:
        message = self._session.send(self._sockets[channel], kind, content)
        return message["header"]["msg_id"]

    def start_cell(self, code: str) -> str:
        """Sends a cell; its number."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        return self._send("shell", "execute_request", {**content, "user_expressions": {}})

    def interrupt(self) -> None:
        """As Jupyter does in message mode."""
        self._send("control", "interrupt_request", {})

    def _arrivals(self, limit_s: float) -> Iterator[tuple[str, dict[str, Any], int]]:
        until = time.perf_counter() + limit_s
        while True:
            left = until - time.perf_counter()
            if left <= 0:
                raise LaunchError(f"the kernel did not answer within {limit_s:.0f} s")
            if self.process.poll() is not None:
                raise LaunchError(f"the kernel ended with {self.process.returncode}")
            for ready, _ in self._poller.poll(min(left, 1.0) * 1000):
                parts = ready.recv_multipart(copy=True)
                names = [name for name, each in self._sockets.items() if each is ready]
                _, frames = self._session.feed_identities(parts, copy=True)
                message = self._session.deserialize(frames, content=True)
                yield names[0], message, sum(map(len, frames))

    def finish(self, number: str, since: float, limit_s: float = LIMIT_S) -> Cell:
        """Takes what comes, until the cell's reply and its idle are there."""
        cell, idle = Cell(), False
        for channel, message, size in self._arrivals(limit_s):
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            if channel == "shell":
                cell.reply = content
            elif kind == "status":
                idle = idle or content["execution_state"] == "idle"
            else:
                cell.messages.append(message)
                cell.sizes.append(size)
            if idle and cell.reply:
                cell.seconds = time.perf_counter() - since
                return cell
        raise AssertionError("unreachable")

    def run(self, code: str, limit_s: float = LIMIT_S) -> Cell:
        """Runs a cell to its end."""
        since = time.perf_counter()
        return self.finish(self.start_cell(code), since, limit_s)

    def first(self, code: str, limit_s: float = LIMIT_S) -> Cell:
        """The first cell, sent before the kernel listens; its seconds count from the start."""
        return self.finish(self.start_cell(code), self.started, limit_s)

    def wait_for_text(self, number: str, limit_s: float = LIMIT_S) -> None:
        """Until the cell has printed something."""
        for _, message, _ in self._arrivals(limit_s):
            of_cell = message["parent_header"].get("msg_id") == number
            if of_cell and message["msg_type"] == "stream":
                return
