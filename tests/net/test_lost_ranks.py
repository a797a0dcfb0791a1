"""Ranks of several hosts of which one dies, stops, leaves or can be reached no more."""

from __future__ import annotations

import signal
import time

import pytest
from hosts import Host, Hosts, Link
from processes import wait_until
from ranks import MANY, SMALL, Rank, Ranks

BOUND_S = 20.0  # What is awaited takes a second; a machine may be slow.
LINK_BOUND_S = 30.0  # Silence is waited for.
PATIENCE_S = 15.0  # Of a shrink's 60 s, for a host to be reached again.


def pairs(hosts: Hosts) -> list[Host]:
    """Two ranks of each host."""
    return [host for host in hosts for _ in range(2)]


def many(hosts: Hosts, **options: object) -> Ranks:
    """Ranks that sum without end, two of each host."""
    return Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, **options).begin()  # type: ignore[arg-type]


@pytest.mark.parametrize("victim", [0, 3])
@pytest.mark.parametrize("count_max", [1, 1 << 20])
def test_a_killed_rank_is_named_by_all_others(victim: int, count_max: int) -> None:
    with Hosts(2) as hosts:
        ranks = many(hosts, SK_PROBE_COUNT_MAX=count_max)
        ranks[victim].program.kill()
        for said in ranks.said(victim, within=BOUND_S):
            assert said.startswith("SK_ERR_PEER_LOST: ")
            assert f"rank {victim} died" in said


@pytest.mark.parametrize("victims", [[3], [1], [2, 3]])
def test_those_that_are_left_go_on(victims: list[int]) -> None:
    with Hosts(2) as hosts:
        ranks = many(hosts, SK_PROBE_SHRINK=1)
        for victim in victims:
            ranks[victim].program.kill()
        left = [number for number in range(4) if number not in victims]
        assert ranks.said(*victims, within=LINK_BOUND_S) == ["SK_OK"] * len(left)
        for number, rank in enumerate(left):
            assert f"left: rank {number} of {len(left)}" in ranks[rank].lines


def test_one_that_left_is_not_waited_for() -> None:
    with Hosts(2) as hosts:
        each = {2: {"SK_PROBE_ROUNDS": 20}}
        ranks = Ranks(pairs(hosts), each=each, SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1)
        assert ranks.said(within=60) == ["SK_OK"] * 4
        assert "left: rank 2 of 3" in ranks[3].lines


def test_ranks_of_several_hosts_cannot_go_on_without_rank_0() -> None:
    with Hosts(2) as hosts:
        ranks = many(hosts, SK_PROBE_SHRINK=1)
        ranks[0].program.kill()
        for said in ranks.said(0, within=BOUND_S):
            assert said.startswith("SK_ERR_UNSUPPORTED: rank 0 is gone")
            assert "MASTER_ADDR" in said


def test_a_rank_whose_child_lives_on_is_seen_to_die() -> None:
    with Hosts(2) as hosts:
        ranks = many(hosts, SK_PROBE_FORK=1)
        ranks[2].program.kill()
        for said in ranks.said(2, within=BOUND_S):
            assert "rank 2 died" in said


def test_a_rank_that_ends_without_freeing_is_seen_to_die() -> None:
    with Hosts(2) as hosts:
        each = {1: {"SK_PROBE_ROUNDS": 20, "SK_PROBE_END": "exit"}}
        ranks = Ranks(pairs(hosts), each=each, SK_PROBE_ROUNDS=MANY)
        for number, said in enumerate(ranks.said(within=60)):
            assert said == "SK_OK" if number == 1 else "rank 1 died" in said


def test_a_rank_that_frees_its_communicator_is_no_dead_one() -> None:
    with Hosts(2) as hosts:
        ranks = Ranks(pairs(hosts), each={2: {"SK_PROBE_ROUNDS": 20}}, SK_PROBE_ROUNDS=MANY)
        for number, said in enumerate(ranks.said(within=60)):
            assert said == "SK_OK" if number == 2 else "rank 2 has freed the communicator" in said


def test_all_ranks_of_a_host_die() -> None:
    with Hosts(3) as hosts:
        ranks = many(hosts)
        for victim in (4, 5):
            ranks[victim].program.kill()
        for said in ranks.said(4, 5, within=BOUND_S):
            assert "rank 4 died" in said or "rank 5 died" in said


