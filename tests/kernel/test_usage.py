"""What status bars ask of a kernel, and what `%sk status` says of ranks at work."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from typing import Any

import pytest
from conftest import TIMEOUT, Kernel, StartKernel, kill, wait_until

OF_IPYKERNEL = {
    "hostname",
    "pid",
    "kernel_cpu",
    "kernel_memory",
    "cpu_count",
    "host_virtual_memory",
}
OF_MEMORY = {"total", "available", "percent", "used", "free"}


def usage(kernel: Kernel) -> dict[str, Any]:
    """The answer to a usage request on the control channel."""
    message = kernel.client.session.msg("usage_request", {})
    kernel.client.control_channel.send(message)
    reply = kernel.client.get_control_msg(timeout=TIMEOUT)
    assert reply["msg_type"] == "usage_reply"
    assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
    return reply["content"]


def test_usage_is_of_all_ranks_and_of_each(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    kernel.run("print first")
    first = usage(kernel)
    assert set(first) >= OF_IPYKERNEL, first
    assert set(first["host_virtual_memory"]) >= OF_MEMORY
    assert first["pid"] == kernel.pid and first["cpu_count"] == os.cpu_count()
    (host,) = first["hosts"]
    assert [rank["pid"] for rank in host["ranks"]] == kernel.ranks()
    of_ranks = [rank["kernel_memory"] for rank in host["ranks"]]
    assert all(bytes > 100_000 for bytes in of_ranks)
    assert sum(of_ranks) < host["kernel_memory"] == first["kernel_memory"]
    assert first["kernel_cpu"] == 0.0  # As psutil has it: nothing to compare with.


def test_usage_finds_who_computes_also_while_a_cell_runs(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    kernel.run("print first")
    running = kernel.start("print on\non 1 spin 60000\non 0,2 sleep 60000")
    kernel.wait_for_stream(running)

    def busiest() -> bool:
        now = usage(kernel)
        by_rank = [rank["kernel_cpu"] for rank in now["hosts"][0]["ranks"]]
        return by_rank[1] > 10 > max(by_rank[0], by_rank[2]) and now["kernel_cpu"] >= by_rank[1]

    assert wait_until(busiest)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["status"] == "error"


def test_usage_without_ranks(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    kill(kernel.ranks()[0])
    assert wait_until(lambda: len(usage(kernel)["hosts"][0]["ranks"]) == 1)
    kernel.run("%shutdown")
    alone = usage(kernel)
    assert alone["hosts"][0]["ranks"] == [] and alone["kernel_memory"] > 0


# ---- %sk status --------------------------------------------------------------------------------


def status(kernel: Kernel) -> str:
    """What `%sk status` shows while no cell runs."""
    cell = kernel.run("%sk status")
    assert cell.reply["status"] == "ok", cell.reply
    return cell.of("display_data")[0]["data"]["text/plain"]


def test_status_has_a_row_for_each_rank_at_work(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    kernel.run("print first")
    running = kernel.start("print on\non 1 sleep 60000")
    kernel.wait_for_stream(running)
    working = re.compile(r"^1 +busy +\[2\] +\d+\.\d s +\S+ +\d+ MiB$", re.MULTILINE)
    assert wait_until(lambda: working.search(kernel.aside("%sk status")) is not None)
    rows = kernel.aside("%sk status").splitlines()
    assert rows[0].split() == ["ranks", "state", "cell", "for", "host", "memory"]
    assert [row.split()[:2] for row in rows[1:]] == [["0", "idle"], ["1", "busy"], ["2", "idle"]]
    kernel.manager.interrupt_kernel()
    kernel.finish(running)


python_ranks = pytest.mark.skipif(
    importlib.util.find_spec("libsk") is None, reason="the package libsk is not installed"
)
PROGRAM = [sys.executable, "-m", "libsk.kernel"]


@python_ranks
def test_status_says_for_whom_a_cell_waits(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM)
    kernel.run("comm.barrier()")
    code = "import threading\nprint('on')\nif rank == 2: threading.Event().wait(60)\ncomm.barrier()"
    running = kernel.start(code)
    kernel.wait_for_stream(running)
    waits = re.compile(r"^0 +busy +\[2\] .* for rank 2 in barrier", re.MULTILINE)
    assert wait_until(lambda: waits.search(kernel.aside("%sk status")) is not None)
    assert not re.search(r"^2 .* in barrier", kernel.aside("%sk status"), re.MULTILINE)
    kernel.manager.interrupt_kernel()
    assert kernel.finish(running).reply["status"] == "error"


HANDLER = """
import comm as jupyter_comm
def target(opened, message):
    opened.on_msg(lambda message: comm.barrier() if rank != 1 else None)
jupyter_comm.get_comm_manager().register_target("mine", target)
comm.barrier()
"""


@python_ranks
def test_status_tells_of_a_callback_that_waits(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM)
    assert kernel.run(HANDLER).reply["status"] == "ok"
    for kind, content in (
        ("comm_open", {"comm_id": "a", "target_name": "mine", "data": {}}),
        ("comm_msg", {"comm_id": "a", "data": {}}),
    ):
        kernel.client.shell_channel.send(kernel.client.session.msg(kind, content))
    waits = re.compile(r"^0 +busy +widget +.* for rank 1 in barrier", re.MULTILINE)
    assert wait_until(lambda: waits.search(status(kernel)) is not None)
    assert re.search(r"^1 +idle", status(kernel), re.MULTILINE)
    kernel.manager.interrupt_kernel()
    assert wait_until(lambda: "busy" not in status(kernel))
    assert kernel.run("print(comm.allreduce(1))").text() == "3\n"
