"""Ranks of several hosts of which only some are connected from the start, others when they first
need it."""

from __future__ import annotations

import re
import time

import pytest
from hosts import Host, Hosts, Link
from ranks import MANY, Ranks
from test_ranks import flood

BOUND_S = 20.0  # What is awaited takes a second; a machine may be slow.
LINK_BOUND_S = 30.0  # Silence is waited for.
PATIENCE_S = 15.0  # Of a shrink's 60 s, for a host to be reached again.
LOCAL = 3
ALL = 100  # More than the ranks here.
LATE = {"SK_NET_EAGER_RANKS": 0}


def each(hosts: Hosts, local: int = LOCAL) -> list[Host]:
    return [host for host in hosts for _ in range(local)]


def many(hosts: Hosts, **options: object) -> Ranks:
    """Ranks that sum without end."""
    options = {**LATE, "SK_PROBE_COUNT_MAX": 4099, "SK_PROBE_ROUNDS": MANY, **options}
    return Ranks(each(hosts), **options).begin()  # type: ignore[arg-type]


def used(ranks: Ranks) -> list[tuple[int, int]]:
    """Descriptors and KiB of memory of its own, of each rank."""
    lines = [" ".join(rank.lines) for rank in ranks]
    found = [re.search(r"used: (\d+) descriptors, (\d+) KiB", line) for line in lines]
    assert all(found), lines
    return [(int(each[1]), int(each[2])) for each in found if each]


@pytest.mark.parametrize("tls", [0, 1])
def test_every_operation_runs(tls: int) -> None:
    with Hosts(4) as hosts:
        ranks = Ranks(each(hosts), **LATE, SK_NET_TLS=tls, SK_PROBE_ALL=ALL)
        assert ranks.said() == ["SK_OK"] * 12


def test_hosts_of_other_sizes_whose_ranks_take_turns() -> None:
    with Hosts(3) as hosts:
        places = [hosts[number] for number in (0, 1, 2, 0, 1, 0, 0, 2, 0)]
        assert Ranks(places, **LATE, SK_PROBE_ALL=ALL).said() == ["SK_OK"] * 9


def test_every_operation_runs_over_links_that_harm_packets() -> None:
    link = Link(loss=0.01, duplicate=0.01, reorder=0.01, jitter_us=500)
    with Hosts(3, seed=33, links=link) as hosts:
        ranks = Ranks(each(hosts, 2), **LATE, SK_PROBE_ALL=ALL, SK_PROBE_COUNT_MAX=4099)
        assert ranks.said() == ["SK_OK"] * 6


def test_ranks_have_descriptors_for_whom_they_have_talked_to() -> None:
    with Hosts(4) as hosts:
        counts = []
        for options in (LATE, {**LATE, "SK_PROBE_BEHIND": 4}, {}):
            ranks = Ranks(each(hosts), SK_PROBE_ROUNDS=0, SK_PROBE_USED=1, **options)
            assert ranks.said() == ["SK_OK"] * 12
            counts.append([number for number, _ in used(ranks)])
        print("descriptors:", *counts, sep="\n  ")
        # Of nine streams three are there; late ones take two listeners and an epoll beside.
        for few, some, whole in zip(*counts, strict=True):
            assert few + 3 <= whole
            assert few <= some <= few + 4  # Two, that both sides may dial.


def test_the_threshold_is_agreed_on() -> None:
    with Hosts(2) as hosts:
        for said in Ranks(list(hosts), each={1: LATE}).said():
            assert said.startswith("SK_ERR_INVALID_ARGUMENT: ")
            assert "SK_NET_EAGER_RANKS is 32 on rank 0 and 0 on rank 1" in said


@pytest.mark.parametrize("victim", [0, 1, 7])
def test_a_killed_rank_is_named_by_all_others(victim: int) -> None:
    with Hosts(4) as hosts:
        ranks = many(hosts)
        ranks[victim].program.kill()
        start = time.monotonic()
        for said in ranks.said(victim, within=BOUND_S):
            assert said.startswith("SK_ERR_PEER_LOST: ")
            assert f"rank {victim} died" in said
        print(f"all had said so after {time.monotonic() - start:.2f} s")


def test_a_rank_whose_child_lives_on_is_seen_to_die() -> None:
    with Hosts(4) as hosts:
        ranks = many(hosts, SK_PROBE_FORK=1)
        ranks[5].program.kill()
        for said in ranks.said(5, within=BOUND_S):
            assert "rank 5 died" in said


def test_strangers_do_not_keep_ranks_from_connecting() -> None:
    """Some hundreds at the ports of ranks that are connected to some, to others later."""
    with Hosts(2) as hosts:
        options = {**LATE, "SK_PORT_RANGE": "30800-30802", "SK_PROBE_ALL": ALL}
        options |= {"SK_PROBE_ROUNDS": 2000, "SK_PROBE_COUNT_MAX": 1}
        ranks = Ranks(each(hosts), **options).begin()  # type: ignore[arg-type]
        ranks[2].stop()
        flood(hosts[0], hosts[1].ip4, 30800, 30802, 150)
        ranks[2].go_on()
        assert ranks.said() == ["SK_OK"] * 6


def test_those_that_are_left_go_on() -> None:
    with Hosts(4) as hosts:
        ranks = many(hosts, SK_PROBE_SHRINK=1)
        for victim in (4, 9):
            ranks[victim].program.kill()
        assert ranks.said(4, 9, within=LINK_BOUND_S) == ["SK_OK"] * 10


