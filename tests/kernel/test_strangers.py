"""Other users of this machine at a kernel's sockets, and files that would let them in."""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import stranger
import zmq
from conftest import SK, STUB, TIMEOUT, Gate, Kernel, StartKernel, descendants, wait_until
from jupyter_client.connect import write_connection_file

CHANNELS = ("shell", "control", "stdin", "iopub", "hb")


def refused(path: Path, *options: str) -> str:
    """What `sk kernel` says of a connection file that it does not take."""
    command = [SK, "kernel", "-f", path, "--ranks", "1", *options, "--", STUB]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 2, done.stderr
    return done.stderr


def connection_file(folder: Path, **fields: Any) -> Path:
    path = folder / "connection.json"
    write_connection_file(str(path), key=b"k")
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return path


@pytest.mark.parametrize("key", ["", None])
def test_a_file_without_a_key_is_refused(tmp_path: Path, key: str | None) -> None:
    error = refused(connection_file(tmp_path, key=key))
    assert "has an empty key" in error and "Session.key" in error


@pytest.mark.parametrize("ip", ["0.0.0.0", "*", "::", "[::]", "0", "0x0", "::0", "0.0"])
def test_every_address_is_refused_unless_asked_for(tmp_path: Path, ip: str) -> None:
    error = refused(connection_file(tmp_path, ip=ip))
    assert f'has ip "{ip}", every address of this host' in error and "--any-address" in error


def test_every_address_when_asked_for(tmp_path: Path) -> None:
    path = connection_file(tmp_path, ip="0.0.0.0")
    command = [SK, "kernel", "-f", path, "--ranks", "1", "--any-address", "--", STUB]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    port = json.loads(path.read_text())["shell_port"]

    def listens() -> bool:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        return any(line.split()[1:4:2] == [f"00000000:{port:04X}", "0A"] for line in lines)

    try:
        assert wait_until(listens)
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


def test_a_client_keeps_its_replies(kernel: Kernel, gate: Gate) -> None:
    """Another that says it is that client gets none of them."""
    sent = kernel.start(gate.wait)
    identity = kernel.client.session.bsession
    port = kernel.manager.shell_port
    context = zmq.Context()
    thief = context.socket(zmq.DEALER)
    thief.linger = 0
    thief.identity = identity
    monitor = thief.get_monitor_socket()
    thief.connect(f"tcp://127.0.0.1:{port}")
    seen = 0
    while not seen & zmq.EVENT_HANDSHAKE_SUCCEEDED:
        assert monitor.poll(TIMEOUT * 1000)
        seen |= int.from_bytes(monitor.recv_multipart()[0][:2], "little")
    gate.open()
    assert kernel.finish(sent).reply["status"] == "ok"
    assert not thief.poll(0)
    thief.disable_monitor()
    context.destroy(linger=0)


OVERSIZED = """
import socket, struct, sys
# ZMTP 3.0: a greeting, READY, and the head of a long frame.
kind = {"iopub": b"SUB", "hb": b"DEALER"}.get(sys.argv[2], b"DEALER")
bytes_wanted = 1 << 20 if sys.argv[2] in ("iopub", "hb") else 1 << 30
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30) as peer:
    peer.sendall(b"\\xff" + bytes(8) + b"\\x7f\\x03\\x00NULL" + bytes(16) + bytes(32))
    left = 64
    while left:
        left -= len(peer.recv(left))
    ready = b"\\x05READY\\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    peer.sendall(b"\\x04" + bytes([len(ready)]) + ready)
    while len(peer.recv(2)) == 0:
        pass
    peer.sendall(b"\\x02" + struct.pack(">Q", bytes_wanted))
    peer.settimeout(10)
    try:
        while peer.recv(4096):
            peer.sendall(b"x" * 65536)
        print("cut off")
    except TimeoutError:
        print("kept waiting for")
    except ConnectionError:
        print("cut off")
"""


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_oversized_frame_is_cut_off(kernel: Kernel, channel: str) -> None:
    port = getattr(kernel.manager, f"{channel}_port")
    assert stranger.run(OVERSIZED, port, channel) == "cut off\n"
    assert kernel.run("print on").text() == "on\n"


def test_idle_connections_keep_no_client_out(start_kernel: StartKernel) -> None:
    """More than the kernel may have descriptors, before it asks the system for more."""
    kernel = start_kernel(1, wrapper=["prlimit", "--nofile=256:4096"])
    assert kernel.run("print first").text() == "first\n"
    context = zmq.Context()
    context.max_sockets = 1000
    idle = [context.socket(zmq.DEALER) for _ in range(600)]
    for each in idle:
        each.connect(f"tcp://127.0.0.1:{kernel.manager.shell_port}")
    descriptors = Path(f"/proc/{kernel.pid}/fd")
    assert wait_until(lambda: len(list(descriptors.iterdir())) > len(idle))
    late = kernel.manager.blocking_client()
    late.start_channels()
    try:
        assert late.kernel_info(reply=True, timeout=TIMEOUT)["content"]["status"] == "ok"
    finally:
        late.stop_channels()
    # What the ranks start may use select(): they have as many as they had.
    limits = Path(f"/proc/{kernel.ranks()[0]}/limits").read_text()
    assert re.search(r"Max open files +256 +4096", limits), limits
    context.destroy(linger=0)


