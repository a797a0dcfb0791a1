"""However the tests end, nothing of their hosts stays: no process, link, mount or name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from hosts import Hosts, Link, why_not
from processes import descendants, wait_until

HERE = Path(__file__).resolve().parent
MARK = "SK_TEST_MARK"  # What starts with it in its environment is of one test.
CASES = {"bridge": None, "emulated": Link(loss=0.1)}
MOUNTED = ("/dev/shm", "/etc/hosts", "/proc", "/sys", "/tmp")  # In hosts.

# A program of each kind in each host, one that has left its parent among them.
OWNER = """
import sys
sys.path.insert(0, {support!r})
from hosts import Hosts, Link
with Hosts(3, links={links!r}, own_pids={own_pids!r}) as hosts:
    for host in hosts:
        host.popen(["sleep", "600"])
        host.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & trap '' TERM HUP INT"])
    print("ready", flush=True)
    sys.stdin.read()
"""


def around() -> dict[str, list[str]]:
    """What hosts could leave on this machine."""
    folders = [Path("/run/netns"), Path("/sys/class/net")]
    found = {str(at): sorted(map(str, at.iterdir())) for at in folders if at.exists()}
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    found["mounts"] = sorted(point for point in mounts if point.startswith(MOUNTED))
    return found


def marked(mark: str) -> list[str]:
    """Processes that still run, zombies not among them, which have no environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"{MARK}={mark}".encode() in environment:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # It has ended meanwhile.
    return found


def own(links: Link | None, mark: str, *, own_pids: bool = False) -> subprocess.Popen[str]:
    """A process that makes hosts and keeps them until its input ends."""
    if reason := why_not():
        pytest.skip(reason)
    text = OWNER.format(support=str(HERE.parent / "support"), links=links, own_pids=own_pids)
    return subprocess.Popen(
        [sys.executable, "-B", "-c", text],
        env={**os.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("links", CASES.values(), ids=CASES)
def test_a_block_that_fails_leaves_nothing(links: Link | None) -> None:
    before = around()
    mark = uuid.uuid4().hex
    with pytest.raises(KeyError), Hosts(2, links=links) as hosts:
        hosts[0].popen(["sleep", "600"], env={**os.environ, MARK: mark})
        hosts[1].run(["sh", "-c", f"{MARK}={mark} setsid sleep 600 >/dev/null 2>&1 &"])
        assert wait_until(lambda: len(marked(mark)) == 3)  # With the nsenter of the first.
        raise KeyError
    assert marked(mark) == []  # At once: the kernel has ended them before close() returned.
    assert around() == before


@pytest.mark.parametrize("own_pids", [False, True])
@pytest.mark.parametrize("links", CASES.values(), ids=CASES)
def test_a_killed_owner_leaves_nothing(links: Link | None, own_pids: bool) -> None:
    before = around()
    mark = uuid.uuid4().hex
    with own(links, mark, own_pids=own_pids) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        assert len(marked(mark)) > 9
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not marked(mark)), marked(mark)
    assert around() == before


@pytest.mark.parametrize("processes", [1, 3, 6, 9])
def test_an_owner_killed_while_it_makes_them_leaves_nothing(processes: int) -> None:
    before = around()
    mark = uuid.uuid4().hex
    with own(CASES["emulated"], mark) as owner:
        assert wait_until(lambda: len(descendants(owner.pid)) >= processes)
        owner.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not marked(mark)), marked(mark)
    assert around() == before
