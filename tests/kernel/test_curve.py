"""CURVE where the client asks for it: the wire is encrypted, and a wrong key gets nothing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from conftest import SK, STUB, TIMEOUT, wait_until
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file


def start(path: Path) -> subprocess.Popen[bytes]:
    """`sk kernel` on a connection file, with one stub rank."""
    command = [SK, "kernel", "-f", path, "--ranks", "1", "--", STUB]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Path]:
    """The connection file of a running kernel that has a key pair."""
    if not zmq.has("curve"):
        pytest.skip("this pyzmq has no CURVE")
    public, secret = zmq.curve_keypair()
    path = tmp_path / "connection.json"
    write_connection_file(str(path), key=b"k", curve_publickey=public, curve_secretkey=secret)
    kernel = start(path)
    yield path
    kernel.terminate()
    kernel.communicate(timeout=TIMEOUT)


def test_an_encrypted_cell(connection: Path) -> None:
    client = BlockingKernelClient()
    client.load_connection_file(str(connection))
    client.start_channels()
    try:
        client.wait_for_ready(timeout=TIMEOUT)
        reply = client.execute("print x", reply=True, timeout=TIMEOUT)
        assert reply["content"]["status"] == "ok"
        # It may have missed the first beat, when the kernel was still coming up.
        assert wait_until(client.hb_channel.is_beating)
    finally:
        client.stop_channels()


@pytest.mark.parametrize("key", ["none", "another"])
def test_a_wrong_key_gets_nothing(connection: Path, key: str) -> None:
    info = json.loads(connection.read_text())
    test_an_encrypted_cell(connection)  # The kernel is up: silence is no matter of time.
    context = zmq.Context()
    for name in ("shell", "control", "hb", "stdin", "iopub"):
        socket = context.socket(zmq.SUB if name == "iopub" else zmq.DEALER)
        socket.linger = 0
        monitor = socket.get_monitor_socket()
        if key == "another":
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.curve_serverkey = zmq.curve_keypair()[0]
        socket.connect(f"tcp://127.0.0.1:{info[f'{name}_port']}")
        failures = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        failures |= zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED
        seen = 0
        while not seen & failures:
            assert monitor.poll(TIMEOUT * 1000), f"{name}: neither connected nor refused"
            seen |= int.from_bytes(monitor.recv_multipart()[0][:2], "little")
            assert not seen & zmq.EVENT_HANDSHAKE_SUCCEEDED, name
        socket.disable_monitor()
        socket.close()
    context.destroy(linger=0)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"curve_publickey": "x" * 40}, "needs both"),
        ({"curve_publickey": "x", "curve_secretkey": "y"}, "Z85 keys have 40"),
    ],
)
def test_bad_keys_have_a_sentence(tmp_path: Path, fields: dict[str, str], word: str) -> None:
    path = tmp_path / "connection.json"
    write_connection_file(str(path), key=b"k")
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    kernel = start(path)
    _, error = kernel.communicate(timeout=TIMEOUT)
    assert kernel.returncode == 2 and word in error.decode()