def test_a_flood_of_unsigned_messages_holds_no_cell_up(kernel: Kernel) -> None:
    context = zmq.Context()
    thief = context.socket(zmq.DEALER)
    thief.linger = 0
    thief.sndhwm = 0
    thief.connect(f"tcp://127.0.0.1:{kernel.manager.shell_port}")
    for _ in range(20_000):
        thief.send_multipart([b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"])
    assert kernel.run("print on").text() == "on\n"
    context.destroy(linger=0)


def test_a_message_of_endless_parts_is_none(kernel: Kernel) -> None:
    context = zmq.Context()
    thief = context.socket(zmq.DEALER)
    thief.linger = 0
    thief.connect(f"tcp://127.0.0.1:{kernel.manager.shell_port}")
    thief.send_multipart([b"<IDS|MSG>"] + [b"{}"] * 5000)
    assert kernel.run("print on").text() == "on\n"
    context.destroy(linger=0)


def test_the_names_of_unix_sockets_are_ours_alone(tmp_path: Path) -> None:
    path = connection_file(tmp_path, transport="ipc", ip=str(tmp_path / "k"))
    command = [SK, "kernel", "-f", path, "--ranks", "1", "--", STUB]
    mask = os.umask(0)  # As careless as can be.
    try:
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
    finally:
        os.umask(mask)
    info = json.loads(path.read_text())
    sockets = [tmp_path / f"k-{info[f'{each}_port']}" for each in CHANNELS]
    try:
        assert wait_until(lambda: all(each.exists() for each in sockets))
        modes = {stat.S_IMODE(each.stat().st_mode) & 0o077 for each in sockets}
        assert modes == {0}
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


READ = """
import os, sys
for pid in sys.argv[1:]:
    for name in ("environ", "mem", "maps", "fd"):
        try:
            path = f"/proc/{pid}/{name}"
            os.listdir(path) if name == "fd" else open(path, "rb").read(1)
            print("read", path)
        except PermissionError:
            pass
    print(open(f"/proc/{pid}/cmdline").read())
"""


def test_a_stranger_reads_no_secret(kernel: Kernel) -> None:
    kernel.run("print on")
    pid = kernel.manager.provisioner.process.pid
    pids = [pid, *descendants(pid)]
    assert len(pids) >= 4  # The front end, the controller, two ranks.
    seen = stranger.run(READ, *pids)
    assert "read /proc" not in seen
    key = kernel.client.session.key.decode()
    token = hmac.new(key.encode(), b"superkernel session: token", "sha256").hexdigest()
    assert key not in seen and token not in seen


LEAKS = """
import os, subprocess, sys
names = [each for each in os.environ if "SECRET" in each or each in ("SK_WORKER_FD",)]
shown = subprocess.run(["sh", "-c", "env; ls -l /proc/self/fd"], close_fds=False,
                       capture_output=True, text=True).stdout
own = open("/proc/self/environ").read()
names += [each for each in ("SECRET=a", "nobody else") if each in own]
marks = ("SK_JOB_SECRET", "sk-job-secret", "nobody else")
found = names + [line for line in shown.splitlines() if any(mark in line for mark in marks)]
print(rank, os.system("env | grep -q SECRET") == 0, found)
"""


@pytest.mark.parametrize("template", ["0", "1"])
def test_no_secret_reaches_what_a_cell_starts(start_kernel: StartKernel, template: str) -> None:
    secret = "a secret that nobody else may see"
    python = [sys.executable, "-m", "libsk.kernel"]
    env = {"SK_TEMPLATE": template, "SK_JOB_SECRET": secret}
    kernel = start_kernel(2, python, env)
    assert kernel.run(LEAKS).text() == "[0] 0 False []\n[1] 1 False []\n"
    kernel.run("x = comm.allreduce(rank + 1)")  # It has been of use, and is still in none's sight.
    assert kernel.run("int(x)").of("execute_result")[0]["data"]["text/plain"] == "3"
    assert kernel.run(LEAKS).text() == "[0] 0 False []\n[1] 1 False []\n"


def test_no_secret_reaches_what_a_program_starts(tmp_path: Path) -> None:
    """Under `sk run`, from the first communicator on."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, subprocess, libsk as sk\n"
        "comm = sk.Comm()\n"
        "shown = subprocess.run('env; ls -l /proc/self/fd', shell=True, close_fds=False,\n"
        "                       capture_output=True, text=True, env={**os.environ}).stdout\n"
        "told = [word in shown for word in ('SK_JOB_SECRET', 'sk-job-secret', 'nobody else')]\n"
        "print(f'{told}\\n', end='')\n"  # One write, whatever Python buffers: two ranks share it.
    )
    command = [SK, "run", "-n", "2", "--", sys.executable, program]
    env = {**os.environ, "SK_JOB_SECRET": "a secret that nobody else may see"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=env)
    assert done.stdout == "[False, False, False]\n" * 2, done.stderr
