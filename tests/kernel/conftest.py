"""Kernels for the tests of `sk kernel`: started as Jupyter starts them, with ranks of a choice."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acceptance import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from processes import alive as alive
from processes import descendants as descendants
from processes import wait_until as wait_until

__all__ = [  # Hooks of pytest, which it finds here.
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_logreport",
    "pytest_terminal_summary",
]

ROOT = Path(__file__).resolve().parents[2]


def _build_folder() -> Path:
    """SK_BUILD_DIR, or the first build of this tree that has the tests' programs."""
    folders = [ROOT / "build" / preset for preset in ("release", "dev")]
    folders = [Path(os.environ["SK_BUILD_DIR"])] if "SK_BUILD_DIR" in os.environ else folders
    for folder in folders:
        if (folder / "tests" / "support" / "sk-stub-rank").exists():
            return folder
    raise FileNotFoundError(f"no sk-stub-rank under {', '.join(map(str, folders))}: build first")


BUILD = _build_folder()
SK = BUILD / "tools" / "sk" / "sk"
STUB = BUILD / "tests" / "support" / "sk-stub-rank"
TIMEOUT = 60.0


class Cell:
    """What a cell led to: its reply and its messages on iopub, busy and idle left out."""

    def __init__(self, reply: dict[str, Any], messages: list[dict[str, Any]]) -> None:
        self.reply = reply["content"]
        self.messages = [m for m in messages if m["msg_type"] not in ("status", "execute_input")]

    def kept(self) -> list[dict[str, Any]]:
        """The messages after the last clear: what a notebook keeps."""
        clears = [i for i, m in enumerate(self.messages) if m["msg_type"] == "clear_output"]
        return self.messages[clears[-1] + 1 :] if clears else self.messages

    def text(self, name: str = "stdout") -> str:
        """The stream `name`."""
        streams = self.of("stream")
        return "".join(s["text"] for s in streams if s["name"] == name)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The contents of all kept messages of one type."""
        return [m["content"] for m in self.kept() if m["msg_type"] == kind]


class Kernel:
    """A running kernel and a client of it; by default one that shares the manager's session."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient | None = None) -> None:
        self.manager = manager
        self.client: BlockingKernelClient = client or manager.client()
        self.client.start_channels()
        self._early: list[dict[str, Any]] = []
        self.beside: list[dict[str, Any]] = []
        """What came while a cell was waited for and is another's, say an earlier one's thread."""
        self.wait_for_ready()

    @property
    def pid(self) -> int:
        """The front end's process."""
        return self.manager.provisioner.pid

    def controller(self) -> int:
        """The front end's child that outlives it."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])

    def ranks(self) -> list[int]:
        """The rank processes, in order of their ranks."""
        return ranks_below(self.controller())

    def aside(self, magic: str) -> str:
        """What a magic shows that does not wait for the cell that runs."""
        sent = self.start(magic)
        reply = self.client.get_shell_msg(timeout=TIMEOUT)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["content"]["status"] == "ok"
        text = ""
        states: list[str] = []
        while states[-1:] != ["busy"] or "idle" not in states:  # The last says that a cell runs.
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["msg_type"] == "status":
                states.append(message["content"]["execution_state"])
            elif message["parent_header"]["msg_id"] == sent and "data" in message["content"]:
                text += message["content"]["data"]["text/plain"]
        return text

    def wait_for_ready(self) -> None:
        """Until the kernel answers. The client asks every second: later answers are dropped."""
        self.client.wait_for_ready(timeout=TIMEOUT)
        asked = self.heard()
        while not is_idle(self.client.get_iopub_msg(timeout=TIMEOUT), asked):
            pass

    def heard(self) -> str:
        """Until the kernel has what was sent before: it answers requests in their order."""
        sent = self.client.kernel_info()
        while self.client.get_shell_msg(timeout=TIMEOUT)["parent_header"].get("msg_id") != sent:
            pass
        return sent

    def start(self, code: str, **options: Any) -> str:
        """Sends a cell and returns its message id."""
        return self.client.execute(code, **options)

    def finish(self, message_id: str) -> Cell:
        """Waits for a cell's idle and its reply."""
        messages, self._early = self._early, []
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != message_id:
                self.beside.append(message)
                continue
            messages.append(message)
            if is_idle(message, message_id):
                break
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"].get("msg_id") == message_id:
                return Cell(reply, messages)

    def run(self, code: str, **options: Any) -> Cell:
        """Runs a cell to its end."""
        return self.finish(self.start(code, **options))

    def wait_for_stream(self, message_id: str) -> str:
        """The first text that a cell shows while it runs."""
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            self._early.append(message)
            if message["msg_type"] == "stream":
                return message["content"]["text"]

    def prompt(self, message_id: str) -> dict[str, Any]:
        """What a cell asks for. Questions of earlier cells, which an interrupt ended, are dropped:
        who answers one of those answers nothing."""
        while True:
            message = self.client.get_stdin_msg(timeout=TIMEOUT)
            if message["parent_header"].get("msg_id") == message_id:
                asked: dict[str, Any] = message["content"]
                return asked

    def stop(self) -> None:
        """Shuts down, by force if it must."""
        self.client.stop_channels()
        if self.manager.is_alive():
            self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()


