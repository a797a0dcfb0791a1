"""Ranks whose wall clock is set all the time, and hosts that are suspended and go on."""

from __future__ import annotations

import random
import sys
import time

import pytest
from hosts import BUILD, Host, Hosts, Link
from ranks import MANY, SEED, Ranks

CLOCKS = BUILD / "tests" / "net" / "jumping_clocks.so"
HOUR_S, DAY_S = 3600, 86400
SILENCE_S = 4  # Of SK_NET_SILENCE_S.
BOUND_S = 30.0  # What is awaited takes a second; a machine may be slow.
STOP_TIMEOUT_MS = 4000  # Of the calls that wait for one that is stopped.

READS = """
import time
print(*[time.time() for _ in range(20)])
print(*[time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(20)])
print(time.monotonic())
"""


def jumping(seed: int = SEED) -> dict[str, object]:
    """The environment of a program whose clocks jump."""
    print(f"SK_TEST_SEED={seed}")
    return {"LD_PRELOAD": CLOCKS, "JUMPING_CLOCKS_SEED": seed}


def pairs(hosts: Hosts) -> list[Host]:
    return [host for host in hosts for _ in range(2)]


def test_the_clocks_jump_and_monotonic_time_does_not() -> None:
    with Hosts(1) as hosts:
        env = {name: str(value) for name, value in jumping().items()}
        words = ["env", *(f"{name}={value}" for name, value in env.items())]
        before = time.monotonic()
        lines = hosts[0].run([*words, sys.executable, "-c", READS]).stdout.splitlines()
        wall, boot, now = [[float(word) for word in line.split()] for line in lines]
        assert before <= now[0] <= time.monotonic()
    assert max(wall) - min(wall) > HOUR_S
    assert max(abs(each - time.time()) for each in wall) <= DAY_S + 60
    assert boot == sorted(boot)
    assert boot[-1] - boot[0] > HOUR_S


def test_ranks_whose_wall_clock_jumps_sum_and_part() -> None:
    with Hosts(2) as hosts:
        ranks = Ranks(pairs(hosts), SK_LOG="info", SK_PROBE_ROUNDS=20, **jumping())
        assert ranks.said() == ["SK_OK"] * 4


def test_a_death_is_told_though_clocks_jump() -> None:
    with Hosts(2) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, **jumping()).begin()
        ranks[2].program.kill()
        for said in ranks.said(2, within=BOUND_S):
            assert said.startswith("SK_ERR_PEER_LOST: ")
            assert "rank 2 died" in said


def test_a_wait_is_as_long_as_it_may_be_though_clocks_jump() -> None:
    with Hosts(2) as hosts:
        timeout = {"SK_PROBE_TIMEOUT_MS": STOP_TIMEOUT_MS}
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, **timeout, **jumping()).begin()
        at = time.monotonic()
        ranks[3].stop()
        for said in ranks.said(3, within=BOUND_S):
            assert said.startswith("SK_ERR_TIMEOUT: ")
        took = [rank.last_at - at for rank in ranks[:3]]
        print(f"seen: timeouts of 4 s took {max(took):.1f} s")
        assert max(took) >= 0.9 * STOP_TIMEOUT_MS / 1000


def suspend(ranks: Ranks, numbers: list[int]) -> None:
    """No process of them runs; where one host of several is suspended a test cuts it off, too."""
    for number in numbers:
        ranks[number].stop()


def resume(ranks: Ranks, numbers: list[int]) -> None:
    for number in numbers:
        ranks[number].go_on()


def test_a_machine_that_was_suspended_goes_on() -> None:
    """With all its hosts, for longer than a host may be silent: nobody missed anything."""
    with Hosts(2, links=Link()) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY, **jumping()).begin()
        suspend(ranks, [0, 1, 2, 3])
        time.sleep(SILENCE_S + 4)  # tidy: allow sleep: it is the time that counts
        resume(ranks, [0, 1, 2, 3])
        time.sleep(2)  # tidy: allow sleep: nothing may come of it
        assert [rank.said for rank in ranks] == [""] * 4
        ranks[1].program.kill()
        for said in ranks.said(1, within=BOUND_S):
            assert "rank 1 died" in said


def test_a_host_that_is_suspended_for_a_moment_goes_on() -> None:
    draw = random.Random(SEED)
    with Hosts(2, links=Link()) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY).begin()
        for _ in range(3):
            suspend(ranks, [2, 3])
            hosts.cut(hosts[0], hosts[1])
            time.sleep(draw.random())  # tidy: allow sleep: it is the time that counts
            hosts.restore(hosts[0], hosts[1])
            resume(ranks, [2, 3])
            time.sleep(0.7)  # tidy: allow sleep: nothing may come of it
        assert [rank.said for rank in ranks] == [""] * 4


@pytest.mark.parametrize("suspended", [0, 1])
def test_a_host_that_is_suspended_for_long_is_a_lost_connection(suspended: int) -> None:
    """To the others at once, and nobody is said to have died; to itself when it goes on, whose
    peers have ended their programs by then."""
    with Hosts(2, links=Link()) as hosts:
        ranks = Ranks(pairs(hosts), SK_PROBE_ROUNDS=MANY).begin()
        own = [2 * suspended, 2 * suspended + 1]
        suspend(ranks, own)
        hosts.cut(hosts[0], hosts[1])
        others = [number for number in range(4) if number not in own]
        for said in ranks.said(*own, within=BOUND_S):
            assert said.startswith("SK_ERR_TRANSPORT: ")
            assert "died" not in said
        hosts.restore(hosts[0], hosts[1])
        resume(ranks, own)
        for said in ranks.said(*others, within=BOUND_S):
            assert said.startswith(("SK_ERR_TRANSPORT: ", "SK_ERR_PEER_LOST: "))
