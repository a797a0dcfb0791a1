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
from hosts import BUILD, ENV, Host, Hosts, Link
from ranks import SECRET

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
        env = {
            **ENV,
            "SK_BOOTSTRAP": "env",
            "SK_JOB_SECRET": SECRET,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(places)),
            "LOCAL_WORLD_SIZE": str(list(places).count(host)),
            "MASTER_ADDR": places[0].ip4,
            "MASTER_PORT": str(port),
            **(each or {}).get(rank, {}),
        }
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
