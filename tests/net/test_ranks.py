"""Ranks of libsk on several hosts sum numbers, whatever the links between them do."""

from __future__ import annotations

import re
import subprocess

import pytest
from hosts import Host, Hosts, Link
from processes import wait_until
from ranks import LIMIT_S, MANY, SEED, SMALL, Rank, Ranks, as_rank

# Names of a socket's states in /proc/net/tcp.
LISTEN, ESTABLISHED = "0A", "01"


def sockets(host: Host, state: str) -> list[tuple[str, int]]:
    """Addresses (as the kernel prints them) and ports of the host's sockets of TCP."""
    found = []
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in host.run(["cat", file]).stdout.splitlines()[1:]:
            words = line.split()
            if words[3] == state:
                address, port = words[1].split(":")
                found.append((address, int(port, 16)))
    return found


def test_ranks_of_one_host_are_one_world() -> None:
    with Hosts(2) as hosts:
        assert Ranks([hosts[1], hosts[1]]).said() == ["SK_OK"] * 2


@pytest.mark.parametrize("by", ["ip4", "ip6", "name"])
def test_ranks_of_two_hosts_are_one_world(by: str) -> None:
    with Hosts(2, links=Link()) as hosts:
        assert Ranks(list(hosts), master=getattr(hosts[0], by)).said() == ["SK_OK"] * 2
        assert hosts.stats()["h1", "h0"]["delivered"] > 0


def test_bridges_that_join_nothing_hide_no_address() -> None:
    """Eight of IPv4 come before the one that works, and no more than eight are told."""
    with Hosts(2) as hosts:
        for host in hosts:
            host.run(["ip", "addr", "del", f"{host.ip4}/24", "dev", "sk0"])
            for number in range(8):
                name = f"same{number}"
                host.run(["ip", "link", "add", "name", name, "type", "bridge"])
                host.run(["ip", "addr", "add", f"172.{17 + number}.0.1/16", "dev", name])
                host.run(["ip", "link", "set", name, "up"])
        assert Ranks(list(hosts), master=hosts[0].ip6).said() == ["SK_OK"] * 2


@pytest.mark.parametrize(
    ("tls", "words"), [("1", "shm and tcp within TLS"), ("0", "shm and tcp, not encrypted")]
)
def test_the_log_says_whether_it_is_encrypted(tls: str, words: str) -> None:
    with Hosts(2) as hosts:
        ranks = Ranks(list(hosts), SK_LOG="info", SK_NET_TLS=tls)
        assert ranks.said() == ["SK_OK"] * 2
        for rank in ranks:
            assert any(f"transport {words}:" in line for line in rank.lines)


def test_encryption_is_agreed_on() -> None:
    with Hosts(2) as hosts:
        for said in Ranks(list(hosts), each={1: {"SK_NET_TLS": 0}}).said():
            assert "rank 1 has SK_NET_TLS=0, and rank 0 has not" in said
        for said in Ranks(list(hosts), SK_NET_TLS="yes").said():
            assert 'SK_NET_TLS is "yes": it must be 0 or 1' in said


@pytest.mark.parametrize("order", [[0, 0, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2]])
def test_pairs_of_ranks_on_three_hosts_are_one_world(order: list[int]) -> None:
    with Hosts(3) as hosts:
        assert Ranks([hosts[number] for number in order]).said() == ["SK_OK"] * 6


FAULTS = {
    "loss": Link(loss=0.01, delay_us=200),
    "reorder": Link(reorder=0.05, reorder_us=3000, delay_us=200),
    "duplicate": Link(duplicate=0.05),
    "corrupt": Link(corrupt=0.01),
    "jitter": Link(delay_us=1000, jitter_us=5000),
    "all": Link(loss=0.01, duplicate=0.01, reorder=0.01, corrupt=0.01, jitter_us=500),
}


@pytest.mark.parametrize("name", FAULTS)
def test_sums_are_right_over_links_that_harm_packets(name: str) -> None:
    print(f"SK_TEST_SEED={SEED}")
    with Hosts(2, seed=SEED, links=FAULTS[name]) as hosts:
        places = [hosts[0], hosts[0], hosts[1], hosts[1]]
        assert Ranks(places).said() == ["SK_OK"] * 4


def test_sums_are_right_over_a_slow_link() -> None:
    with Hosts(2, links=Link(rate_kbit=2000, delay_us=20_000)) as hosts:
        places = [hosts[0], hosts[1], hosts[1]]
        assert Ranks(places, SK_PROBE_COUNT_MAX=SMALL).said() == ["SK_OK"] * 3


