"""Ranks that end in every way, at any moment, among many signals: others hear, nothing stays."""

from __future__ import annotations

import random
import time

import pytest
from hosts import BUILD, Host, Hosts
from processes import wait_until
from ranks import MANY, SEED, SMALL, Ranks

BOUND_S = 20.0  # What is awaited takes a second; a machine may be slow.
LIMIT_S = 120.0
SK = BUILD / "tools" / "sk" / "sk"
RECORDS = "superkernel-0"  # Flight records of the user who runs the tests, root.
RECORDS_MAX = 256


def pairs(hosts: Hosts) -> list[Host]:
    return [host for host in hosts for _ in range(2)]


# What others may say of the rank that ended: it had left, or it is gone.
ENDS = {
    "exit": "rank 3 died",
    "_exit": "rank 3 died",
    "quick_exit": "rank 3 died",
    "thread": "rank 3 died",
    "atexit": "rank 3 has freed the communicator",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_rank_ends_in_any_way_and_the_others_hear(end: str) -> None:
    with Hosts(2) as hosts:
        each = {3: {"SK_PROBE_ROUNDS": 20, "SK_PROBE_END": end}}
        ranks = Ranks(pairs(hosts), each=each, SK_PROBE_ROUNDS=MANY)
        for said in ranks.said(3, within=LIMIT_S):
            assert ENDS[end] in said
        assert ranks[3].said == "SK_OK"
        assert ranks[3].program.wait(BOUND_S) == 0
        assert ("freed" in ranks[3].lines) == (end == "atexit")
        assert [rank.program.wait(BOUND_S) for rank in ranks[:3]] == [0, 0, 0]


@pytest.mark.parametrize("period_us", [1000, 150])
def test_signals_that_come_all_the_time_change_nothing(period_us: int) -> None:
    """While ranks meet, sum over shared memory and streams, and part."""
    with Hosts(2) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=20, SK_PROBE_ALARM_US=period_us)
        assert ranks.said() == ["SK_OK"] * 4
        counts = [int(line.split()[1]) for rank in ranks for line in rank.lines[-2:-1]]
        print(f"seen: {min(counts)} to {max(counts)} signals a rank")
        assert min(counts) > 20
        assert [rank.program.wait(BOUND_S) for rank in ranks] == [0] * 4


@pytest.mark.parametrize("count_max", [1, 1 << 20])
def test_a_death_is_told_through_a_storm_of_signals(count_max: int) -> None:
    """And no SIGPIPE ends those that still send to the dead one."""
    with Hosts(2) as hosts:
        ranks = Ranks(
            pairs(hosts),
            SK_PROBE_ROUNDS=MANY,
            SK_PROBE_COUNT_MAX=count_max,
            SK_PROBE_ALARM_US=1000,
        ).begin()
        ranks[2].program.kill()
        for said in ranks.said(2, within=BOUND_S):
            assert "rank 2 died" in said
        assert [rank.program.wait(BOUND_S) for rank in ranks if rank is not ranks[2]] == [0] * 3


def left(host: Host) -> list[str]:
    """What a host still has of ranks: names of sockets and files, and processes."""
    sockets = host.run(["cat", "/proc/net/unix"]).stdout.splitlines()[1:]
    found = [" ".join(line.split()[7:]) for line in sockets if len(line.split()) > 7]
    files = host.run(["find", "/dev/shm", "/tmp", "-mindepth", "1", "-maxdepth", "1"]).stdout
    names = [name.rsplit("/", 1)[1] for name in files.splitlines()]
    return found + [name for name in names if name != RECORDS]


def records(host: Host) -> list[str]:
    inside = ["-path", f"/dev/shm/{RECORDS}/*"]  # Where there is no such folder: none.
    return host.run(["find", "/dev/shm", *inside, "-printf", "%f\n"]).stdout.split()


def test_ranks_that_are_killed_leave_nothing_but_their_records() -> None:
    """At any moment of meeting, summing and parting; records are few, and go when asked to."""
    rounds, draw = 12, random.Random(SEED)
    print(f"SK_TEST_SEED={SEED}")
    with Hosts(2) as hosts:
        before = [left(host) for host in hosts]
        for _ in range(rounds):
            ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=SMALL)
            if draw.random() < 0.7:
                ranks.begin()
            time.sleep(draw.random() * 0.2)  # tidy: allow sleep: any moment is the point
            for rank in ranks:
                rank.program.kill()
            for rank in ranks:
                rank.program.wait(BOUND_S)
        assert wait_until(lambda: [left(host) for host in hosts] == before), list(map(left, hosts))
        kept = [len(records(host)) for host in hosts]
        print(f"seen: {rounds * 4} killed; {sum(kept)} records, nothing else")
        assert max(kept) <= RECORDS_MAX
        for host in hosts:
            host.run([SK, "status", "--forget"])
            assert records(host) == []
