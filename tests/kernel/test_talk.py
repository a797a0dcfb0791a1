"""Input, widgets, expressions and answers of busy ranks, as a notebook meets them."""

from __future__ import annotations

import importlib.util
import re
import sys
import time
from typing import Any

import pytest
from conftest import TIMEOUT, Kernel, StartKernel, kill

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]


@pytest.fixture
def python(start_kernel: StartKernel) -> Kernel:
    """A kernel of four Python ranks."""
    return start_kernel(4, PROGRAM)


def prompt(kernel: Kernel) -> dict[str, Any]:
    """The next input request."""
    return kernel.client.get_stdin_msg(timeout=TIMEOUT)["content"]


# ---- input ----


@pytest.mark.acceptance(11)
def test_one_prompt_for_all_and_one_each(python: Kernel) -> None:
    sent = python.start("name = input('name? ')\nprint('hello', name)")
    assert prompt(python) == {"prompt": "name? ", "password": False}
    python.client.input("Ada")
    assert python.finish(sent).text() == "hello Ada\n"
    sent = python.start("x = input(f'{rank}? ')")
    for rank in range(4):
        assert prompt(python)["prompt"] == f"[{rank}] {rank}? "
        python.client.input(f"to {rank}")
    python.finish(sent)
    lines = "".join(f"[{rank}] to {rank}\n" for rank in range(4))
    assert python.run("print(x)").text() == lines


@pytest.mark.parametrize(
    ("asks", "shown"), [("input('first\\nwhich one? ')", "which one?"), ("breakpoint()", "(Pdb)")]
)
def test_status_says_who_waits_for_an_answer(python: Kernel, asks: str, shown: str) -> None:
    sent = python.start(f"if rank == 2:\n    {asks}")
    prompt(python)
    rows = [row for row in python.aside("%sk status").splitlines() if "your answer" in row]
    assert len(rows) == 1 and rows[0].split()[0] == "2", rows
    assert re.search(rf'for your answer to "{re.escape(shown)}", \d+\.\d s', rows[0]), rows
    python.client.input("c")
    python.finish(sent)
    assert "your answer" not in python.run("%sk status").of("display_data")[0]["data"]["text/plain"]


def test_a_password_is_asked_as_one(python: Kernel) -> None:
    sent = python.start("import getpass\nsecret = getpass.getpass('key: ')")
    assert prompt(python) == {"prompt": "key: ", "password": True}
    python.client.input("s3cret")
    assert python.finish(sent).reply["status"] == "ok"
    assert python.run("len(secret)").of("execute_result")[0]["data"] == {"text/plain": "6"}


@pytest.mark.acceptance(11)
def test_an_interrupt_ends_a_prompt_and_the_next_one_works(python: Kernel) -> None:
    for _ in range(3):
        sent = python.start("input('wait ')")
        prompt(python)
        python.manager.interrupt_kernel()
        assert python.finish(sent).reply["ename"] == "KeyboardInterrupt"
    sent = python.start("print(input('now '))")
    assert prompt(python)["prompt"] == "now "
    python.client.input("yes")
    assert python.finish(sent).text() == "yes\n"


def test_without_leave_input_is_refused_in_a_sentence(python: Kernel) -> None:
    cell = python.run("input('x')", allow_stdin=False)
    assert cell.reply["ename"] == "StdinNotImplementedError"
    assert "takes no input requests" in cell.reply["evalue"]


def test_the_end_of_input_is_eof(python: Kernel) -> None:
    sent = python.start("input('x')")
    prompt(python)
    python.client.input("\x04")
    assert python.finish(sent).reply["ename"] == "EOFError"


def test_a_rank_that_dies_does_not_leave_the_others_waiting(python: Kernel) -> None:
    pids = python.run("import os, threading\nprint(os.getpid())").text()
    sent = python.start("input('x') if rank else threading.Event().wait(60)")
    assert prompt(python)["prompt"] == "[1-3] x"
    kill(int(pids.split("[2] ")[1].split()[0]))
    assert python.finish(sent).reply["ename"] == "RankDied"


def test_a_debugger_on_one_rank(python: Kernel) -> None:
    code = "def f(x):\n    if rank == 2:\n        breakpoint()\n    return x + 1\nprint(f(4))"
    sent = python.start(code)
    assert prompt(python)["prompt"] == "[2] (Pdb) "
    python.client.input("p x * 100")
    prompt(python)
    python.client.input("c")
    cell = python.finish(sent)
    assert "400\n" in cell.text() and cell.reply["status"] == "ok"


# ---- what the answer carries ----


