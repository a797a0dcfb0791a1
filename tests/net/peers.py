"""Programs that the tests run in hosts: one sends, the other says as JSON what has come.

usage: peers.py send-datagrams ADDRESS PORT COUNT     numbered from 0
       peers.py take-datagrams PORT                   "ready", then at its input's end the numbers
       peers.py send-stream ADDRESS PORT BYTES SEED   "DIGEST BYTES"
       peers.py take-stream PORT                      "ready", then "DIGEST BYTES"
       peers.py answer PORT                           "ready", then sends each datagram back
       peers.py ask ADDRESS PORT                      seconds until the answer
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import sys
import time
from collections.abc import Callable

LIMIT_S = 60.0
SO_RCVBUFFORCE = 33  # Python has no name for it.
BUFFER_BYTES = 64 << 20


def _say(text: str) -> None:
    print(text, flush=True)


def _datagrams(port: int = 0, family: int = socket.AF_INET6) -> socket.socket:
    """Of both families, as a socket of IPv6 is, with room for all that a test sends."""
    taken = socket.socket(family, socket.SOCK_DGRAM)
    taken.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    taken.settimeout(LIMIT_S)
    if port:
        taken.bind(("::", port))
    return taken


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def send_datagrams(address: str, port: str, count: str) -> None:
    """Does not wait for anything to arrive."""
    with _datagrams(family=_family(address)) as out:
        for number in range(int(count)):
            out.sendto(number.to_bytes(4, "little"), (address, int(port)))


def take_datagrams(port: str) -> None:
    """What is in the socket when the input ends is all that is told."""
    with _datagrams(int(port)) as taken:
        _say("ready")
        sys.stdin.read()
        numbers = []
        taken.setblocking(False)
        try:
            while True:
                numbers.append(int.from_bytes(taken.recv(16), "little"))
        except BlockingIOError:
            _say(json.dumps(numbers))


def send_stream(address: str, port: str, size: str, seed: str) -> None:
    """Random bytes over TCP."""
    data = random.Random(int(seed)).randbytes(int(size))
    with socket.create_connection((address, int(port)), LIMIT_S) as out:
        out.sendall(data)
    _say(f"{hashlib.sha256(data).hexdigest()} {len(data)}")


def take_stream(port: str) -> None:
    """Of the first who connects."""
    with socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True) as at:
        at.settimeout(LIMIT_S)
        _say("ready")
        connection, _ = at.accept()
    digest, size = hashlib.sha256(), 0
    connection.settimeout(LIMIT_S)
    with connection:
        while part := connection.recv(1 << 16):
            digest.update(part)
            size += len(part)
    _say(f"{digest.hexdigest()} {size}")


def answer(port: str) -> None:
    """Until it is ended, or nobody has asked for long."""
    with _datagrams(int(port)) as taken:
        _say("ready")
        while True:
            data, sender = taken.recvfrom(16)
            taken.sendto(data, sender)


def ask(address: str, port: str) -> None:
    """One question; of the answers to earlier ones none counts."""
    with _datagrams(family=_family(address)) as out:
        start = time.monotonic()
        out.sendto(b"?", (address, int(port)))
        out.recv(16)
        _say(str(time.monotonic() - start))


PROGRAMS: dict[str, Callable[..., None]] = {
    "send-datagrams": send_datagrams,
    "take-datagrams": take_datagrams,
    "send-stream": send_stream,
    "take-stream": take_stream,
    "answer": answer,
    "ask": ask,
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
