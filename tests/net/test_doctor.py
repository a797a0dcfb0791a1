"""`sk doctor` as the ranks of several hosts: who reaches whom, and why not."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from host_program import Program
from hosts import BUILD, Host, Hosts, Link
from ranks import SECRET, as_rank

SK = BUILD / "tools" / "sk" / "sk"
LIMIT_S = 120.0

_ports = itertools.count(28400)


def start(
    places: Sequence[Host],
    *options: str,
    each: dict[int, dict[str, str]] | None = None,
    through: Sequence[str] = (),
) -> list[Program]:
    """Its ranks, one in each of `places`; `through` is a program that starts each."""
    port = next(_ports)
    ranks = []
    for rank, host in enumerate(places):
        env = as_rank(places, rank, port) | (each or {}).get(rank, {})
        command = [*through, SK, "doctor", *options]
        ranks.append(host.popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return ranks


def finish(ranks: Sequence[Program]) -> tuple[list[int | None], str, str]:
    """Their exit statuses, what rank 0 printed, and what the others said."""
    said = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
    return [rank.returncode for rank in ranks], said[0][0], "".join(err for _, err in said)


def doctor(places: Sequence[Host], *options: str, **more: Any) -> tuple[list[int | None], Any]:
    """Exit statuses, and what rank 0 printed as JSON."""
    statuses, out, err = finish(start(places, "--json", *options, **more))
    assert out, err
    return statuses, json.loads(out)


def found(said: Any, identity: str) -> list[str]:
    return [
        f"{each['state']}: {each['found']} -> {each['advice']}"
        for each in said["findings"]
        if each["id"] == identity
    ]


def test_all_ranks_of_two_hosts_reach_each_other() -> None:
    with Hosts(2) as hosts:
        a, b = hosts
        statuses, said = doctor([a, a, b, b])
    assert statuses == [0] * 4, said
    assert said["ok"]
    assert said["all_reached"]
    assert [pair["hosts"] for pair in said["pairs"]].count(["h0", "h1"]) == 4
    assert all(pair["reached"] and pair["round_trip_us"] > 0 for pair in said["pairs"])
    assert found(said, "hosts") == ["info: h0: ranks 0-1 | h1: ranks 2-3 -> "]


def test_a_network_that_a_host_is_not_in_is_named_with_its_rank() -> None:
    with Hosts(2) as hosts:
        statuses, said = doctor(list(hosts), "--timeout", "8", each={1: {"SK_NET": "10.99.0.0/16"}})
    assert statuses == [1, 1]
    [line] = found(said, "network")
    assert 'fault: rank 1 (h1): SK_NET is "10.99.0.0/16": this host has no address there' in line
    assert found(said, "differs.SK_NET")


def test_a_path_that_loses_large_packets_is_told_from_one_that_is_closed() -> None:
    with Hosts(3) as hosts:
        for host in hosts:  # Else a device carries more at once than a packet may have.
            host.run(["ip", "link", "set", "sk0", "gso_max_segs", "1"])
        # Packets to h0 come out of a wire that takes small ones only, and says nothing of others.
        hosts[0].run(["ip", "link", "set", "sk0", "mtu", "1280"])
        hosts[0].run(["ip", "route", "replace", "10.77.0.0/24", "dev", "sk0", "advmss", "1460"])
        statuses, said = doctor(list(hosts), "--timeout", "10")
    assert statuses == [1] * 3
    pairs = {tuple(pair["ranks"]): pair["reached"] for pair in said["pairs"]}
    assert pairs == {(0, 1): False, (0, 2): False, (1, 2): True}
    for line in found(said, "pair"):
        assert "rank 0 (h0)" in line
        assert "compare the MTUs on the way" in line


@pytest.mark.parametrize("facts", [0, 4000])
def test_a_path_to_rank_0_that_loses_large_packets_both_ways_keeps_no_rank_from_the_meeting(
    facts: int,
) -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.set(hosts[0], packet_bytes=1280)
        hosts.set(None, hosts[0], packet_bytes=1280)
        each = {rank: {"SK_JOB_ID": "x" * facts} for rank in range(3)} if facts else None
        statuses, said = doctor(list(hosts), "--timeout", "10", each=each)
    assert statuses == [1] * 3
    pairs = {tuple(pair["ranks"]): pair["reached"] for pair in said["pairs"]}
    assert pairs == {(0, 1): False, (0, 2): False, (1, 2): True}
    for line in found(said, "pair"):
        assert "rank 0 (h0)" in line
        assert "compare the MTUs on the way" in line, said


def test_a_pair_that_cannot_connect_is_named_with_its_addresses() -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        statuses, said = doctor(list(hosts), "--timeout", "8")
    assert statuses == [1] * 3
    pairs = {tuple(pair["ranks"]): pair["reached"] for pair in said["pairs"]}
    assert pairs == {(0, 1): True, (0, 2): True, (1, 2): False}
    [line] = found(said, "pair")
    assert "rank 1 (h1) and rank 2 (h2): " in line
    assert "10.77.0." in line
    assert "firewall" in line


def test_a_rank_that_never_comes_is_named() -> None:
    with Hosts(2) as hosts:
        a, b = hosts
        ranks = start([a, b, b], "--timeout", "4")
        ranks[2].kill()
        statuses, out, err = finish(ranks)
    assert statuses[:2] == [1, 1]
    assert "fault  meeting" in out
    assert "rank 2" in out, out + err


@pytest.mark.parametrize(
    ("variables", "sentence", "end"),
    [
        ({"SK_JOB_ID": "other"}, "rank 1 of another job came, by SK_JOB_ID", "did not come"),
        ({"WORLD_SIZE": "4"}, "rank 1 came with WORLD_SIZE 4, which is 3 here", "did not come"),
        ({"RANK": "2"}, "rank 2 (RANK) came twice, from two processes", "rank 1 did not come"),
        ({"SK_JOB_SECRET": "x" * 20}, "could not show the job's secret", "rank 1 did not come"),
        (
            {"SK_JOB_SECRET": "x" * 20, "SK_JOB_ID": "other"},
            " of another job turned away",
            "rank 1 did not come",
        ),
    ],
)
def test_whom_rank_0_refused_is_told(variables: dict[str, str], sentence: str, end: str) -> None:
    with Hosts(3) as hosts:
        statuses, said = doctor(list(hosts), "--timeout", "4", each={1: variables})
    assert statuses[0] == 1
    [line] = found(said, "meeting")
    assert sentence in line
    assert end in line
    assert "MTU" not in line
    # What rank 0 knows of itself is told all the same, and what programs ask for is there.
    assert found(said, "library")
    assert found(said, "network")
    assert [bool(each) for each in said["ranks"]] == [True, False, False]
    assert said["pairs"] == []
    assert said["all_reached"] is False


def test_rank_0_at_a_loopback_is_told_from_a_firewall() -> None:
    with Hosts(2) as hosts:
        each = {rank: {"MASTER_ADDR": "127.0.0.1"} for rank in range(2)}
        statuses, said = doctor(list(hosts), "--timeout", "3", each=each)
    assert statuses == [1, 1]
    lines = found(said, "environment")
    assert any('MASTER_ADDR is "127.0.0.1", which each host takes' in line for line in lines)


def test_a_wrong_count_of_a_hosts_ranks_is_named() -> None:
    with Hosts(2) as hosts:
        counts = {"LOCAL_WORLD_SIZE": "2", "SK_JOB_ID": "wrong count"}
        statuses, said = doctor(list(hosts), "--timeout", "3", each={0: counts, 1: counts})
    assert statuses == [1, 1]
    assert "since LOCAL_WORLD_SIZE is 2" in found(said, "meeting")[0]


def test_what_was_seen_before_the_meeting_ended_is_told() -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        ranks = start(list(hosts), "--json", "--timeout", "8", each={0: {"SK_LOG": "info"}})
        said = ranks[0].stderr
        assert said is not None
        # Ranks 1 and 2 are the first pair; when rank 0 has its own, the outcome of theirs is told.
        assert any("no communicator came about" in line for line in said)
        assert any(" comm: " in line for line in said)
        hosts.cut(hosts[2])
        statuses, out, err = finish(ranks)
    assert statuses[:2] == [1, 1]
    told = json.loads(out)
    assert "rank 2" in found(told, "meeting")[-1], err
    [line] = found(told, "communicator")
    assert "no way from rank" in line
    tried = {tuple(pair["ranks"]): pair["tried"] for pair in told["pairs"]}
    assert tried[1, 2]
    assert not all(tried.values())


@pytest.mark.parametrize("tls", ["0", "1"])
def test_encryption_that_differs_is_a_fault(tls: str) -> None:
    with Hosts(2) as hosts:
        other = {"0": "1", "1": "0"}[tls]
        each = {0: {"SK_NET_TLS": tls}, 1: {"SK_NET_TLS": other}}
        statuses, said = doctor(list(hosts), "--timeout", "8", each=each)
    assert statuses == [1, 1]
    [line] = found(said, "differs.SK_NET_TLS")
    assert line.startswith(f"fault: {tls}: rank 0 | {other}: rank 1 -> ")


WITH_SECRET = f"""
import fcntl, os, sys
fd = os.memfd_create("secret", os.MFD_ALLOW_SEALING)
os.write(fd, b"abc\\x00{SECRET}")  # What a variable would end at.
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
os.set_inheritable(fd, True)
info = os.fstat(fd)
os.environ["SK_JOB_SECRET_FD"] = f"{{fd}}:{{info.st_dev}}:{{info.st_ino}}"
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_secret_may_have_any_bytes() -> None:
    with Hosts(2) as hosts:
        statuses, said = doctor(list(hosts), through=[sys.executable, "-c", WITH_SECRET])
    assert statuses == [0, 0], said
    assert said["all_reached"]


