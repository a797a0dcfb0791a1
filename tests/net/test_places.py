"""Where ranks look for each other and cannot: wrong names, no way, no network, a taken port, and
many jobs at once."""

from __future__ import annotations

import subprocess
import time

import pytest
from hosts import BUILD, ENV, Hosts
from processes import wait_until
from ranks import PROBE, SMALL, Rank, Ranks, as_rank

SK = BUILD / "tools" / "sk" / "sk"
TIMEOUT_MS = 4000
BOUND_S = 20.0  # For what may take TIMEOUT_MS; a machine may be slow.
LIMIT_S = 120.0
JOBS = 12


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("no-such-host", ['MASTER_ADDR "no-such-host" cannot be resolved']),
        ("192.0.2.1", ["192.0.2.1", "Network is unreachable"]),
        ("2001:db8::1", ["2001:db8::1", "Network is unreachable"]),
        ("10.77.0.99", ["10.77.0.99", "No route to host"]),
        ("h0", ["10.77.0.1", "fd77::1", "Connection refused"]),
    ],
)
def test_a_wrong_place_is_named_with_what_the_system_says(master: str, words: list[str]) -> None:
    """Of a name that stands for several addresses with what each of them came to."""
    with Hosts(2) as hosts:
        env = as_rank(list(hosts), 1, 29270) | {
            "MASTER_ADDR": master,
            "SK_PROBE_TIMEOUT_MS": str(TIMEOUT_MS),
        }
        at = time.monotonic()
        rank = Rank(hosts[1], env)
        assert wait_until(lambda: rank.said != "", BOUND_S)
        assert rank.last_at - at < BOUND_S
        assert rank.said.startswith(("SK_ERR_TRANSPORT: ", "SK_ERR_TIMEOUT: ")), rank.said
        for word in words:
            assert word in rank.said


@pytest.mark.parametrize("master", ["127.0.0.1", "::1", "localhost"])
def test_a_host_that_has_its_loopback_alone_is_enough_for_its_own_ranks(master: str) -> None:
    with Hosts(2) as hosts:
        host = hosts[0]
        host.run(["ip", "link", "delete", "sk0"])
        assert Ranks([host] * 3, master=master).said() == ["SK_OK"] * 3


def test_a_network_that_ranks_are_not_in_is_refused_on_all() -> None:
    """The wrong one of two devices: it has no way to the other host, and both hear where."""
    with Hosts(2) as hosts:
        for number, host in enumerate(hosts):
            host.run(["ip", "link", "add", "name", "wrong0", "type", "bridge"])
            host.run(["ip", "address", "add", f"172.{20 + number}.0.1/16", "dev", "wrong0"])
            host.run(["ip", "link", "set", "wrong0", "up"])
        for said in Ranks(list(hosts), SK_NET="wrong0", SK_PROBE_TIMEOUT_MS=TIMEOUT_MS).said():
            assert said.startswith("SK_ERR_TRANSPORT: "), said
            assert "172.20.0.1" in said or "172.21.0.1" in said


LISTENER = """
import socket, sys, time
at = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
time.sleep(600)  # tidy: allow sleep: it holds what it has until it is killed
"""


def test_a_port_that_another_program_has_is_named() -> None:
    with Hosts(2) as hosts:
        words = ["python3", "-c", LISTENER, hosts[0].ip4, "29271"]
        holder = hosts[0].popen(words, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        more = {"SK_PROBE_TIMEOUT_MS": str(TIMEOUT_MS)}
        rank = Rank(hosts[0], as_rank(list(hosts), 0, 29271) | more)
        assert wait_until(lambda: rank.said != "", BOUND_S)
        assert "29271" in rank.said
        assert "Address already in use" in rank.said
        holder.kill()
        again = Ranks(list(hosts))  # Another port: at once.
        assert again.said() == ["SK_OK"] * 2


def test_many_jobs_at_once_and_again_do_not_mix() -> None:
    """Of one user on one host, twice, so that ports of before are met again."""
    with Hosts(1) as hosts:
        for _ in range(2):
            env = {**ENV, "SK_PROBE_COUNT_MAX": str(SMALL)}
            jobs = [
                hosts[0].popen([SK, "run", "-n", "3", PROBE], env=env, stdout=subprocess.PIPE)
                for _ in range(JOBS)
            ]
            for job in jobs:
                said, _ = job.communicate(timeout=LIMIT_S)
                assert said.split().count("SK_OK") == 3, said
                assert job.returncode == 0


def test_jobs_of_one_port_at_once_do_not_mix() -> None:
    """Two jobs that were given the same port by mistake: told apart by their names, one waits."""
    with Hosts(2) as hosts:
        port = 29272
        env = {
            job: [as_rank(list(hosts), number, port) | {"SK_JOB_ID": job} for number in range(2)]
            for job in ("one", "two")
        }
        ranks = [Rank(hosts[number], env[job][number]) for number in range(2) for job in env]
        assert wait_until(lambda: all(rank.said for rank in ranks), LIMIT_S)
        assert [rank.said for rank in ranks] == ["SK_OK"] * 4
