"""Hosts, and traffic between them that is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from host_program import Program  # noqa: E402
from hosts import Host, Hosts, Link  # noqa: E402
from processes import wait_until  # noqa: E402

PORT = 5000
PEERS = [sys.executable, "-B", HERE / "peers.py"]


@pytest.fixture(scope="module")
def linked() -> Iterator[Hosts]:
    """Two hosts for a whole file; see `pair`."""
    with Hosts(2, seed=20, links=Link()) as hosts:
        yield hosts


@pytest.fixture
def pair(linked: Hosts) -> Iterator[Hosts]:
    """The two, with links that do nothing to their packets yet."""
    yield linked
    linked.restore(linked[0], linked[1])
    linked.set(**vars(Link()))


@pytest.fixture
def fresh() -> Iterator[Hosts]:
    """Two hosts for one test: what TCP says late is in nobody's counts."""
    with Hosts(2, seed=21, links=Link()) as hosts:
        yield hosts


@contextmanager
def peer(host: Host, *words: object) -> Iterator[Program]:
    """A program of peers.py that is ready to take what comes; it ends with its input."""
    command = [*PEERS, *map(str, words)]
    program = host.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    try:
        yield program
    finally:
        program.kill()
        program.communicate(timeout=60)


def say(host: Host, *words: object) -> str:
    """What a program of peers.py prints that ends by itself."""
    return host.run([*PEERS, *map(str, words)]).stdout.strip()


def passed(hosts: Hosts, sender: Host, receiver: Host) -> dict[str, int]:
    """The counts of one direction, once nothing is under way in it."""
    counts: dict[str, int] = {}

    def is_settled() -> bool:
        counts.update(hosts.stats()[sender.name, receiver.name])
        ended = ("lost", "cut", "overflowed", "delivered", "refused")
        there = sum(counts[name] for name in ended)
        return there == counts["sent"] + counts["duplicated"]

    assert wait_until(is_settled), counts
    return counts


def datagrams(hosts: Hosts, count: int, address: str = "") -> tuple[list[int], dict[str, int]]:
    """Sends `count` numbered ones from the first to the second: what came, and what was counted."""
    a, b = hosts[0], hosts[1]
    before = passed(hosts, a, b)
    with peer(b, "take-datagrams", PORT) as taker:
        say(a, "send-datagrams", address or b.ip4, PORT, count)
        assert wait_until(lambda: passed(hosts, a, b)["sent"] == before["sent"] + count)
        after = passed(hosts, a, b)
        numbers = json.loads(taker.communicate(timeout=60)[0])
    return numbers, {name: after[name] - before[name] for name in after}


def stream(hosts: Hosts, size: int, address: str = "") -> tuple[str, str]:
    """Sends random bytes by TCP from the first to the second: digest and size, sent and come."""
    with peer(hosts[1], "take-stream", PORT) as taker:
        sent = say(hosts[0], "send-stream", address or hosts[1].ip4, PORT, size, 1)
        return sent, taker.communicate(timeout=60)[0].strip()