def limited(descriptors: int, which: str = "") -> list[str]:
    return ["sh", "-c", f'ulimit {which} -n {descriptors}; exec "$@"', "sh"]


@pytest.mark.parametrize("per_host", [1, 4])
def test_the_descriptors_that_the_page_asks_for_are_enough(per_host: int) -> None:
    with Hosts(3) as hosts:
        places = [host for host in hosts for _ in range(per_host)]
        others = len(places) - per_host
        enough = 16 + 2 * per_host + 3 * others + len(places)
        statuses, said = doctor(places, through=limited(enough))
        assert statuses == [0] * len(places), said
        assert not found(said, "descriptors")
        said = doctor(places, through=limited(enough - 1))[1]
        assert f"{enough} with this meeting" in found(said, "descriptors")[0]
        statuses, said = doctor(places, through=limited(enough - 1, "-S"))
        assert statuses == [0] * len(places), said
        assert not found(said, "descriptors")  # It is raised as far as needed.


def test_pairs_that_all_pass_where_all_at_once_do_not_point_at_limits() -> None:
    with Hosts(3) as hosts:
        places = [host for host in hosts for _ in range(4)]
        statuses, said = doctor(places, "--timeout", "8", through=limited(28))
    assert statuses == [1] * 12
    [line] = found(said, "communicator")
    assert "descriptor" in line or "Too many open files" in line
    assert "look at the limits of that rank's host" in line
    assert said["all_reached"]


