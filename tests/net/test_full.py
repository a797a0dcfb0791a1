"""Folders and disks that are full: ranks meet and sum all the same, and say what they leave out."""

from __future__ import annotations

import pytest
from hosts import BUILD, Host, Hosts
from processes import wait_until
from ranks import Rank, Ranks, as_rank

SK = BUILD / "tools" / "sk" / "sk"
LIMIT_S = 120.0


def pairs(hosts: Hosts) -> list[Host]:
    return [host for host in hosts for _ in range(2)]


def mount_small(host: Host, folder: str, kib: int) -> None:
    """A file system in memory of so many KiB."""
    host.run(["mkdir", "-p", folder])
    host.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=1777", "small", folder])


def fill(host: Host, folder: str) -> None:
    """To the last byte."""
    host.run(["sh", "-c", f"cat /dev/zero > {folder}/filled"], check=False)
    free = host.run(["df", "--output=avail", folder]).stdout.split()[-1]
    assert free == "0"


@pytest.mark.parametrize("kib", [4, 16])
def test_calls_go_on_where_their_record_finds_no_room(kib: int) -> None:
    """None for the file's head, or for the head alone; the log says so once a communicator."""
    with Hosts(2) as hosts:
        for host in hosts:
            mount_small(host, "/tmp/small", kib)
            host.run(["mkdir", "-m", "700", "/tmp/small/records"])
        options = {"SK_RECORD_DIR": "/tmp/small/records", "SK_LOG": "info"}
        ranks = Ranks(pairs(hosts), **options)
        assert ranks.said() == ["SK_OK"] * 4
        for rank in ranks:
            told = [line for line in rank.lines if "calls are not recorded: " in line]
            assert len(told) == 1, rank.lines
            assert "No space left on device" in told[0]


def test_a_log_that_goes_to_a_full_disk_ends_nothing() -> None:
    with Hosts(2) as hosts:
        probes = []
        for host in hosts:
            mount_small(host, "/tmp/small", 8)
            fill(host, "/tmp/small")
        for number, host in enumerate(hosts):
            env = as_rank(list(hosts), number, 29280) | {"SK_LOG": "info"}
            probes.append(Rank(host, env, stderr="/tmp/small/log"))
        assert wait_until(lambda: all(rank.said for rank in probes), LIMIT_S)
        assert [rank.said for rank in probes] == ["SK_OK"] * 2


@pytest.mark.parametrize("kib", [0, 64])
def test_memory_of_ranks_needs_no_room_in_dev_shm(kib: int) -> None:
    """As small as it may be, or full: theirs is of files without names."""
    with Hosts(1) as hosts:
        [host] = hosts
        mount_small(host, "/dev/shm", max(kib, 4))
        if kib == 0:
            fill(host, "/dev/shm")
        assert Ranks([host] * 4).said() == ["SK_OK"] * 4
        assert host.run([SK, "status"]).returncode == 0