def test_hosts_far_away_meet() -> None:
    """By satellite: an answer takes longer than a dial in vain is waited for."""
    with Hosts(2, links=Link(delay_us=350_000)) as hosts:
        assert Ranks(list(hosts), SK_PROBE_COUNT_MAX=1).said() == ["SK_OK"] * 2


def test_nothing_listens_once_the_communicator_stands() -> None:
    with Hosts(2, links=Link()) as hosts:
        ranks = Ranks(list(hosts), SK_PROBE_ROUNDS=MANY).begin()
        assert [sockets(host, LISTEN) for host in hosts] == [[], []]
        assert all(sockets(host, ESTABLISHED) for host in hosts)
        assert [rank.said for rank in ranks] == ["", ""]


def test_no_rank_listens_at_all_addresses() -> None:
    """Seen while two hosts do not find each other."""
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        ranks = Ranks(list(hosts), SK_NET="sk0,lo", SK_PORT_RANGE="30100-30101")
        assert wait_until(lambda: any(port < 30102 for _, port in sockets(hosts[2], LISTEN)))
        for host in hosts:
            listening = sockets(host, LISTEN)
            assert not [address for address, _ in listening if int(address, 16) == 0]
        assert {port for _, port in sockets(hosts[2], LISTEN)} == {30100}
        hosts.restore(hosts[1], hosts[2])
        assert ranks.said() == ["SK_OK"] * 3


@pytest.mark.parametrize(
    ("net", "family"), [("10.77.0.0/16", 8), ("fd77::/64", 32), ("sk0,10.0.0.0/8", 8)]
)
def test_ranks_connect_in_the_networks_named(net: str, family: int) -> None:
    with Hosts(2) as hosts:
        master = hosts[0].ip6 if family == 8 else hosts[0].ip4
        options = {"SK_NET": net, "SK_PORT_RANGE": "30200-30210", "SK_PROBE_ROUNDS": MANY}
        Ranks(list(hosts), master=master, **options).begin()
        found = [sockets(host, ESTABLISHED) for host in hosts]
        chosen = [address for host in found for address, port in host if 30200 <= port <= 30210]
        assert [len(address) for address in chosen] == [family]


def test_a_range_of_ports_is_used_again_and_shared_by_the_ranks_of_a_host() -> None:
    """Where connections of before still have those ports, open or just closed."""
    with Hosts(2) as hosts:
        places = [hosts[0], hosts[0], hosts[1], hosts[1]]
        first = Ranks(places, SK_PORT_RANGE="30300-30301", SK_PROBE_ROUNDS=MANY).begin()
        for _ in range(2):
            assert Ranks(places, SK_PORT_RANGE="30300-30301").said() == ["SK_OK"] * 4
        assert [rank.said for rank in first] == [""] * 4


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("SK_NET", "eth7", 'SK_NET is "eth7": "eth7" is neither an interface of this host nor'),
        ("SK_NET", "10.1.0.0/33", '"10.1.0.0/33" is neither an interface of this host nor'),
        ("SK_NET", "", ""),
        ("SK_NET", "192.0.2.0/24", 'SK_NET is "192.0.2.0/24": this host has no address there'),
        ("SK_PORT_RANGE", "30400", 'SK_PORT_RANGE is "30400": it must be LOW-HIGH'),
        ("SK_PORT_RANGE", "30400-30399", "it must be LOW-HIGH, with ports from 1 to 65535"),
        ("SK_PORT_RANGE", "30400-70000", "it must be LOW-HIGH, with ports from 1 to 65535"),
        ("SK_PORT_RANGE", "0-10", "it must be LOW-HIGH, with ports from 1 to 65535"),
    ],
)
def test_one_ranks_wrong_value_is_said_on_every_rank(
    variable: str, value: str, sentence: str
) -> None:
    with Hosts(2) as hosts:
        ranks = Ranks([hosts[0], hosts[1], hosts[1]], each={2: {variable: value}})
        for said in ranks.said():
            assert sentence in said if sentence else said == "SK_OK"
            assert not sentence or "rank 2" in said or said == ranks[2].said


def test_too_few_ports_are_said_on_every_rank() -> None:
    with Hosts(2) as hosts:
        ranks = Ranks([hosts[0], hosts[1], hosts[1]], SK_PORT_RANGE="30500-30500")
        for said in ranks.said():
            assert re.search(
                r'SK_PORT_RANGE is "30500-30500": none of .* is free at 10\.77\.0\.2', said
            )


