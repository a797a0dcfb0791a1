"""One program, whoever starts it, on hosts that share nothing: the same results everywhere."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Sequence

import pytest
from hosts import ENV, Host, Hosts
from launchers import JOBSET, LAUNCHERS, PAGE, PROGRAMS, Launcher, Start
from processes import wait_until
from said import due, read

LIMIT_S = 180.0
OPTIONS = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
_ports = itertools.count(24000, 10)


def finish(starts: Sequence[Start]) -> tuple[list[int], str]:
    """Runs them at the same time: exit statuses, and all that was printed."""
    programs = [
        start.host.popen(list(start.command), env={**ENV, **start.env}, cwd="/tmp", **OPTIONS)
        for start in starts
    ]
    text = "".join(program.communicate(timeout=LIMIT_S)[0] for program in programs)
    return [program.returncode for program in programs], text


def started(launcher: Launcher, hosts: Hosts, command: list[str]) -> list[Start]:
    program = launcher.program()
    if program is None:
        pytest.skip(launcher.absent)
    return launcher.starts(hosts, command, program, next(_ports))


@pytest.mark.parametrize("language", PROGRAMS)
@pytest.mark.parametrize("launcher", LAUNCHERS, ids=[each.name for each in LAUNCHERS])
def test_ranks_of_every_launcher_are_one_world(
    four: Hosts, launcher: Launcher, language: str
) -> None:
    statuses, text = finish(started(launcher, four, PROGRAMS[language]))
    assert set(statuses) == {0}, text
    said = read(text)
    assert said.results == due(launcher.ranks), text
    places = [said.places[rank] for rank in range(launcher.ranks)]
    per_host, names = launcher.per_host, [host.name for host in four][: launcher.hosts]
    due_places = [(name, each, per_host) for name in names for each in range(per_host)]
    if launcher.name == "torchrun_elastic":  # Its agents may come in any order.
        due_places = [due_places, due_places[2:] + due_places[:2]][places[0][0] == "h1"]
    assert places == due_places, text


def test_pods_are_played_with_what_the_pages_manifest_gives_them() -> None:
    manifest = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    given = set(re.findall(r"name: ([A-Z_]+)", manifest[0]))
    of_kubernetes = {"JOB_COMPLETION_INDEX", "KUBERNETES_SERVICE_HOST"}
    assert given == set(JOBSET) - of_kubernetes | {"MASTER_ADDR", "MASTER_PORT"}


def refusals(launcher: Launcher, hosts: Hosts, *unset: str) -> tuple[list[int], str]:
    """Exit statuses, and what ranks say to which these variables are not told.

    By files: Hydra may lose the last lines of ranks that fail.
    """
    rank = shlex.join(["env", *(f"--unset={name}" for name in unset), *PROGRAMS["c"]])
    starts = started(launcher, hosts, ["sh", "-c", f"exec {rank} 2>> /tmp/said"])
    for host in hosts:
        host.run(["rm", "-f", "/tmp/said"])
    statuses, text = finish(starts)
    said = [host.run(["sh", "-c", "cat /tmp/said || true"]).stdout for host in hosts]
    return statuses, "".join([*said, text])


OF_SEVERAL_HOSTS = [each for each in LAUNCHERS if each.hosts > 1]
NO_SECRET = (
    "can be reached by other hosts and there is no job secret: set SK_JOB_SECRET_FD, "
    "SK_JOB_SECRET_FILE or SK_JOB_SECRET to the same 16 bytes or more on every rank"
)


@pytest.mark.parametrize("launcher", OF_SEVERAL_HOSTS, ids=[e.name for e in OF_SEVERAL_HOSTS])
def test_without_a_secret_every_launchers_ranks_say_what_to_set(
    four: Hosts, launcher: Launcher
) -> None:
    statuses, text = refusals(launcher, four, "SK_JOB_SECRET_FILE", "SK_JOB_SECRET")
    assert 0 not in statuses
    assert NO_SECRET in text
    assert ("mpirun hands on what -x NAME names" in text) == launcher.name.startswith("openmpi")
    assert "rank 0 of" not in text


WITHOUT_ADDRESS = {
    "openmpi4": "Open MPI started 4 ranks and OMPI_COMM_WORLD_LOCAL_SIZE is 2",
    "openmpi5": "Open MPI started 4 ranks and OMPI_COMM_WORLD_LOCAL_SIZE is 2",
    "hydra": "Hydra started 4 ranks and MPI_LOCALNRANKS is 2",
    "flux_played": "Flux started 4 ranks and FLUX_JOB_NNODES is 2",
}


@pytest.mark.parametrize("name", WITHOUT_ADDRESS)
def test_without_an_address_ranks_say_what_to_set(four: Hosts, name: str) -> None:
    launcher = next(each for each in LAUNCHERS if each.name == name)
    statuses, text = refusals(launcher, four, "MASTER_ADDR")
    assert 0 not in statuses
    assert WITHOUT_ADDRESS[name] in text
    assert "MASTER_ADDR is not set, it must be an address at which rank 0 can be reached" in text


@pytest.mark.parametrize("name", ["torchrun", "torchrun_elastic"])
def test_without_a_port_of_its_own_all_ranks_under_torchrun_say_so_at_once(
    four: Hosts, name: str
) -> None:
    launcher = next(each for each in LAUNCHERS if each.name == name)
    statuses, text = refusals(launcher, four, "SK_MASTER_PORT")
    assert 0 not in statuses
    assert text.count("SK_MASTER_PORT is not set: it must be a free port of rank 0's host") >= 2
    assert "did not come" not in text


def own_names(host: Host) -> None:
    """Gives a host names of its own, and a server of names that never answers."""
    lines = ["cp /etc/hosts /tmp/hosts", "echo 'hosts: files dns' > /tmp/nsswitch.conf"]
    lines += ["echo 'nameserver 127.0.0.1' > /tmp/resolv.conf"]
    lines += [f"mount --bind /tmp/{name} /etc/{name}" for name in NAMES]
    host.run(["sh", "-ec", "\n".join(lines)])


NAMES = ("hosts", "nsswitch.conf", "resolv.conf")


def asked_in_vain(host: Host) -> int:
    """Datagrams to this host where nobody listens, as a server of names would."""
    lines = host.run(["cat", "/proc/net/snmp"]).stdout.splitlines()
    names, numbers = (line.split() for line in lines if line.startswith("Udp:"))
    return int(numbers[names.index("NoPorts")])


def test_ranks_wait_for_a_name_that_is_not_known_yet() -> None:
    """Rank 0 for its own, too."""
    env = {**ENV, "WORLD_SIZE": "2", "MASTER_ADDR": "late", "MASTER_PORT": str(next(_ports))}
    env["SK_JOB_SECRET"] = "the same on both"
    with Hosts(2) as hosts:
        ranks = []
        for host in hosts:
            own_names(host)
            rank = {"RANK": str(host.number)}
            ranks.append(host.popen(PROGRAMS["c"], env={**env, **rank}, **OPTIONS))
        for host in hosts:
            assert wait_until(lambda at=host: asked_in_vain(at) >= 4)
        assert [rank.poll() for rank in ranks] == [None, None]
        for host in hosts:
            host.run(["sh", "-ec", f"echo {hosts[0].ip4} late >> /etc/hosts"])
        text = "".join(rank.communicate(timeout=LIMIT_S)[0] for rank in ranks)
    assert read(text).results == due(2), text


def test_a_host_that_knows_its_name_as_its_loopback_says_so() -> None:
    """As Debian's installer leaves it. SK_LISTEN=any is the way where others know it by that."""
    env = {**ENV, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "h0"}
    env["SK_JOB_SECRET"] = "the same on both"
    with Hosts(2) as hosts:
        own_names(hosts[0])
        hosts[0].run(["sh", "-ec", "(grep -v h0 /etc/hosts; echo 127.0.1.1 h0) > /tmp/new"])
        hosts[0].run(["sh", "-ec", "cat /tmp/new > /etc/hosts"])
        env["MASTER_PORT"] = str(next(_ports))
        statuses, text = finish([Start(hosts[0], PROGRAMS["c"], {**env, "RANK": "0"})])
        assert statuses == [1]
        assert 'MASTER_ADDR is "h0", which is 127.0.1.1' in text
        assert "and LOCAL_WORLD_SIZE is 1: it must be an address" in text
        env["SK_LISTEN"] = "any"
        both = [Start(host, PROGRAMS["c"], {**env, "RANK": str(host.number)}) for host in hosts]
        assert read(finish(both)[1]).results == due(2)


@pytest.mark.parametrize("host", range(2))
def test_torchrun_of_one_host_needs_neither_port_nor_secret(four: Hosts, host: int) -> None:
    launcher = next(each for each in LAUNCHERS if each.name == "torchrun")
    program = launcher.program()
    if program is None:
        pytest.skip(launcher.absent)
    words = [program, "--nproc-per-node", "4", "--no-python", *PROGRAMS["c"]]
    statuses, text = finish([Start(four[host], words)])
    assert statuses == [0], text
    assert read(text).results == due(4)