@pytest.mark.parametrize("count_max", [1, 1 << 20])
@pytest.mark.parametrize("link", [Link(), Link(delay_us=30_000, loss=0.02)], ids=["near", "far"])
def test_a_stopped_rank_is_waited_for(link: Link, count_max: int) -> None:
    """Its host answers for it."""
    with Hosts(2, links=link) as hosts:
        ranks = many(hosts, SK_PROBE_COUNT_MAX=count_max)
        ranks[3].stop()
        silent_s = 6 if link == Link() else 16
        time.sleep(silent_s)  # tidy: allow sleep: it is the time that counts
        ranks[3].go_on()
        time.sleep(1)  # tidy: allow sleep: nothing may come of it
        assert [rank.said for rank in ranks] == [""] * 4
        ranks[3].program.kill()
        for said in ranks.said(3, within=BOUND_S):
            assert "rank 3 died" in said


def test_the_log_says_for_whom_a_call_waits() -> None:
    """After 30 s, of one that has stopped coming and lives, on both hosts and once."""
    with Hosts(2) as hosts:
        idle = {3: {"SK_PROBE_ROUNDS": 20, "SK_PROBE_END": "idle"}}
        ranks = Ranks(pairs(hosts), each=idle, SK_PROBE_ROUNDS=MANY, SK_LOG="warn")
        for number, rank in enumerate(ranks[:3]):
            words = f"rank {number} of 4: waits for rank 3 in allreduce(f32, sum, 1) for 3"
            told = [""]

            def has_told(rank: Rank = rank, told: list[str] = told) -> bool:
                told[:] = [line for line in rank.lines if "waits for" in line]
                return told != []

            assert wait_until(has_told, LINK_BOUND_S + 30), rank.lines
            assert len(told) == 1
            assert " warn comm: " in told[0]
            assert words in told[0]
            assert told[0].endswith(" s more")
        assert [rank.said for rank in ranks[:3]] == [""] * 3


def lost(said: str, own: list[int], others: list[int]) -> bool:
    """Whether a rank says that a connection between two sides was lost, and of nobody's death."""
    names = [f"rank {a} to rank {b} at " for a in own for b in others]
    names += [f"rank {b} to rank {a} at " for a in own for b in others]
    names += [f"the connection to rank {rank} " for rank in (*own, *others)]
    is_named = any(name in said for name in names)
    return said.startswith("SK_ERR_TRANSPORT: ") and is_named and "died" not in said


@pytest.mark.parametrize("count_max", [1, SMALL, 1 << 20])
def test_a_cut_is_a_lost_connection_on_both_sides(count_max: int) -> None:
    with Hosts(2, links=Link()) as hosts:
        ranks = many(hosts, SK_PROBE_COUNT_MAX=count_max)
        hosts.cut(hosts[0], hosts[1])
        for said in ranks.said(within=LINK_BOUND_S):
            assert lost(said, [0, 1], [2, 3])


@pytest.mark.parametrize("count_max", [1, SMALL, 1 << 20])
@pytest.mark.parametrize("sender", [0, 1])
def test_a_cut_of_one_direction_is_a_lost_connection_on_both_sides(
    sender: int, count_max: int
) -> None:
    with Hosts(2, links=Link()) as hosts:
        ranks = many(hosts, SK_PROBE_COUNT_MAX=count_max)
        hosts.cut(hosts[sender], hosts[1 - sender], one_way=True)
        for said in ranks.said(within=LINK_BOUND_S):
            assert lost(said, [0, 1], [2, 3])


def test_a_cut_off_host_is_told_of_by_the_others() -> None:
    with Hosts(3, links=Link()) as hosts:
        ranks = many(hosts)
        hosts.cut(hosts[1])
        for said in ranks.said(within=LINK_BOUND_S):
            assert lost(said, [2, 3], [0, 1, 4, 5])


def test_a_short_cut_is_got_over() -> None:
    with Hosts(2, links=Link()) as hosts:
        ranks = many(hosts)
        for _ in range(3):
            hosts.cut(hosts[0], hosts[1])
            time.sleep(0.7)  # tidy: allow sleep: it is the time that counts
            hosts.restore(hosts[0], hosts[1])
            time.sleep(0.7)  # tidy: allow sleep: nothing may come of it
        assert [rank.said for rank in ranks] == [""] * 4


@pytest.mark.parametrize("victim", [0, 2])
def test_a_host_that_is_reached_again_goes_on_with_the_others(victim: int) -> None:
    """A lost connection is no death: those that are left wait for it a while."""
    with Hosts(3, links=Link()) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        ranks.begin()
        hosts.cut(hosts[victim])
        time.sleep(7)  # tidy: allow sleep: it is the time that counts
        hosts.restore(hosts[victim])
        assert ranks.said(within=LINK_BOUND_S) == ["SK_OK"] * 3
        assert [rank.lines[-2] for rank in ranks] == [f"left: rank {i} of 3" for i in range(3)]


