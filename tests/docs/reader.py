"""A reader's hands: a notebook on four ranks, a shell, an editor; and who follows a page."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from pages import console_steps, matches, read_page, shown_by, text_of

ROOT = Path(__file__).resolve().parents[2]
RANKS = "4"
TIMEOUT_S = 120


class Notebook:
    """A kernel of four Python ranks in an empty folder, and a reader's hands."""

    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="superkernel-python")
        environment = {**os.environ, "SK_NRANKS": RANKS, "COLUMNS": "80"}
        self._manager.start_kernel(cwd=str(folder), env=environment)
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT_S)

    def stop(self) -> None:
        """Ends the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel()

    def run(self, code: str, hand: str) -> str:
        """Runs a cell; what it shows."""
        number = self._client.execute(code, allow_stdin=hand.startswith("input"))
        messages: list[dict[str, Any]] = []
        pressed = False
        while True:
            if hand.startswith("input: ") and not pressed and self._asks():
                self._client.input(hand.removeprefix("input: "))
                pressed = True
            message = self._message(number, 0.1 if hand.startswith("input") else TIMEOUT_S)
            if message is None:
                continue
            messages.append(message)
            if hand == "interrupt" and not pressed and text_of(message):
                self._manager.interrupt_kernel()
                pressed = True
            if message["content"].get("execution_state") == "idle":
                assert pressed or not hand, f"the cell ended before: {hand}"
                return shown_by([m for m in messages if m["msg_type"] != "execute_input"])

    def _asks(self) -> bool:
        try:
            self._client.get_stdin_msg(timeout=0)
        except Empty:
            return False
        return True

    def _message(self, number: str, timeout_s: float) -> dict[str, Any] | None:
        try:
            message = self._client.get_iopub_msg(timeout=timeout_s)
        except Empty:
            assert timeout_s < TIMEOUT_S, "the cell does not end"
            return None
        ours = message["parent_header"].get("msg_id") == number
        return message if ours else None


def run_command(command: str, folder: Path) -> str:
    """What a shell prints, both streams, in a home of its own."""
    (folder / "home").mkdir(exist_ok=True)
    keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        ["sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env={**keep, "HOME": str(folder / "home"), "COLUMNS": "80"},
    )
    return done.stdout


def what_is_wrong(page: Path, folder: Path) -> list[str]:
    """Follows a page in an empty folder; where something else came of it than the page says."""
    examples = read_page(page)
    assert examples, "a page without examples"
    notebook: Notebook | None = None
    wrong = []
    try:
        for example in examples:
            where = f"{page.relative_to(ROOT)}:{example.line}"
            if example.kind == "file":
                (folder / example.file).write_text(example.text)
            elif example.kind == "console":
                for command, promised in console_steps(example.text):
                    printed = run_command(command, folder)
                    if not matches(promised, printed):
                        wrong.append(_told(f"{where}: $ {command}", promised, printed))
            else:
                notebook = notebook or Notebook(folder)
                shown = notebook.run(example.text, example.hand)
                if not matches(example.promised, shown):
                    wrong.append(_told(f"{where}\n{example.text}", example.promised, shown))
    finally:
        if notebook:
            notebook.stop()
    return wrong


def _told(what: str, promised: str, shown: str) -> str:
    return f"{what}\n--- promised\n{promised}--- shown\n{shown}"