def test_ranks_that_look_at_ports_are_not_in_each_others_way() -> None:
    with Hosts(2) as hosts:
        a, b = hosts
        ports = {rank: {"SK_PORT_RANGE": "28900-28903"} for rank in range(8)}
        for _ in range(4):
            statuses, said = doctor([a, a, a, a, b, b, b, b], each=ports)
            assert statuses == [0] * 8, said
            assert not found(said, "ports")


def test_the_slowest_pair_and_the_addresses_are_named() -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.set(hosts[1], hosts[2], rate_kbit=100_000)
        hosts.set(hosts[2], hosts[1], rate_kbit=100_000)
        statuses, said = doctor(list(hosts))
    assert statuses == [0] * 3, said
    assert said["slowest"]["ranks"] == [1, 2]
    assert said["slowest"]["addresses"] == ["10.77.0.2", "10.77.0.3"]
    assert "rank 1 (h1) and rank 2 (h2): 1 MiB at 0.0" in found(said, "slowest")[0]
    assert "3 pairs are joined over IPv4 and 0 over IPv6" in found(said, "paths")[0]


def test_the_family_that_was_taken_is_told() -> None:
    with Hosts(2) as hosts:
        net = {rank: {"SK_NET": "fd77::/16"} for rank in range(2)}
        said = doctor(list(hosts), each=net)[1]
    assert "0 pairs are joined over IPv4 and 1 over IPv6" in found(said, "paths")[0]
    assert said["pairs"][0]["addresses"] == ["[fd77::1]", "[fd77::2]"]


def test_hosts_of_one_name_are_told_apart() -> None:
    with Hosts(2) as hosts:
        for host in hosts:
            host.run(["sh", "-c", "echo vm > /proc/sys/kernel/hostname"])
        said = doctor(list(hosts))[1]
    assert found(said, "hosts") == ["info: vm of rank 0: rank 0 | vm of rank 1: rank 1 -> "]