def is_idle(message: dict[str, Any], message_id: str) -> bool:
    """Whether it says that the kernel is done with that request."""
    ours = message["parent_header"].get("msg_id") == message_id
    return ours and message["content"].get("execution_state") == "idle"


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with."""
    try:
        lines = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return {}  # It has ended.
    return dict(line.split("=", 1) for line in lines if "=" in line)


def ranks_below(controller: int) -> list[int]:
    """A controller's rank processes, in order of their ranks."""
    found: dict[int, int] = {}

    def are_known() -> bool:  # A process that is only just started has no variables yet.
        children = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
        variables = {int(child): environment(int(child)) for child in children}
        found.clear()
        found.update({int(v["RANK"]): child for child, v in variables.items() if "RANK" in v})
        return len(found) == len(children)

    assert wait_until(are_known)
    return [found[rank] for rank in sorted(found)]


class Gate:
    """Holds a cell of stub ranks back until open()."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def wait(self) -> str:
        """The line of the cell that waits."""
        return f"sh until test -e {self._path}; do sleep 0.01; done"

    def open(self) -> None:
        """Lets the ranks go on."""
        self._path.touch()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate that is open at the end, whatever the test did."""
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


StartKernel = Callable[..., Kernel]


@pytest.fixture
def start_kernel(tmp_path: Path) -> Iterator[StartKernel]:
    """Starts kernels with `ranks` ranks of `program` (the stub rank); stopped at the end."""
    kernels: list[Kernel] = []

    def start(
        ranks: int = 2,
        program: list[str] | None = None,
        env: dict[str, str] | None = None,
        wrapper: list[str] | None = None,
    ) -> Kernel:
        spec = tmp_path / "kernels" / "under-test"
        spec.mkdir(parents=True, exist_ok=True)
        argv = [*(wrapper or []), str(SK), "kernel", "-f", "{connection_file}"]
        argv += ["--ranks", str(ranks), "--"]
        text = {
            "argv": argv + (program or [str(STUB)]),
            "display_name": "under test",
            "language": "python",
            "interrupt_mode": "message",
            "env": env or {},
        }
        (spec / "kernel.json").write_text(json.dumps(text))
        specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
        manager = KernelManager(kernel_name="under-test", kernel_spec_manager=specs)
        manager.start_kernel(cwd=str(tmp_path))
        kernel = Kernel(manager)
        kernels.append(kernel)
        return kernel

    yield start
    for kernel in kernels:
        if kernel.manager.is_alive() and kernel.client.channels_running:
            kernel.stop()


@pytest.fixture
def kernel(start_kernel: StartKernel) -> Kernel:
    """A kernel of two stub ranks."""
    return start_kernel(2)


def kill(pid: int) -> None:
    """SIGKILL to one process."""
    os.kill(pid, signal.SIGKILL)
