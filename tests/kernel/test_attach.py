"""A front end killed in the middle of a cell, and the next one on the same connection file."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import IO

import pytest
from conftest import (
    SK,
    STUB,
    TIMEOUT,
    Kernel,
    StartKernel,
    alive,
    descendants,
    kill,
    ranks_below,
    wait_until,
)
from jupyter_client.blocking.client import BlockingKernelClient


class Successor:
    """Front ends started by hand, as a notebook server's restarter would."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, kernel: Kernel, stderr: IO[bytes] | None = None) -> None:
        """One more on the kernel's connection file; the client goes on as it is."""
        argv = [str(SK), "kernel", "-f", kernel.manager.connection_file, "--ranks", "2"]
        env = {**os.environ, "JPY_PARENT_PID": str(os.getpid())}
        self.processes.append(subprocess.Popen([*argv, "--", str(STUB)], env=env, stderr=stderr))


@pytest.fixture
def successor() -> Iterator[Successor]:
    made = Successor()
    yield made
    for process in made.processes:
        process.terminate()
        process.wait(30)


def kill_front_end(kernel: Kernel) -> None:
    """Until its ports are free."""
    kill(kernel.pid)
    assert wait_until(lambda: not alive(kernel.pid))


def meet_again(kernel: Kernel) -> None:
    """Until the client has found the new process: what it sends to a dead one gets lost."""

    def answered() -> bool:
        request = kernel.client.kernel_info()
        try:
            while kernel.client.get_shell_msg(timeout=1)["parent_header"]["msg_id"] != request:
                pass  # What the dead one had sent is no answer.
            kernel.client.get_iopub_msg(timeout=1)  # Of the running cell, perhaps: one is enough.
        except Empty:
            return False
        return True

    assert wait_until(answered)


def forget_output(kernel: Kernel) -> None:
    """What a dead front end had sent, so that the next message is its successor's."""
    with suppress(Empty):
        while True:
            kernel.client.get_iopub_msg(timeout=0.5)


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for the names of this test's sessions alone; short, as names of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="sk-test-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder) / "superkernel"


def sockets(runtime: Path) -> set[str]:
    """The names under which sessions listen."""
    return {path.name for path in runtime.glob("*.sock")}


@pytest.mark.acceptance(9)
def test_a_cell_outlives_its_front_end(start_kernel: StartKernel, successor: Successor) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    ranks = kernel.ranks()
    message_id = kernel.start("print before\nsleep 1500\nprint rank {rank}\nresult 42")
    assert kernel.wait_for_stream(message_id) == "before\n"
    kill_front_end(kernel)
    successor.start(kernel)
    cell = kernel.finish(message_id)
    assert cell.reply["status"] == "ok"
    assert cell.reply["execution_count"] == 2
    assert cell.text() == "    before\n[0] rank 0\n[1] rank 1\n"
    assert [r["data"]["text/plain"] for r in cell.of("execute_result")] == ["42"]
    assert all(map(alive, ranks))
    after = kernel.run("print after\nresult {rank}")
    assert after.text() == "after\n"
    assert after.reply["execution_count"] == 3


@pytest.mark.acceptance(9)
def test_what_ended_while_nobody_listened_is_told(
    start_kernel: StartKernel, successor: Successor, tmp_path: Path
) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    done = tmp_path / "done"
    script = f"print before\nsleep 300\nprint alone\nsh echo >> {done}\nerror ValueError boom"
    message_id = kernel.start(script)
    kernel.wait_for_stream(message_id)
    kill_front_end(kernel)
    assert wait_until(lambda: done.exists() and done.stat().st_size == 2)
    successor.start(kernel)
    cell = kernel.finish(message_id)
    assert cell.reply["ename"] == "ValueError"
    assert cell.text() == "before\nalone\n"
    assert len(cell.of("error")) == 1
    for _ in range(2):  # Also a successor can be killed; what was told is not told again.
        kill(successor.processes[-1].pid)
        successor.processes[-1].wait(30)
        successor.start(kernel)
        meet_again(kernel)
        assert kernel.run("print again").text() == "again\n"


