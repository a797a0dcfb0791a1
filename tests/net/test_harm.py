"""Links that harm what they carry, and readers that do not read: no wrong sum, no false death, no
memory without end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hosts import Host, Hosts, Link
from ranks import MANY, SEED, SMALL, Rank, Ranks

BOUND_S = 30.0  # What is awaited takes some seconds; a machine may be slow.
LOSSY_S = 15  # More than three times what a host may be silent.


def pairs(hosts: Hosts) -> list[Host]:
    return [host for host in hosts for _ in range(2)]


@pytest.mark.parametrize("count_max", [1, SMALL])
def test_a_link_that_loses_five_packets_of_a_hundred_costs_nobody(count_max: int) -> None:
    """However often a packet is lost again, whoever is there is not said to be gone."""
    print(f"SK_TEST_SEED={SEED}")
    with Hosts(2, seed=SEED, links=Link(loss=0.05, delay_us=500)) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=count_max).begin()
        time.sleep(LOSSY_S)  # tidy: allow sleep: it is the time that counts
        assert [rank.said for rank in ranks] == [""] * 4
        assert hosts.stats()["h0", "h1"]["lost"] > 0
        ranks[3].program.kill()
        for said in ranks.said(3, within=BOUND_S):
            assert "rank 3 died" in said


def test_a_bit_that_no_checksum_of_the_network_sees_ends_the_connection() -> None:
    """And no sum is wrong: what was changed is not believed."""
    print(f"SK_TEST_SEED={SEED}")
    with Hosts(2, seed=SEED, links=Link()) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY).begin()
        hosts.set(corrupt_unseen=0.2)
        at = time.monotonic()
        for said in ranks.said(within=BOUND_S):
            assert said.startswith("SK_ERR_TRANSPORT: "), said
            assert "died" not in said
        took = max(rank.last_at for rank in ranks) - at
        print(f"seen: said after {took:.1f} s")
        counts = hosts.stats()
        changed = [counts[way]["corrupted_unseen"] for way in (("h0", "h1"), ("h1", "h0"))]
        assert sum(changed) > 0


def memory_kib(rank: Rank) -> int:
    """What it has in memory, the part that others see among it."""
    lines = Path(f"/proc/{rank.program.program_pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_a_reader_that_does_not_read_costs_no_memory_without_end() -> None:
    """Neither do those that come behind it: what waits for it is bounded."""
    with Hosts(3) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY).begin()
        ranks[2].stop()
        time.sleep(1)  # tidy: allow sleep: what may be under way is, then
        before = [memory_kib(rank) for rank in ranks[:2]]
        time.sleep(4)  # tidy: allow sleep: it is the time that counts
        after = [memory_kib(rank) for rank in ranks[:2]]
        print(f"seen: {before} KiB before, {after} KiB after")
        assert all(b <= a + 1024 for a, b in zip(before, after, strict=True))
        ranks[2].go_on()
        time.sleep(1)  # tidy: allow sleep: nothing may come of it
        assert [rank.said for rank in ranks] == [""] * 3


def test_a_link_that_takes_few_megabits_a_second_is_slow_and_no_fault() -> None:
    """Calls of more than it carries in the seconds that a host may be silent."""
    with Hosts(2, links=Link(rate_kbit=4000)) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=2, SK_NET_TLS=0)
        assert ranks.said() == ["SK_OK"] * 2