def test_expressions_and_the_payload_are_the_lowest_ranks(python: Kernel) -> None:
    python.run("value = rank + 10")
    expressions = {"mine": "value", "bad": "1/0"}
    reply = python.run("get_ipython().set_next_input('next')", user_expressions=expressions).reply
    assert reply["user_expressions"]["mine"]["data"] == {"text/plain": "10"}
    assert reply["user_expressions"]["bad"]["ename"] == "ZeroDivisionError"
    assert reply["payload"] == [{"source": "set_next_input", "text": "next", "replace": False}]
    reply = python.run("len?").reply
    assert [each["source"] for each in reply["payload"]] == ["page"]
    assert "user_expressions" in reply


# ---- answers while all ranks are busy ----

_BUSY = {
    "a wait": "import threading; threading.Event().wait(60)",
    "a loop": "while True: pass",
    "C that holds the lock": "import ctypes; ctypes.PyDLL(None).poll(None, 0, 8000)",
}


@pytest.mark.acceptance(10)
@pytest.mark.parametrize("how", _BUSY)
def test_busy_ranks_answer_within_the_second_that_a_notebook_waits(
    python: Kernel, how: str
) -> None:
    python.run("import math\napple_tree = 1\ndef apple_pie(size, *, sugar=2):\n    'Bakes.'")
    sent = python.start(f"print('on')\n{_BUSY[how]}")
    python.wait_for_stream(sent)
    client = python.client
    requests = {
        "complete": lambda: client.complete("x = apple_"),
        "members": lambda: client.complete("math.sq"),
        "inspect": lambda: client.inspect("apple_pie", 9),
        "is_complete": lambda: client.is_complete("x"),
        "history": lambda: client.history(hist_access_type="tail", n=5),
        "kernel_info": client.kernel_info,
        "comm_info": client.comm_info,
    }
    seconds = []
    answers: dict[str, Any] = {}
    for name in list(requests) * 6:
        began = time.monotonic()
        message = requests[name]()
        while True:
            reply = client.get_shell_msg(timeout=TIMEOUT)
            if reply["parent_header"]["msg_id"] == message:
                break
        seconds.append(time.monotonic() - began)
        answers[name] = reply["content"]
    python.manager.interrupt_kernel()
    python.finish(sent)
    assert answers["complete"]["matches"] == ["apple_pie", "apple_tree"]
    assert (answers["complete"]["cursor_start"], answers["complete"]["cursor_end"]) == (4, 10)
    assert answers["members"]["matches"] == ["sqrt"]
    text = answers["inspect"]["data"]["text/plain"]
    assert "apple_pie(size, *, sugar=2)" in text and "Bakes." in text
    p95 = sorted(seconds)[int(len(seconds) * 0.95)]
    print(f"{how}: p95 {p95 * 1000:.1f} ms, worst {max(seconds) * 1000:.1f} ms")
    assert p95 < 1.0  # Aim: 0.3 s; this machine may be anybody's.


# ---- widgets ----


def comm_messages(cell: Any, kind: str) -> list[dict[str, Any]]:
    """The messages of one kind that a cell led to."""
    return [m for m in cell.messages if m["msg_type"] == kind]


