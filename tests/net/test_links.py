"""Emulated links, seen from the hosts at their ends: packets are counted, nothing is timed."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from conftest import PORT, datagrams, passed, peer, say, stream
from hosts import EMULATOR, Host, Hosts, Link
from processes import alive, descendants, wait_until

COUNT = 2000


def is_likely(found: int, count: int, share: float) -> bool:
    """Within six standard deviations, which chance leaves once in 500 million times."""
    return abs(found - count * share) <= 6 * math.sqrt(count * share * (1 - share))


def command_of(pid: int) -> str:
    """With a zero byte behind each word."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def checksum_errors(host: Host, protocol: str) -> int:
    """Packets that the host's kernel has dropped because of their checksum, IPv4's."""
    names, values = re.findall(
        rf"^{protocol}: (.*)$", host.run(["cat", "/proc/net/snmp"]).stdout, re.M
    )
    return int(dict(zip(names.split(), values.split(), strict=True))["InCsumErrors"])


def test_an_unharmed_link_delivers_all_in_order(pair: Hosts) -> None:
    for address in (pair[1].ip4, pair[1].ip6):
        numbers, counts = datagrams(pair, COUNT, address)
        assert numbers == list(range(COUNT))
        assert counts["sent"] == counts["delivered"] == COUNT


def test_loss_takes_its_share_and_no_more(pair: Hosts) -> None:
    pair.set(pair[0], pair[1], one_way=True, loss=0.2)
    numbers, counts = datagrams(pair, COUNT)
    assert len(numbers) == counts["delivered"] == COUNT - counts["lost"]
    assert is_likely(counts["lost"], COUNT, 0.2), counts
    assert numbers == sorted(set(numbers))
    assert passed(pair, pair[1], pair[0])["lost"] == 0


def test_the_same_seed_loses_the_same_packets() -> None:
    runs = []
    for seed in (5, 5, 6):
        with Hosts(2, seed=seed, links=Link(loss=0.1, duplicate=0.1)) as hosts:
            runs.append(datagrams(hosts, COUNT)[0])
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_copies_and_late_ones_are_those_that_are_counted(pair: Hosts) -> None:
    pair.set(duplicate=0.1, jitter_us=300)
    numbers, counts = datagrams(pair, COUNT)
    assert numbers == sorted(numbers)
    assert sum(each - 1 for each in Counter(numbers).values()) == counts["duplicated"]
    assert is_likely(counts["duplicated"], COUNT, 0.1)
    pair.set(duplicate=0, jitter_us=0, reorder=0.05, reorder_us=20_000)
    numbers, counts = datagrams(pair, COUNT)
    assert sorted(numbers) == list(range(COUNT))
    overtaken = sum(1 for a, b in zip(numbers, numbers[1:], strict=False) if b < a)
    assert 0 < overtaken <= counts["late"]
    assert is_likely(counts["late"], COUNT, 0.05)


def test_a_delay_holds_packets_and_a_cut_loses_them(pair: Hosts) -> None:
    a, b = pair
    pair.set(a, b, one_way=True, delay_us=60_000_000)
    before = passed(pair, a, b)

    def under_way() -> int:
        now = pair.stats()[a.name, b.name]
        return now["sent"] - before["sent"] - (now["delivered"] - before["delivered"])

    say(a, "send-datagrams", b.ip4, PORT, 10)
    assert wait_until(lambda: under_way() == 10)
    pair.cut(a, b)
    counts = passed(pair, a, b)
    assert counts["cut"] - before["cut"] == 10
    assert counts["delivered"] == before["delivered"]


def test_an_answer_takes_at_least_both_delays(pair: Hosts) -> None:
    with peer(pair[1], "answer", PORT):
        pair.set(pair[0], pair[1], one_way=True, delay_us=30_000)
        pair.set(pair[1], pair[0], one_way=True, delay_us=20_000)
        assert float(say(pair[0], "ask", pair[1].ip4, PORT)) >= 0.05
        assert float(say(pair[0], "ask", pair[1].ip6, PORT)) >= 0.05


@pytest.mark.parametrize("one_way", [True, False])
def test_a_cut_ends_what_it_says_until_it_is_restored(pair: Hosts, one_way: bool) -> None:
    a, b = pair
    pair.cut(a, b, one_way=one_way)
    numbers, counts = datagrams(pair, 50)
    assert numbers == []
    assert counts["cut"] == 50
    before = passed(pair, b, a)
    with peer(a, "take-datagrams", PORT):  # Else that host would say that nobody listens.
        say(b, "send-datagrams", a.ip4, PORT, 50)
        assert wait_until(lambda: pair.stats()[b.name, a.name]["sent"] >= before["sent"] + 50)
        after = passed(pair, b, a)
    assert after["cut"] - before["cut"] == (0 if one_way else 50)
    pair.restore(a, b, one_way=one_way)
    assert datagrams(pair, 50)[0] == list(range(50))