@pytest.mark.parametrize("one_way", [False, True])
def test_of_two_hosts_that_do_not_reach_each_other_one_goes(one_way: bool) -> None:
    """Both reach rank 0's: two of the three go on, and the third hears why it does not."""
    with Hosts(3, links=Link()) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        ranks.begin()
        hosts.cut(hosts[1], hosts[2], one_way=one_way)
        said = ranks.said(within=LINK_BOUND_S + PATIENCE_S)
        assert said[:2] == ["SK_OK"] * 2
        assert [rank.lines[-2] for rank in ranks[:2]] == [f"left: rank {i} of 2" for i in range(2)]
        assert said[2].startswith("SK_ERR_TRANSPORT: ")
        assert "rank 2 does not reach rank 1 any more, nor that it" in said[2]


def test_an_address_that_every_host_has_ends_no_meeting() -> None:
    """As that of docker0: who dials another's meets its own host, which refuses at once."""
    with Hosts(3, links=Link()) as hosts:
        for host in hosts:
            host.run(["ip", "link", "add", "name", "same0", "type", "bridge"])
            host.run(["ip", "addr", "add", "172.17.0.1/16", "dev", "same0"])
            host.run(["ip", "link", "set", "same0", "up"])
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        ranks.begin()
        hosts.cut(hosts[1], hosts[2])
        said = ranks.said(within=LINK_BOUND_S + PATIENCE_S)
        assert said[:2] == ["SK_OK"] * 2
        assert "rank 2 does not reach rank 1 any more" in said[2]


def test_links_that_fail_one_after_the_other_cost_one_host() -> None:
    with Hosts(4, links=Link()) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        ranks.begin()
        hosts.cut(hosts[1], hosts[2])
        time.sleep(0.4)  # tidy: allow sleep: it is the time that counts
        hosts.cut(hosts[1], hosts[3])
        said = ranks.said(within=LINK_BOUND_S + PATIENCE_S)
        assert [said[rank] for rank in (0, 2, 3)] == ["SK_OK"] * 3
        assert "does not reach rank" in said[1]


def test_of_two_hosts_of_several_ranks_one_goes_whole() -> None:
    with Hosts(3, links=Link()) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_SHRINK=1, SK_PROBE_COUNT_MAX=1)
        ranks.begin()
        hosts.cut(hosts[1], hosts[2])
        said = ranks.said(within=LINK_BOUND_S + PATIENCE_S)
        assert said[:4] == ["SK_OK"] * 4
        for sentence in said[4:]:
            assert "the others go on without rank" in sentence


def test_a_longer_cut_is_got_over_where_it_may_be_longer() -> None:
    with Hosts(2, links=Link()) as hosts:
        ranks = many(hosts, SK_NET_SILENCE_S=30)
        hosts.cut(hosts[0], hosts[1])
        time.sleep(8)  # tidy: allow sleep: it is the time that counts
        hosts.restore(hosts[0], hosts[1])
        time.sleep(8)  # tidy: allow sleep: kernels send what was lost again after as long
        assert [rank.said for rank in ranks] == [""] * 4
        ranks[3].program.kill()
        for said in ranks.said(3, within=LINK_BOUND_S):
            assert "rank 3 died" in said


@pytest.mark.parametrize("text", ["1", "601", "4s", "-4"])
def test_a_wrong_silence_is_refused_on_all_ranks(text: str) -> None:
    with Hosts(2) as hosts:
        for said in Ranks(list(hosts), SK_NET_SILENCE_S=text).said(within=BOUND_S):
            assert said.startswith("SK_ERR_INVALID_ARGUMENT: ")
            assert f'SK_NET_SILENCE_S is "{text}": it must be whole seconds from 2 to 600' in said


def listens(host: Host, port: int) -> bool:
    return f":{port:04X} " in host.run(["cat", "/proc/net/tcp"]).stdout


def test_a_cut_while_hosts_meet_is_said_when_the_time_has_run_out() -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        ranks = Ranks(list(hosts), SK_PROBE_TIMEOUT_MS=6000)
        for said in ranks.said(within=BOUND_S):
            assert said.startswith("SK_ERR_TRANSPORT: ")
            assert "no way from rank" in said
            assert "10.77.0." in said


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_while_hosts_meet_is_not_waited_for(victim: int) -> None:
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        ranks = Ranks(list(hosts), SK_PORT_RANGE="30700-30700")
        assert wait_until(lambda: listens(hosts[1], 30700) and listens(hosts[2], 30700))
        ranks[victim].program.send_signal(signal.SIGKILL)
        hosts.restore(hosts[1], hosts[2])
        for said in ranks.said(victim, within=BOUND_S):
            assert f"rank {victim}" in said
            assert not said.startswith(("SK_OK", "SK_ERR_TIMEOUT"))
