"""Hosts that come back with their address and know of no connection, and jobs started again."""

from __future__ import annotations

import time

import pytest
from hosts import Host, Hosts
from processes import wait_until
from ranks import MANY, Rank, Ranks, as_rank

BOUND_S = 30.0  # What is awaited takes some seconds; a machine may be slow.
LIMIT_S = 120.0
RESTART = "TORCHELASTIC_RESTART_COUNT"


def power_off(host: Host) -> str:
    """Without a word to anybody, though its processes have not heard yet: its network's address."""
    mac = host.run(["cat", "/sys/class/net/sk0/address"]).stdout.strip()
    host.run(["ip", "link", "delete", "sk0"])
    return mac


def take_over(host: Host, gone: Host, mac: str) -> None:
    """`host` is `gone` from now on: a kernel that has its addresses and none of its sockets."""
    host.run(["ip", "address", "flush", "dev", "sk0"])
    host.run(["ip", "link", "set", "sk0", "address", mac])
    host.run(["ip", "address", "add", f"{gone.ip4}/24", "dev", "sk0"])
    host.run(["ip", "address", "add", f"{gone.ip6}/64", "dev", "sk0", "nodad"])


@pytest.mark.parametrize("count_max", [1, 1 << 20])
@pytest.mark.parametrize("off_s", [0, 10], ids=["at once", "later"])
def test_a_host_that_was_rebooted_is_missed(off_s: int, count_max: int) -> None:
    with Hosts(3) as hosts:
        stays, goes, comes = hosts
        ranks = Ranks(
            [stays, stays, goes], SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=count_max
        ).begin()
        at = time.monotonic()
        mac = power_off(goes)
        if off_s == 0:
            take_over(comes, goes, mac)
        for said in ranks.said(2, within=BOUND_S):
            if off_s == 0:  # Its kernel knows of no such connection: what had it is gone.
                assert said.startswith("SK_ERR_PEER_LOST: ")
                assert "rank 2 died" in said
            else:
                assert said.startswith("SK_ERR_TRANSPORT: ")
                assert "died" not in said
        took = max(rank.last_at for rank in ranks[:2]) - at
        print(f"seen: said after {took:.1f} s")
        if off_s != 0:
            take_over(comes, goes, mac)
        # The job's next life has a rank at the same address, and the port of before.
        again = [stays, stays, comes]
        second = next_life(again, ranks.master_port, {"MASTER_ADDR": stays.ip4})
        assert [rank.said for rank in second] == ["SK_OK"] * 3


def next_life(places: list[Host], port: int, more: dict[str, str]) -> list[Rank]:
    """The ranks of a job that was started again, when all have spoken."""
    more = {RESTART: "1", **more}
    ranks = [
        Rank(place, as_rank(places, number, port) | more) for number, place in enumerate(places)
    ]
    assert wait_until(lambda: all(rank.said for rank in ranks), LIMIT_S)
    return ranks


def test_a_rank_of_the_life_before_is_none_of_the_next() -> None:
    """It was stopped while it looked for rank 0, and wakes when rank 0 of the next one listens."""
    with Hosts(2) as hosts:
        places, port = list(hosts), 29290
        env = [as_rank(places, number, port) for number in range(2)]
        old = Rank(places[1], env[1] | {RESTART: "0", "SK_PROBE_TIMEOUT_MS": "20000"})
        assert wait_until(lambda: looks_for(places[1], places[0]) or old.said != "", LIMIT_S)
        old.stop()
        first = Rank(places[0], env[0] | {RESTART: "1", "SK_LOG": "info"})
        assert wait_until(lambda: listens(places[0], port), LIMIT_S)
        old.go_on()
        assert wait_until(lambda: spoke_to(places[0], port) or old.said != "", LIMIT_S)
        time.sleep(1)  # tidy: allow sleep: nothing may come of it
        assert first.said == ""
        second = Rank(places[1], env[1] | {RESTART: "1"})
        assert wait_until(lambda: bool(first.said and second.said), LIMIT_S), first.lines
        assert [first.said, second.said] == ["SK_OK"] * 2
        assert wait_until(lambda: old.said != "", LIMIT_S)
        print(f"seen: the old one: {old.said[:60]}")
        assert not old.said.startswith("SK_OK")


def test_a_rank_that_slept_through_its_jobs_end_is_none_of_the_next() -> None:
    """It was in a call when it was stopped; the next life meets and sums beside it."""
    with Hosts(2) as hosts:
        timeout = {"SK_PROBE_TIMEOUT_MS": 3000}
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY, **{RESTART: 0}, **timeout).begin()
        ranks[1].stop()
        assert ranks.said(1, within=BOUND_S)[0].startswith("SK_ERR_TIMEOUT: ")
        ranks[1].go_on()
        second = next_life(list(hosts), ranks.master_port, {})
        assert [rank.said for rank in second] == ["SK_OK"] * 2
        assert not ranks.said(within=BOUND_S)[1].startswith("SK_OK")


def _sockets(host: Host) -> list[list[str]]:
    return [line.split() for line in host.run(["cat", "/proc/net/tcp"]).stdout.splitlines()[1:]]


def listens(host: Host, port: int) -> bool:
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in _sockets(host))


def spoke_to(host: Host, port: int) -> bool:
    """Whether somebody has a connection to it, or had a moment ago."""
    return any(words[1].endswith(f":{port:04X}") and words[3] != "0A" for words in _sockets(host))


def looks_for(host: Host, other: Host) -> bool:
    """Whether its kernel has met the other host's: only who is dialled is asked for."""
    return f"{other.ip4} " in host.run(["ip", "neighbour"]).stdout
