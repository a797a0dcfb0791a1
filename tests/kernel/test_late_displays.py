"""What threads display after their cell: whose it is, the newest of it, the count of the rest."""

from __future__ import annotations

import importlib.util
import queue
import re
import sys
from collections import defaultdict
from typing import Any

import pytest
from conftest import Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)


@pytest.fixture
def four(start_kernel: StartKernel) -> Kernel:
    """A kernel of four Python ranks, with events to wait for."""
    kernel = start_kernel(4, [sys.executable, "-m", "libsk.kernel"])
    kernel.run("import threading\ngo = threading.Event()")
    return kernel


class View:
    """What a notebook shows under its cells, as their messages come."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._shown: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._clear_next: set[str] = set()

    def texts(self, cell: str) -> list[str]:
        """The texts and displays of a cell, one after the other."""
        return [text for _, text in self._shown[cell]]

    def wait_for(self, cell: str, wanted: list[str]) -> None:
        """Until the cell shows these."""
        while not set(wanted) <= set(self.texts(cell)):
            try:
                message = self._kernel.client.get_iopub_msg(timeout=10)
            except queue.Empty:
                raise AssertionError(f"{self.texts(cell)} and no more, not {wanted}") from None
            self._take(message["parent_header"].get("msg_id"), message)

    def _take(self, cell: str, message: dict[str, Any]) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output" and content["wait"]:
            self._clear_next.add(cell)
        elif kind == "clear_output":
            self._shown[cell].clear()
        if kind not in ("display_data", "stream", "update_display_data"):
            return
        text = content["text"] if kind == "stream" else content["data"]["text/plain"]
        own = "" if kind == "stream" else content.get("transient", {}).get("display_id", "")
        if kind == "update_display_data":
            for shown in self._shown.values():
                shown[:] = [(name, text if name == own else old) for name, old in shown]
            return
        if cell in self._clear_next:
            self._clear_next.discard(cell)
            self._shown[cell].clear()
        self._shown[cell].append((own, text))


def test_the_last_update_of_a_thread_arrives_on_every_rank(four: Kernel) -> None:
    work = (
        "from IPython.display import display\n"
        "h = display('start', display_id=True)\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    for i in range(200):\n"
        "        h.update(f'{i} of {rank}')\n"
        "threading.Thread(target=work).start()"
    )
    view = View(four)
    cell = four.start(work)
    view.wait_for(cell, ["'start'"])
    four.start("go.set()")
    view.wait_for(cell, [f"'199 of {rank}'" for rank in range(4)])


def test_the_last_frame_of_a_thread_stays_on_every_rank(four: Kernel) -> None:
    work = (
        "from IPython.display import clear_output, display\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    for i in range(100):\n"
        "        clear_output(wait=True)\n"
        "        display(f'{i} of {rank}')\n"
        "threading.Thread(target=work).start()\n"
        "print('begun')"
    )
    view = View(four)
    cell = four.start(work)
    view.wait_for(cell, ["begun\n"])
    four.start("go.set()")
    view.wait_for(cell, [f"'99 of {rank}'" for rank in range(4)])
    wanted = [text for rank in range(4) for text in (f"rank {rank}", f"'99 of {rank}'")]
    assert view.texts(cell) == wanted


def test_too_many_displays_of_a_thread_are_counted(four: Kernel) -> None:
    work = (
        "from IPython.display import display\n"
        "def work():\n"
        "    if rank != 2: return\n"
        "    go.wait(60)\n"
        "    for i in range(300):\n"
        "        display(i)\n"
        "threading.Thread(target=work).start()\n"
        "print('begun')"
    )
    view = View(four)
    cell = four.start(work)
    view.wait_for(cell, ["begun\n"])
    four.start("go.set()")
    view.wait_for(cell, ["rank 2", "299"])
    texts = view.texts(cell)
    shown = [int(text) for text in texts if text.isdecimal()]
    notes = [re.fullmatch(r"… (\d+) displays? elided, `%sk log 2`", text) for text in texts]
    assert len(shown) + sum(int(note[1]) for note in notes if note) == 300
    assert shown == sorted(shown)
