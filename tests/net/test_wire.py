"""What somebody on the wire between two hosts sees of what ranks tell each other."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest
from hosts import Host, Hosts
from processes import wait_until
from ranks import SECRET, Ranks

# All packets of sk0, as a file of pcap (tcpdump and Wireshark read it) to the standard output.
LISTENER = """
import socket, struct, sys, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))  # ETH_P_ALL
wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
wire.bind(("sk0", 0))
out = sys.stdout.buffer
out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
out.flush()
while True:
    packet = wire.recv(1 << 18)
    now = time.time()
    out.write(struct.pack("<IIII", int(now), int(now % 1 * 1e6), len(packet), len(packet)))
    out.write(packet)
    out.flush()
"""
HEADER, RECORD = 24, 16

# What the probe's ranks send are whole numbers as f32, each one more than the one before.
NUMBERS = struct.pack("<8f", *range(201, 209))


def packets(capture: Path) -> list[bytes]:
    """What was captured, the last one only if it is whole."""
    data = capture.read_bytes()
    found, at = [], HEADER
    while at + RECORD <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        at += RECORD
        found.append(data[at : at + length])
        at += length
    return found


def listen(host: Host, capture: Path) -> None:
    """Returns when it has begun; ends with the hosts."""
    with capture.open("wb") as out:
        host.popen([sys.executable, "-c", LISTENER], stdout=out)
    assert wait_until(lambda: capture.stat().st_size >= HEADER)


@pytest.mark.parametrize("tls", [1, 0])
def test_numbers_are_seen_on_the_wire_only_where_that_was_asked_for(
    tls: int, tmp_path: Path
) -> None:
    """By the same eye in both cases: what sees nothing within TLS sees all without."""
    capture = Path(os.environ.get("SK_CAPTURE", tmp_path)) / f"tls-{tls}.pcap"
    with Hosts(2) as hosts:
        listen(hosts[0], capture)
        ranks = Ranks(list(hosts), SK_NET_TLS=tls, SK_PROBE_COUNT_MAX=4099, SK_PROBE_ROUNDS=40)
        assert ranks.said() == ["SK_OK"] * 2
    seen = packets(capture)
    assert sum(map(len, seen)) > 10 * 4099 * 4  # The sums did cross here.
    assert any(NUMBERS in packet for packet in seen) == (tls == 0)
    # Nor the secret, in either case: not as it is given, nor as bytes.
    for form in (SECRET.encode(), bytes.fromhex(SECRET)):
        assert not any(form in packet for packet in seen)