def test_a_rank_with_another_secret_is_refused() -> None:
    with Hosts(2) as hosts:
        each = {1: {"SK_JOB_SECRET": "another secret"}}
        ranks = Ranks(list(hosts), each=each, SK_PROBE_TIMEOUT_MS=8000)
        refused, waited = ranks[1], ranks[0]
        ranks.said()
        assert "secret" in refused.said
        assert not refused.said.startswith("SK_OK")
        assert waited.said.startswith(("SK_ERR_TIMEOUT", "SK_ERR_TRUST"))


STRANGER = """
import random, socket, sys, time
address, ports, count = sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3]) + 1), int(sys.argv[4])
draw = random.Random(7)
held = []
for number in range(count):
    for port in ports:
        try:
            held.append(socket.create_connection((address, port), 5))
            if number % 3:
                held[-1].sendall(draw.randbytes(1 << draw.randrange(12)))
        except OSError:
            pass
print("held", len(held), flush=True)
time.sleep(600)  # tidy: allow sleep: it holds what it has until it is killed
"""


def flood(host: Host, address: str, low: int, high: int, count: int) -> None:
    """Returns when so many connections stand that say nothing, or what nobody understands."""
    words = ["python3", "-c", STRANGER, address, str(low), str(high), str(count)]
    program = host.popen(words, stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.readline().startswith("held")


def test_strangers_do_not_keep_ranks_from_meeting() -> None:
    """Some hundreds at a rank's port, while the way to it is cut, and more when it is open."""
    with Hosts(3, links=Link()) as hosts:
        hosts.cut(hosts[1], hosts[2])
        ranks = Ranks(list(hosts), SK_PORT_RANGE="30600-30600")
        for host in hosts[1], hosts[2]:
            assert wait_until(lambda at=host: sockets(at, LISTEN) != [])
            flood(hosts[0], host.ip4, 30600, 30600, 400)
        hosts.restore(hosts[1], hosts[2])
        assert ranks.said() == ["SK_OK"] * 3


def test_strangers_at_the_first_port_do_not_keep_ranks_from_meeting() -> None:
    with Hosts(2) as hosts:
        ranks = Ranks(list(hosts), later=[1])
        port = ranks.master_port
        assert wait_until(lambda: sockets(hosts[0], LISTEN) != [], LIMIT_S)
        flood(hosts[1], hosts[0].ip4, port, port, 400)
        ranks.start(1)
        assert ranks.said() == ["SK_OK"] * 2


def test_the_limit_of_descriptors_is_raised_to_what_streams_take() -> None:
    with Hosts(2) as hosts:
        places = [hosts[0]] * 12 + [hosts[1]] * 12
        assert Ranks(places, ULIMIT="-Sn 24").said() == ["SK_OK"] * 24


def test_too_few_descriptors_for_the_streams_are_told_to_all() -> None:
    with Hosts(2) as hosts:
        places = [hosts[0]] * 4 + [hosts[1]] * 20
        for said in Ranks(places, each={2: {"ULIMIT": "-n 24"}}).said():
            assert said.startswith("SK_ERR_NO_MEMORY")
            assert "rank 2: a rank with streams to 20 ranks of other hosts takes 23 desc" in said
            assert "of at most 24 descriptors are open" in said


def test_the_log_says_for_whom_and_where_is_waited() -> None:
    with Hosts(2) as hosts:
        places, address = list(hosts), f'MASTER_ADDR "{hosts[0].ip4}", MASTER_PORT '
        words = {
            0: f"rank 0 of 2 waits: rank 1 did not come; where rank 0 waits is {address}29300",
            1: f"rank 1 of 2 waits: rank 0 does not answer at {address}29301: ",
        }
        more = {"SK_LOG": "warn", "SK_PROBE_TIMEOUT_MS": "13000"}
        alone = {
            rank: Rank(places[rank], as_rank(places, rank, 29300 + rank) | more) for rank in words
        }
        assert wait_until(lambda: all(rank.said for rank in alone.values()), LIMIT_S)
        for number, rank in alone.items():
            told = [line for line in rank.lines if words[number] in line]
            assert len(told) == 1, rank.lines
            assert " warn comm: " in told[0]
            assert told[0].endswith("; it is waited for 2 s more at most"), told
            assert rank.said.startswith("SK_ERR_TIMEOUT")