def test_cells_that_wait_run_after_it_and_history_stays(
    start_kernel: StartKernel, successor: Successor, tmp_path: Path
) -> None:
    kernel = start_kernel(2)
    kernel.run("print first\nresult 7")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = kernel.start(f"print before\non 0 sh cat {gate}\nprint ran")
    kernel.wait_for_stream(running)
    waiting = [kernel.start("print waited 1"), kernel.start("print waited 2\nresult {rank}")]
    kernel.client.kernel_info()  # Once it is answered the cells before it are the kernel's.
    assert wait_until(lambda: kernel.client.get_shell_msg(timeout=TIMEOUT) is not None)
    kill_front_end(kernel)
    successor.start(kernel)
    meet_again(kernel)
    late = kernel.start("print came later")
    gate.write_text("")
    assert kernel.finish(running).text() == "before\nran\n"
    cells = [kernel.finish(message_id) for message_id in waiting]
    assert [cell.text() for cell in cells] == ["waited 1\n", "waited 2\n"]
    assert [cell.reply["execution_count"] for cell in cells] == [3, 4]
    assert kernel.finish(late).reply["execution_count"] == 5
    kernel.client.history(hist_access_type="range", session=0, start=1, stop=9, output=True)
    history = kernel.client.get_shell_msg(timeout=TIMEOUT)["content"]["history"]
    codes = [(line, code.splitlines()[0]) for _, line, (code, _) in history]
    assert codes == [
        (1, "print first"),
        (2, "print before"),
        (3, "print waited 1"),
        (4, "print waited 2"),
        (5, "print came later"),
    ]
    assert [output for _, _, (_, output) in history][0] == "7"


def test_cells_that_wait_behind_a_failure_are_aborted(
    start_kernel: StartKernel, successor: Successor, tmp_path: Path
) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = kernel.start(f"print before\non 0 sh cat {gate}\nerror ValueError boom")
    kernel.wait_for_stream(running)
    waiting = kernel.start("print never")
    kernel.client.kernel_info()
    kernel.client.get_shell_msg(timeout=TIMEOUT)
    kill_front_end(kernel)
    gate.write_text("")
    successor.start(kernel)
    assert kernel.finish(running).reply["ename"] == "ValueError"
    cell = kernel.finish(waiting)
    assert cell.reply["status"] == "aborted" and cell.text() == ""
    # It is not tried again by a third one.
    kill(successor.processes[-1].pid)
    successor.processes[-1].wait(30)
    forget_output(kernel)
    successor.start(kernel)
    meet_again(kernel)
    assert kernel.run("print on").text() == "on\n"