def test_of_two_hosts_that_are_cut_off_from_each_other_one_goes_whole() -> None:
    """Though most of their ranks have had no stream to each other that could be lost."""
    with Hosts(3, links=Link()) as hosts:
        ranks = many(hosts, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        hosts.cut(hosts[1], hosts[2])
        said = ranks.said(within=LINK_BOUND_S + PATIENCE_S)
        assert said[:6] == ["SK_OK"] * 6
        for sentence in said[6:]:
            assert "the others go on without rank" in sentence


@pytest.mark.parametrize("tls", [0, 1])
def test_all_dial_all_at_once(tls: int) -> None:
    """Each tells each what it has called, once one has called something else."""
    with Hosts(4) as hosts:
        one = {5: {"SK_PROBE_COUNT_MAX": 1, "SK_PROBE_ROUNDS": 2}}
        options = {"SK_PROBE_COUNT_MAX": 4099, "SK_PROBE_ROUNDS": 1, "SK_NET_TLS": tls}
        ranks = Ranks(each(hosts, 16), each=one, **options)  # type: ignore[arg-type]
        for said in ranks.said():
            assert said.startswith("SK_ERR_DESYNC: rank 5 called allreduce(f32, sum, 1) while the")


def test_a_rank_that_frees_its_communicator_is_no_dead_one() -> None:
    with Hosts(4) as hosts:
        one = {5: {"SK_PROBE_ROUNDS": 20}}
        ranks = Ranks(each(hosts), each=one, **LATE, SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=1)
        for number, said in enumerate(ranks.said(within=60)):
            assert said == "SK_OK" if number == 5 else "rank 5 has freed the communicator" in said


def test_a_collective_and_a_message_that_wait_for_each_other_are_found() -> None:
    """Rank 7 waits for a message of rank 2, to which it has no stream before."""
    with Hosts(4) as hosts:
        one = {7: {"SK_PROBE_ROUNDS": 4, "SK_PROBE_BEHIND": 5}}
        ranks = Ranks(each(hosts), each=one, **LATE, SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=1)
        for said in ranks.said(within=BOUND_S):
            assert "rank 2 called allreduce(f32, sum, 1)" in said
            assert "rank 7 called send_recv(f32, 33, 2 to 7)" in said


@pytest.mark.parametrize("late", [1, 5])
def test_who_is_late_is_named(late: int) -> None:
    """By ranks of which most have no stream to it, and though it has one to few."""
    with Hosts(4) as hosts:
        one = {late: {"SK_PROBE_ROUNDS": 4, "SK_PROBE_END": "idle"}}
        options = {"SK_PROBE_ROUNDS": MANY, "SK_PROBE_COUNT_MAX": 1, "SK_PROBE_TIMEOUT_MS": 4000}
        ranks = Ranks(each(hosts), each=one, **LATE, **options)  # type: ignore[arg-type]
        for number, said in enumerate(ranks.said(within=LINK_BOUND_S)):
            if number != late:
                assert "SK_ERR_TIMEOUT" in said
                assert re.search(rf" s for rank {late}\b|waits for rank {late}\b", said)


def test_a_stopped_rank_is_waited_for_and_named() -> None:
    """It answers nobody, and its host does for it."""
    with Hosts(4) as hosts:
        ranks = many(hosts, SK_PROBE_TIMEOUT_MS=8000)
        ranks[5].stop()
        all_said = ranks.said(5, within=LINK_BOUND_S)
        ranks[5].go_on()
        assert all("SK_ERR_TIMEOUT" in said for said in all_said)
        # Where it had entered, some wait for others that do; those may have given up already.
        named = [re.search(r" s for rank 5\b|waits for rank 5\b", said) for said in all_said]
        assert sum(match is not None for match in named) > len(all_said) / 2


def test_a_cut_off_host_is_a_lost_connection() -> None:
    with Hosts(4, links=Link()) as hosts:
        ranks = many(hosts)
        start = time.monotonic()
        hosts.cut(hosts[1])
        for said in ranks.said(within=LINK_BOUND_S):
            assert said.startswith("SK_ERR_TRANSPORT: ")
            assert "died" not in said
        print(f"all had said so after {time.monotonic() - start:.2f} s")


def test_want_of_descriptors_ends_it_for_all_with_a_sentence() -> None:
    with Hosts(4) as hosts:
        one = {1: {"ULIMIT": "-n 24"}}
        ranks = Ranks(each(hosts, 6), each=one, **LATE, SK_PROBE_COUNT_MAX=1, SK_PROBE_ALL=ALL)
        for said in ranks.said(within=LINK_BOUND_S):
            assert said.startswith("SK_ERR_ABORTED: "), said
            assert "rank 1 cannot connect to rank" in said
            assert "of at most 24 descriptors are open" in said


@pytest.mark.parametrize("tls", [0, 1])
def test_256_ranks_of_four_hosts(tls: int) -> None:
    """Of each the descriptors are few, and the memory grows by little with their number."""
    with Hosts(4) as hosts:
        options = {"SK_NET_TLS": tls, "SK_PROBE_COUNT_MAX": 4099, "SK_PROBE_ROUNDS": 1}
        options |= {"SK_PROBE_USED": 1, "SK_PROBE_BEHIND": 65, "SK_WORKERS": 1}
        options |= {"SK_PROBE_TIMEOUT_MS": 300_000, "SK_PROBE_ALL": 1}
        ranks = Ranks(each(hosts, 64), **options)  # type: ignore[arg-type]
        assert ranks.said(within=300) == ["SK_OK"] * 256
        found = sorted(used(ranks))
        print("descriptors and KiB:", found[0], found[128], found[255])
        assert max(number for number, _ in found) <= 120
