"""What a host has of its own, what it shares, and the programs in it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PORT, peer, say, stream
from hosts import ENV, ROOT, Host, Hosts, Link, why_not
from processes import alive, wait_until

IN_TMP = ROOT.is_relative_to("/tmp")  # Then the checkout is there, and nothing else.
PYTHON = [sys.executable, "-c"]


@pytest.fixture(scope="module", params=["bridge", "emulated"])
def hosts(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    with Hosts(2, links=Link() if request.param == "emulated" else None) as made:
        yield made


def read(host: Host, path: str) -> str:
    return host.run(["cat", path]).stdout.strip()


def test_hosts_reach_each_other_by_both_families_and_by_name(hosts: Hosts) -> None:
    a, b = hosts
    for asker, other in ((a, b), (b, a)):
        with peer(other, "answer", PORT):
            for address in (other.ip4, other.ip6, other.name):
                say(asker, "ask", address, PORT)
    for address in (b.ip4, b.ip6, b.name):
        sent, came = stream(hosts, 300_000, address)
        assert came == sent


def test_nothing_leads_out_of_the_hosts(hosts: Hosts) -> None:
    for host in hosts:
        routes = host.run(["ip", "-4", "route"]).stdout + host.run(["ip", "-6", "route"]).stdout
        assert "default" not in routes
        text = "import socket; socket.create_connection(('192.0.2.1', 9))"
        done = host.run([*PYTHON, text], check=False)
        assert "Network is unreachable" in done.stderr
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not {"sk0", "bridge", *(f"to-{host.name}" for host in hosts)} & links


def test_files_of_shared_memory_and_of_tmp_are_a_hosts_own(hosts: Hosts) -> None:
    a, b = hosts
    for folder in ("/dev/shm", "/tmp"):
        name = f"{folder}/sk-test-{os.getpid()}"
        a.run(["touch", name])
        assert Path(name).name in a.run(["ls", folder]).stdout.split()
        assert len(b.run(["ls", folder]).stdout.split()) == (folder == "/tmp" and IN_TMP)
        assert not Path(name).exists()
        a.run(["rm", name])


def test_names_boot_ids_ipc_and_links_are_a_hosts_own(hosts: Hosts) -> None:
    a, b = hosts
    assert [host.run(["uname", "-n"]).stdout.strip() for host in hosts] == ["h0", "h1"]
    here = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert len({here, *(read(host, "/proc/sys/kernel/random/boot_id") for host in hosts)}) == 3
    a.run(["ipcmk", "--shmem", "4096"])
    assert len(read(a, "/proc/sysvipc/shm").splitlines()) == 2
    assert len(read(b, "/proc/sysvipc/shm").splitlines()) == 1
    for host in hosts:
        assert host.run(["ls", "/sys/class/net"]).stdout.split() == ["lo", "sk0"]
        groups = host.run(["ls", "/sys/fs/cgroup"]).stdout.split()
        assert set(groups) == {path.name for path in Path("/sys/fs/cgroup").iterdir()}


def test_the_checkout_is_every_hosts(hosts: Hosts) -> None:
    for host in hosts:
        assert host.run(["pwd"]).stdout.strip() == str(ROOT)
        assert read(host, "dev") == (ROOT / "dev").read_text().strip()


def test_a_program_ends_here_as_it_ended_there(hosts: Hosts) -> None:
    host = hosts[0]
    assert host.run(["sh", "-c", "exit 7"], check=False).returncode == 7
    with pytest.raises(RuntimeError, match=r"in h0 ended with 7: out\nerr"):
        host.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    sleeper = host.popen(["sleep", "600"])
    sleeper.kill()
    assert sleeper.wait(60) == -signal.SIGKILL


def test_a_program_can_be_stopped_and_go_on(hosts: Hosts) -> None:
    def state() -> str:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    program = hosts[1].popen(["sleep", "600"])
    pid = program.program_pid
    for _ in range(20):
        program.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: state() == "T")
        program.send_signal(signal.SIGCONT)
        assert wait_until(lambda: state() != "T")
    program.send_signal(signal.SIGSTOP)
    program.kill()
    assert program.wait(60) == -signal.SIGKILL
    assert not alive(pid)
    program.send_signal(signal.SIGTERM)  # Finds nobody.


def test_clocks_and_process_numbers_can_be_a_hosts_own() -> None:
    clocks = {"CLOCK_MONOTONIC": time.CLOCK_MONOTONIC, "CLOCK_BOOTTIME": time.CLOCK_BOOTTIME}
    offsets = [0, 86_400, -2]
    with Hosts(3, own_pids=True, clocks_s=offsets) as hosts:
        for host, offset in zip(hosts, offsets, strict=True):
            for name, clock in clocks.items():
                before = time.clock_gettime(clock)
                text = f"import time; print(time.clock_gettime(time.{name}))"
                there = float(host.run([*PYTHON, text]).stdout)
                after = time.clock_gettime(clock)
                assert before + offset <= there <= after + offset
            # Its own first process and the one that asks.
            text = "import os; print(sum(name.isdigit() for name in os.listdir('/proc')))"
            assert host.run([*PYTHON, text]).stdout == "2\n"


def test_what_makes_no_sense_is_refused_with_a_sentence() -> None:
    with pytest.raises(ValueError, match="n is 0; 1 to 250 hosts can be had"):
        Hosts(0)
    with pytest.raises(ValueError, match="clocks_s has 1 values for 2 hosts"):
        Hosts(2, clocks_s=[1])
    with pytest.raises(ValueError, match="at least two hosts"):
        Hosts(1, links=Link())


def test_where_hosts_cannot_be_had_a_sentence_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "one must be root" in why_not()
    with pytest.raises(pytest.skip.Exception, match="one must be root"), Hosts(2):
        pass
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setitem(ENV, "PATH", str(tmp_path))
    assert why_not() == "there is no ip; Debian has it in iproute2, mount or util-linux"
    for program in ("ip", "mount", "nsenter", "unshare"):
        script = tmp_path / program
        script.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
        script.chmod(0o755)
    assert why_not().endswith("hosts are made of: unshare failed: Operation not permitted")
