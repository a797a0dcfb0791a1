"""What ranks of several hosts send each other, counted at the hosts' network devices."""

from __future__ import annotations

import pytest
from hosts import Host, Hosts
from ranks import Ranks

NUMBERS = (1, 4099, 1 << 20)  # Of a round of comm_probe.
ROUNDS = 6


def sent(host: Host) -> int:
    """Bytes, with the headers of all packets."""
    return int(host.run(["cat", "/sys/class/net/sk0/statistics/tx_bytes"]).stdout)


def sent_by_rounds(hosts: Hosts, places: list[Host], rounds: int) -> list[int]:
    before = [sent(host) for host in hosts]
    ranks = Ranks(places, SK_NET_TLS=0, SK_PROBE_ROUNDS=rounds)
    assert ranks.said() == ["SK_OK"] * len(places)
    for rank in ranks:  # What they send while they end is counted, too.
        rank.program.wait(60)
    return [sent(host) - start for host, start in zip(hosts, before, strict=True)]


@pytest.mark.parametrize("sizes", [[1, 1], [2, 2], [2, 2, 2, 2], [3, 1]])
def test_no_host_sends_a_tenth_more_than_sums_need(sizes: list[int]) -> None:
    with Hosts(len(sizes)) as hosts:
        places = [host for host, size in zip(hosts, sizes, strict=True) for _ in range(size)]
        few = sent_by_rounds(hosts, places, 1)
        many = sent_by_rounds(hosts, places, 1 + ROUNDS)
    # Meeting and parting cost the same in both.
    each = [(b - a) / ROUNDS for a, b in zip(few, many, strict=True)]
    least = 2 * (len(sizes) - 1) / len(sizes) * 4 * sum(NUMBERS)
    print(f"{sizes}: bytes of a round {[round(b) for b in each]}, least {least:.0f}")
    assert max(each) <= 1.1 * least
    assert max(each) >= 0.95 * least
