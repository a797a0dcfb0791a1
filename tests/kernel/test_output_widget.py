"""ipywidgets' Output on several ranks: each rank's takes what that rank puts out, and no more."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import Any

import pytest
from conftest import TIMEOUT, Cell, Kernel, StartKernel

for package in ("libsk", "ipywidgets"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed in this Python", allow_module_level=True)

ANSI = re.compile(r"\x1b\[[0-9;]*m")
VIEW = "application/vnd.jupyter.widget-view+json"


class Notebook:
    """The states of the Output widgets, by rank, as a front end keeps them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.states: dict[str, dict[str, Any]] = {}
        self.ranks: dict[str, str] = {}

    def run(self, code: str) -> Cell:
        cell = self.kernel.run(code)
        self.take(self.kernel.beside)
        self.kernel.beside.clear()
        self.take(cell.messages)
        return cell

    def take(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            content = message["content"]
            data = content.get("data", {})
            if message["msg_type"] == "comm_open":
                if data.get("state", {}).get("_model_name") == "OutputModel":
                    self.ranks[content["comm_id"]] = message["metadata"]["superkernel"]["ranks"]
                    self.states[content["comm_id"]] = dict(data["state"])
            elif message["msg_type"] == "comm_msg" and content["comm_id"] in self.states:
                self.states[content["comm_id"]].update(data.get("state", {}))

    def outputs(self, rank: int) -> list[dict[str, Any]]:
        """Of the newest widget of the rank."""
        ids = [comm_id for comm_id, ranks in self.ranks.items() if ranks == str(rank)]
        state = self.states[ids[-1]]
        assert not state["msg_id"], "the notebook would take every rank's outputs for the widget's"
        return list(state["outputs"])

    def text(self, rank: int) -> str:
        return "".join(output.get("text", "") for output in self.outputs(rank))

    def wait_for(self, rank: int, text: str) -> None:
        """Until the widget shows it, while a cell runs."""
        while text not in self.text(rank):
            self.take([self.kernel.client.get_iopub_msg(timeout=TIMEOUT)])


@pytest.fixture
def notebook(start_kernel: StartKernel) -> Notebook:
    """A kernel of two Python ranks, each with an Output widget."""
    found = Notebook(start_kernel(2, [sys.executable, "-m", "libsk.kernel"]))
    code = (
        "import sys, threading, ipywidgets\n"
        "from IPython.display import HTML, clear_output, display\n"
        "out = ipywidgets.Output()\n"
        "display(out)"
    )
    cell = found.run(code)
    assert len([d for d in cell.of("display_data") if VIEW in d["data"]]) == 2
    return found


def test_what_is_printed_within_is_in_the_widget_alone(notebook: Notebook) -> None:
    code = (
        "print('before')\n"
        "with out:\n"
        "    print('inside', rank)\n"
        "    print('oh', file=sys.stderr)\n"
        "    display(HTML(f'<b>{rank}</b>'))\n"
        "print('after')"
    )
    cell = notebook.run(code)
    assert cell.text() == "before\nafter\n"
    assert cell.text("stderr") == "" and not cell.of("display_data")
    for rank in range(2):
        stdout, stderr, html = notebook.outputs(rank)
        assert stdout == {"output_type": "stream", "name": "stdout", "text": f"inside {rank}\n"}
        assert stderr["text"] == "oh\n" and stderr["name"] == "stderr"
        assert html["data"]["text/html"] == f"<b>{rank}</b>"


def test_a_rank_alone_may_enter(notebook: Notebook) -> None:
    cell = notebook.run("with out if rank == 1 else threading.Lock():\n    print('from', rank)")
    assert cell.text() == "[0] from 0\n"
    assert notebook.outputs(0) == [] and notebook.text(1) == "from 1\n"


def test_a_child_process_prints_as_any_other(notebook: Notebook) -> None:
    """It is no rank, and no widget hears it."""
    code = (
        "import os\n"
        "def in_child(say):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        try: say()\n"
        "        except BaseException as error: os.write(1, repr(error).encode())\n"
        "        sys.stdout.flush()\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "def again():\n"
        "    with out: print('from', 'within')\n"
        "import sys\n"
        "with out:\n"
        "    print('before')\n"
        "    in_child(lambda: print('from', 'a child'))\n"
        "    in_child(again)\n"
        "    print('after')"
    )
    cell = notebook.run(code)
    assert cell.text() == "from a child\nfrom within\n"
    assert [notebook.text(rank) for rank in range(2)] == ["before\nafter\n"] * 2


def test_an_error_within_is_shown_there_and_ends_there(notebook: Notebook) -> None:
    cell = notebook.run("with out:\n    1 / 0\nprint('on')")
    assert cell.reply["status"] == "ok"
    assert cell.text() == "on\n" and cell.text("stderr") == ""
    for rank in range(2):
        (error,) = notebook.outputs(rank)
        assert error["ename"] == "ZeroDivisionError" and "1 / 0" in ANSI.sub(
            "", "".join(error["traceback"])
        )


def test_captured_functions_clearing_and_appending(notebook: Notebook) -> None:
    code = (
        "@out.capture(clear_output=True)\n"
        "def f(x):\n"
        "    print('called with', x, 'on', rank)\n"
        "f(1); f(2)\n"
        "out.append_stdout('appended\\n')\n"
        "out.append_display_data(HTML('<i>x</i>'))"
    )
    cell = notebook.run(code)
    assert cell.text() == ""
    for rank in range(2):
        assert notebook.text(rank) == f"called with 2 on {rank}\nappended\n"
        assert notebook.outputs(rank)[-1]["data"]["text/html"] == "<i>x</i>"
    notebook.run("with out:\n    clear_output(wait=True)\n    print('instead')")
    assert [notebook.text(rank) for rank in range(2)] == ["instead\n"] * 2


def test_interact_shows_what_its_function_prints(notebook: Notebook) -> None:
    code = "_ = ipywidgets.interact(lambda n: print('n is', n), n=ipywidgets.IntSlider(value=rank))"
    assert notebook.run(code).text() == ""
    assert [notebook.text(rank) for rank in range(2)] == ["n is 0\n", "n is 1\n"]


def test_a_thread_fills_the_widget_it_was_started_in(notebook: Notebook) -> None:
    code = (
        "go = threading.Event()\n"
        "def work():\n"
        "    go.wait(60)\n"
        "    for i in range(1000): print('late', i)\n"
        "with out:\n"
        "    thread = threading.Thread(target=work)\n"
        "    thread.start()"
    )
    notebook.run(code)
    assert notebook.run("go.set()\nthread.join()\nprint('next')").text() == "next\n"
    for rank in range(2):
        notebook.wait_for(rank, "late 999\n")
        assert notebook.text(rank) == "".join(f"late {i}\n" for i in range(1000))


def test_a_loop_is_seen_while_it_runs(notebook: Notebook) -> None:
    code = "go = threading.Event()\nwith out:\n    print('one')\n    print('two')\n    go.wait(60)"
    sent = notebook.kernel.start(code)
    for rank in range(2):
        notebook.wait_for(rank, "one\ntwo\n")
    notebook.kernel.manager.interrupt_kernel()
    notebook.take(notebook.kernel.finish(sent).messages)
    for rank in range(2):
        assert notebook.outputs(rank)[-1]["ename"] == "KeyboardInterrupt"


def test_what_a_widget_cannot_hold_is_the_cells(notebook: Notebook) -> None:
    code = "with out:\n    print('x' * 1_500_000)\n    print('y' * 1_500_000)"
    cell = notebook.run(code)
    assert cell.text().startswith("yyy")
    for rank in range(2):
        assert notebook.text(rank) == "x" * 1_500_000 + "\n"