def send_comm(
    kernel: Kernel, kind: str, content: dict[str, Any], **metadata: str
) -> list[dict[str, Any]]:
    """Sends a comm's message as a front end does; everything that came of it."""
    message = kernel.client.session.msg(kind, content, metadata=metadata)
    kernel.client.shell_channel.send(message)
    seen = []
    while True:
        each = kernel.client.get_iopub_msg(timeout=TIMEOUT)
        if each["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        seen.append(each)
        if each["msg_type"] == "status" and each["content"]["execution_state"] == "idle":
            return [m for m in seen if m["msg_type"] != "status"]


SLIDER = """
import ipywidgets
from IPython.display import display
slider = ipywidgets.IntSlider(value=rank, max=99)
slider.observe(lambda change: print('moved to', change['new']), 'value')
display(slider)
"""
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.mark.acceptance(19)
def test_a_slider_on_one_rank_changes_that_rank_alone(python: Kernel) -> None:
    pytest.importorskip("ipywidgets")
    cell = python.run(SLIDER)
    assert cell.reply["status"] == "ok", cell.reply
    sliders = {}
    for message in comm_messages(cell, "comm_open"):
        state = message["content"]["data"]["state"]
        if state.get("_model_name") == "IntSliderModel":
            ranks = message["metadata"]["superkernel"]["ranks"]
            sliders[ranks] = message["content"]["comm_id"]
            assert state["value"] == int(ranks)
    assert sorted(sliders) == ["0", "1", "2", "3"]
    shown = [d["data"][VIEW]["model_id"] for d in cell.of("display_data") if VIEW in d["data"]]
    assert sorted(shown) == sorted(sliders.values())
    data = {"method": "update", "state": {"value": 42}, "buffer_paths": []}
    came = send_comm(python, "comm_msg", {"comm_id": sliders["1"], "data": data})
    text = "".join(m["content"]["text"] for m in came if m["msg_type"] == "stream")
    assert text == "[1] moved to 42\n"
    assert python.run("print(slider.value)").text() == "[0] 0\n[1] 42\n[2] 2\n[3] 3\n"
    listed = python.client.comm_info(target_name="jupyter.widget", reply=True, timeout=TIMEOUT)
    assert set(sliders.values()) <= set(listed["content"]["comms"])
    # A notebook that is opened again asks for all widgets at once, and takes one answer.
    opened = {"comm_id": "control", "target_name": "jupyter.widget.control", "data": {}}
    came = send_comm(python, "comm_open", opened, version="1.0.0")
    assert not [m for m in came if m["msg_type"] == "comm_close"]
    ask = {"comm_id": "control", "data": {"method": "request_states"}}
    answers = [m for m in send_comm(python, "comm_msg", ask) if m["msg_type"] == "comm_msg"]
    assert len(answers) == 1
    states = answers[0]["content"]["data"]["states"]
    assert [states[sliders[str(rank)]]["state"]["value"] for rank in range(4)] == [0, 42, 2, 3]


def test_a_handler_that_fails_is_shown_and_ends_nothing(python: Kernel) -> None:
    code = (
        "import comm\n"
        "def target(opened, message):\n"
        "    def on_message(message):\n"
        "        opened.send({'echo': message['content']['data']}, buffers=message['buffers'])\n"
        "        if rank == 2: raise ValueError('boom')\n"
        "    opened.on_msg(on_message)\n"
        "comm.get_comm_manager().register_target('mine', target)"
    )
    assert python.run(code).reply["status"] == "ok"
    send_comm(python, "comm_open", {"comm_id": "a", "target_name": "mine", "data": {}})
    came = send_comm(python, "comm_msg", {"comm_id": "a", "data": {"x": float(1)}})
    echoes = [m for m in came if m["msg_type"] == "comm_msg"]
    assert [e["content"]["data"] for e in echoes] == [{"echo": {"x": 1.0}}] * 4
    text = "".join(str(m["content"]) for m in came if m["msg_type"] in ("error", "stream"))
    assert "ValueError" in text and "boom" in text
    assert python.run("print('on')").text() == "on\n"


def test_an_unknown_target_is_closed_with_a_sentence(python: Kernel) -> None:
    python.run("1")
    content = {"comm_id": "b", "target_name": "nowhere", "data": {}}
    came = send_comm(python, "comm_open", content)
    closes = [m["content"] for m in came if m["msg_type"] == "comm_close"]
    assert len(closes) == 1 and closes[0]["comm_id"] == "b"
    assert "no comm target named 'nowhere'" in closes[0]["data"]["error"]


def test_buffers_go_both_ways(python: Kernel) -> None:
    code = (
        "import comm\n"
        "made = comm.create_comm('t', data={'n': rank}, buffers=[bytes([rank, 255, 0])])\n"
        "made.on_msg(lambda m: made.send({}, buffers=[bytes(m['buffers'][0])[::-1]]))"
    )
    cell = python.run(code)
    opens = comm_messages(cell, "comm_open")
    by_rank = {m["content"]["data"]["n"]: m for m in opens}
    assert {rank: bytes(m["buffers"][0]) for rank, m in by_rank.items()} == {
        rank: bytes([rank, 255, 0]) for rank in range(4)
    }
    session = python.client.session
    message = session.msg("comm_msg", {"comm_id": by_rank[3]["content"]["comm_id"], "data": {}})
    session.send(python.client.shell_channel.socket, message, buffers=[b"\x00abc"])
    while True:
        each = python.client.get_iopub_msg(timeout=TIMEOUT)
        if each["msg_type"] == "comm_msg":
            break
    assert bytes(each["buffers"][0]) == b"cba\x00"


# ---- what the kernel does not have ----


def test_what_is_unknown_is_answered_at_once(kernel: Kernel) -> None:
    client = kernel.client
    for kind, content in (
        ("debug_request", {"type": "request", "command": "debugInfo", "seq": 7}),
        ("weather_request", {}),
    ):
        message = client.session.msg(kind, content)
        client.control_channel.send(message)
        reply = client.get_control_msg(timeout=TIMEOUT)
        assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
        assert reply["msg_type"] == kind.replace("request", "reply")
        if kind == "debug_request":
            assert reply["content"]["success"] is False and reply["content"]["request_seq"] == 7
            assert "no debugger" in reply["content"]["message"]
        else:
            assert reply["content"]["status"] == "error"
            assert kind in reply["content"]["evalue"]


def test_kernel_info_names_a_recent_protocol(kernel: Kernel) -> None:
    info = kernel.client.kernel_info(reply=True, timeout=TIMEOUT)["content"]
    assert tuple(map(int, info["protocol_version"].split("."))) >= (5, 4)
    assert info["supported_features"] == ["kernel subshells"]
    assert all({"text", "url"} == set(link) for link in info["help_links"])
