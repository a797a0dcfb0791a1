"""Deaths, stops and cuts at any moment: every rank that is left names who or what it was.

SK_FAULTS=100 runs so many of each kind (else a few), SK_FAULTS_SEED begins with that seed, and
SK_FAULTS_FILE names a file that gets one line of JSON for each: what was done to whom, and after
how many seconds each rank that was left had said what.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hosts import Host, Hosts, Link
from processes import wait_until
from ranks import MANY, Ranks

ROUNDS = int(os.environ.get("SK_FAULTS", "2"))
SEED = int(os.environ.get("SK_FAULTS_SEED", str(random.SystemRandom().randrange(1 << 30))))
FILE = os.environ.get("SK_FAULTS_FILE", "")
LIMIT_S = 30.0  # For what takes seconds; a machine may be slow.
STOP_TIMEOUT_MS = 4000  # Of the calls that wait for one that is stopped.


@dataclass(frozen=True)
class Fault:
    """What is done, once all ranks are at work and `after_s` more have gone by."""

    seed: int
    kind: str
    host_count: int
    local: int
    victim: int  # A rank, or of a cut a host.
    count_max: int  # Numbers of a call, at most.
    after_s: float
    one_way: bool = False

    @property
    def wanted(self) -> Callable[[str], bool]:
        """Whether a rank's sentence says what was done."""
        if self.kind == "kill":
            return lambda said: (
                said.startswith("SK_ERR_PEER_LOST: ") and f"rank {self.victim} died" in said
            )
        if self.kind == "stop":
            return lambda said: said.startswith("SK_ERR_TIMEOUT: ") and self.names_it_last(said)
        return lambda said: said.startswith("SK_ERR_TRANSPORT: ") and "died" not in said

    def names_it_last(self, said: str) -> bool:
        """The stopped rank: "rank 1 waited 4.0 s for rank 0, which waits for rank 2, in ..."."""
        return re.findall(r"for rank (\d+)", said)[-1:] == [str(self.victim)]

    @property
    def left(self) -> list[int]:
        """The ranks that must say it: after a cut all."""
        ranks = range(self.host_count * self.local)
        return [rank for rank in ranks if self.kind == "cut" or rank != self.victim]


def fault_of(seed: int, kind: str) -> Fault:
    """By its seed alone."""
    draw = random.Random(f"{kind} {seed}")
    host_count, local = draw.choice([(2, 1), (2, 2), (3, 1)])
    return Fault(
        seed=seed,
        kind=kind,
        host_count=host_count,
        local=local,
        victim=draw.randrange(host_count if kind == "cut" else host_count * local),
        count_max=draw.choice([1, 4099, 1 << 20]),
        after_s=draw.random() * 0.3,
        one_way=kind == "cut" and draw.random() < 0.5,
    )


def suffer(hosts: Hosts, ranks: Ranks, fault: Fault) -> None:
    """Does it to them."""
    if fault.kind == "kill":
        ranks[fault.victim].program.kill()
    elif fault.kind == "stop":
        ranks[fault.victim].stop()
    else:
        victim: Host = hosts[fault.victim]
        for other in hosts:
            if other is not victim:
                hosts.cut(victim, other, one_way=fault.one_way)


def outcome(fault: Fault) -> tuple[list[float], list[str]]:
    """Seconds until each of those that are left had spoken, and what it said."""
    links = Link() if fault.kind == "cut" else None
    with Hosts(fault.host_count, links=links) as hosts:
        places = [host for host in hosts for _ in range(fault.local)]
        timeout = {"SK_PROBE_TIMEOUT_MS": STOP_TIMEOUT_MS} if fault.kind == "stop" else {}
        ranks = Ranks(
            places, SK_PROBE_ROUNDS=MANY, SK_PROBE_COUNT_MAX=fault.count_max, **timeout
        ).begin()
        time.sleep(fault.after_s)  # tidy: allow sleep: any moment is the point
        at = time.monotonic()
        suffer(hosts, ranks, fault)
        asked = [ranks[rank] for rank in fault.left]
        wait_until(lambda: all(rank.said for rank in asked), LIMIT_S)
        return [round(rank.last_at - at, 3) for rank in asked], [rank.said for rank in asked]


@pytest.mark.parametrize("kind", ["kill", "stop", "cut"])
@pytest.mark.parametrize("number", range(ROUNDS))
def test_all_that_are_left_name_it(kind: str, number: int) -> None:
    fault = fault_of(SEED + number, kind)
    print(f"SK_FAULTS_SEED={fault.seed}: {fault}")
    seconds, said = outcome(fault)
    print(f"seen: {kind}: all had said it after {max(seconds):.2f} s")
    line = {**fault.__dict__, "left": fault.left, "seconds": seconds, "said": said}
    if FILE:
        with open(FILE, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(json.dumps(line) + "\n")
    print(json.dumps(line, indent=1))
    assert all(fault.wanted(each) for each in said), line