def test_tcp_hides_all_faults_that_its_checksum_sees(fresh: Hosts) -> None:
    seen = checksum_errors(fresh[1], "Tcp")
    fresh.set(loss=0.02, duplicate=0.02, reorder=0.02, corrupt=0.02, delay_us=100, jitter_us=100)
    sent, came = stream(fresh, 2_000_000)
    assert came == sent
    counts = fresh.stats()[fresh[0].name, fresh[1].name]
    assert min(counts[name] for name in ("lost", "duplicated", "late", "corrupted")) > 0
    assert checksum_errors(fresh[1], "Tcp") > seen


def test_an_unseen_bit_reaches_the_program(fresh: Hosts) -> None:
    for address in (fresh[1].ip4, fresh[1].ip6):
        seen = checksum_errors(fresh[1], "Tcp")
        fresh.set(fresh[0], fresh[1], one_way=True, corrupt_unseen=0.1)
        sent, came = stream(fresh, 2_000_000, address)
        assert sent.split()[1] == came.split()[1] == "2000000"
        assert sent.split()[0] != came.split()[0]
        assert checksum_errors(fresh[1], "Tcp") == seen


def test_a_flipped_bit_of_a_datagram_is_dropped_and_an_unseen_one_is_not(pair: Hosts) -> None:
    pair.set(pair[0], pair[1], one_way=True, corrupt=1)
    numbers, counts = datagrams(pair, 100)
    assert numbers == []
    assert counts["corrupted"] == counts["delivered"] == 100
    pair.set(pair[0], pair[1], one_way=True, corrupt=0, corrupt_unseen=1)
    numbers, counts = datagrams(pair, 100)
    assert len(numbers) == counts["corrupted_unseen"] == 100
    assert all((a ^ b).bit_count() == 1 for a, b in enumerate(numbers))


def test_one_of_three_is_isolated_and_the_others_go_on() -> None:
    with Hosts(3, seed=9, links=Link()) as hosts:
        lost, *rest = hosts
        hosts.cut(lost)
        for receiver in rest:
            with peer(receiver, "answer", PORT):
                say(rest[0], "ask", receiver.ip6, PORT)
                say(lost, "send-datagrams", receiver.ip4, PORT, 5)
            assert wait_until(lambda to=receiver: passed(hosts, lost, to)["cut"] == 5)
        assert passed(hosts, lost, rest[0])["delivered"] == 0
        hosts.restore(lost)
        with peer(rest[0], "answer", PORT):
            say(lost, "ask", rest[0].ip4, PORT)


def test_what_a_link_cannot_do_is_refused_with_a_sentence(pair: Hosts) -> None:
    with pytest.raises(ValueError, match=r'loss is "1.5"; it is a share of packets, 0 to 1'):
        pair.set(loss=1.5)
    with pytest.raises(ValueError, match='there is no setting "speed"'):
        pair.set(speed=1)
    with Hosts(2) as bridged, pytest.raises(ValueError, match="give Hosts links="):
        bridged.cut(bridged[0], bridged[1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["1"], "usage: sk_link_emulator SEED NAME=NETNS=ADDRESS"),
        (["one", "a", "b"], 'SEED is "one"; it is a whole number'),
        (["1", "a=/proc/self/ns/net", "b"], '"a=/proc/self/ns/net" is not NAME=NETNS=ADDRESS'),
        (["1", "a=/proc/self/ns/net=10.0.0", "b"], '"10.0.0" is no address'),
        (["1", "a=/proc/self/ns/net=::1,::1", "b"], "two hosts have the address ::1"),
        (["1", "a=/proc/self/ns/nut=::1", "b"], "/proc/self/ns/nut: No such file or directory"),
        (["1", "a=/dev/null=::1", "b"], "/dev/null: setns: Invalid argument"),
    ],
)
def test_the_emulator_says_what_its_arguments_lack(arguments: list[str], sentence: str) -> None:
    done = subprocess.run([EMULATOR, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert done.stdout == ""


def test_an_emulator_that_died_says_so() -> None:
    others = set(descendants(os.getpid()))
    with Hosts(2, links=Link()) as hosts:
        mine = [pid for pid in descendants(os.getpid()) if pid not in others]
        mine = [pid for pid in mine if f"{EMULATOR}\0" in command_of(pid)]
        assert len(mine) == 2  # Itself, and nsenter.
        for pid in mine:
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not any(alive(pid) for pid in mine))
        with pytest.raises(RuntimeError, match="has ended; it said:"):
            hosts.stats()
