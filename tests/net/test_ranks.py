"""Ranks of libsk on several hosts: today they meet, and are refused with a sentence."""

from __future__ import annotations

import subprocess

from hosts import BUILD, ENV, Host, Hosts, Link

PROBE = BUILD / "tests" / "net" / "comm_probe"


def said(places: list[Host], master: str, secret: str = "0123456789abcdef") -> list[str]:
    """What each rank prints, rank by rank, when all make one communicator."""
    ranks = []
    for rank, host in enumerate(places):
        env = {**ENV, "RANK": str(rank), "WORLD_SIZE": str(len(places)), "MASTER_ADDR": master}
        env |= {"MASTER_PORT": "29400", "SK_JOB_SECRET": secret, "SK_BOOTSTRAP": "env"}
        env |= {"LOCAL_WORLD_SIZE": str(places.count(host))}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": env}
        ranks.append(host.popen([PROBE], **options))
    return [rank.communicate(timeout=120)[0].strip() for rank in ranks]


def test_ranks_of_one_host_are_one_world() -> None:
    with Hosts(2) as hosts:
        assert said([hosts[1], hosts[1]], hosts[1].ip4) == ["SK_OK", "SK_OK"]


def test_ranks_of_two_hosts_meet_and_are_refused() -> None:
    refusal = "shared memory reaches ranks of one host only; rank 1 is on another than rank 0"
    with Hosts(2, links=Link()) as hosts:
        for master in (hosts[0].ip4, hosts[0].ip6, hosts[0].name):
            for each in said(list(hosts), master):
                assert each.startswith("SK_ERR_UNSUPPORTED: ")
                assert refusal in each
        assert hosts.stats()["h1", "h0"]["delivered"] > 0