def test_a_restart_by_force_gives_a_working_kernel(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    kernel.run("print first")
    controller, ranks = kernel.controller(), kernel.ranks()
    for count, expected in ((2, "ranks 0,1 were lost"), (3, "ranks 0-2 were lost")):
        lost, survivors = ranks[:count], ranks[count:]
        for rank in lost:
            kill(rank)
        kernel.manager.restart_kernel(now=True)
        kernel.wait_for_ready()
        cell = kernel.run("print works on {rank}")
        assert cell.reply["status"] == "ok"
        assert cell.text() == "[0] works on 0\n[1] works on 1\n[2] works on 2\n"
        # Before it, perhaps, that the front end was lost while the last cell ran: it may have been
        # killed between that cell's reply and its own note of it.
        assert expected in cell.text("stderr")
        assert "started again" in cell.text("stderr")
        assert kernel.run("print second").text("stderr") == ""  # Said once.
        assert not any(map(alive, lost)) and all(map(alive, survivors))
        ranks = ranks_below(controller)


def test_what_nobody_read_is_pointed_to(
    start_kernel: StartKernel, successor: Successor, tmp_path: Path
) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = kernel.start(f"print before\non 0 sh cat {gate}\nprint ran")
    kernel.wait_for_stream(running)
    kill_front_end(kernel)
    successor.start(kernel)
    meet_again(kernel)
    gate.write_text("")
    pointer = "front end was lost while {} ran: `%sk log 2` shows all"
    assert pointer.format("this cell") in kernel.finish(running).text("stderr")
    assert pointer.format("cell 2") in kernel.run("print next").text("stderr")
    assert kernel.run("%sk log 2").text() == "before\nran\n"
    assert kernel.run("print last").text("stderr") == ""


def test_a_page_that_is_loaded_anew_is_pointed_to_the_cell_that_ran(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    kernel = start_kernel(2)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    running = kernel.start(f"print before\non 0 sh cat {gate}\nprint ran")
    kernel.wait_for_stream(running)
    client = BlockingKernelClient(connection_file=kernel.manager.connection_file)
    client.load_connection_file()
    page = Kernel(kernel.manager, client)  # A session of its own, as a browser's reload begins.
    gate.write_text("")
    assert kernel.finish(running).text("stderr") == ""
    assert kernel.run("print mine").text("stderr") == ""
    assert "Cell 1 ran when this notebook was opened: `%sk log 1`" in page.run("print a").text(
        "stderr"
    )
    assert page.run("print b").text("stderr") == ""
    page.client.stop_channels()


def takes(other: socket.socket, port: int) -> bool:
    """The notebook's own client, which knocks there meanwhile, may be given that very port."""
    try:
        other.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def test_a_successor_waits_for_a_port_that_is_taken(
    start_kernel: StartKernel, successor: Successor, tmp_path: Path
) -> None:
    """Between two front ends their ports are anybody's: any connection may be given one."""
    kernel = start_kernel(2)
    kernel.run("print first")
    port = json.loads(Path(kernel.manager.connection_file).read_text())["shell_port"]
    said = tmp_path / "said"
    with socket.socket() as other, said.open("wb") as stderr:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kill_front_end(kernel)
        assert wait_until(lambda: takes(other, port))
        other.listen()
        successor.start(kernel, stderr)
        sentence = f"waiting for tcp://127.0.0.1:{port}, the shell channel's address, which is in"
        assert wait_until(lambda: sentence in said.read_text())
    meet_again(kernel)
    assert kernel.run("print second").text() == "second\n"


def test_a_shutdown_ends_what_a_successor_took_over(
    start_kernel: StartKernel, successor: Successor, runtime: Path
) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    below = descendants(kernel.pid)
    assert len(sockets(runtime)) == 1
    kill_front_end(kernel)
    successor.start(kernel)
    meet_again(kernel)
    assert kernel.run("print second").text() == "second\n"
    kernel.client.shutdown()
    successor.processes[0].wait(30)
    assert wait_until(lambda: not any(map(alive, below)))
    assert sockets(runtime) == set()


def test_a_killed_controller_leaves_no_name(start_kernel: StartKernel, runtime: Path) -> None:
    kernel = start_kernel(2)
    kernel.run("print first")
    assert len(sockets(runtime)) == 1
    below = descendants(kernel.pid)
    kill(kernel.controller())
    assert wait_until(lambda: not any(map(alive, below)))
    assert wait_until(lambda: sockets(runtime) == set())


def test_ranks_end_with_the_notebook_server(tmp_path: Path) -> None:
    server = subprocess.Popen(["sleep", "600"])
    try:
        connection = tmp_path / "connection.json"
        ports = '"shell_port":0,"iopub_port":0,"stdin_port":0,"control_port":0,"hb_port":0'
        connection.write_text(
            f'{{"transport":"tcp","ip":"127.0.0.1",{ports},"key":"{os.urandom(8).hex()}",'
            '"signature_scheme":"hmac-sha256"}'
        )
        argv = [str(SK), "kernel", "-f", str(connection), "--ranks", "2", "--", str(STUB)]
        env = {**os.environ, "JPY_PARENT_PID": str(server.pid)}
        with subprocess.Popen(argv, env=env) as front:
            assert wait_until(lambda: len(descendants(front.pid)) == 3)
            below = descendants(front.pid)
            front.kill()
            front.wait(30)
        assert all(map(alive, below))
        server.kill()
        server.wait(30)
        assert wait_until(lambda: not any(map(alive, below)))
    finally:
        server.kill()
        server.wait(30)
