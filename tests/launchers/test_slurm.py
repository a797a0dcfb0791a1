"""Ranks that srun starts on four nodes, by each of the ways in which it may tell them of MPI."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hosts import ENV, Host
from launchers import (
    HOME,
    LAUNCHERS,
    PROGRAMS,
    ROOT_MAY,
    SECRET,
    TORCH,
    TORCHRUN,
    Launcher,
    blocks,
    make_ready,
    typed,
)
from processes import wait_until
from said import Said, due, read
from slurm import Cluster, why_no_slurm

LIMIT_S = 120.0
OPTIONS = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
_ports = itertools.count(25000, 10)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    if reason := why_no_slurm():
        pytest.skip(reason)
    with Cluster(nodes=4) as made:
        make_ready(made.hosts)
        yield made


def job(port: int) -> dict[str, str]:
    """What ranks on several nodes must be told; the first node has rank 0."""
    return {
        **ENV,
        "SK_JOB_SECRET_FILE": SECRET,
        "MASTER_ADDR": "h1",
        "MASTER_PORT": str(port),
    }


def srun(
    cluster: Cluster, words: Sequence[str], command: Sequence[str], env: dict[str, str]
) -> tuple[int, str]:
    """Runs one step: its exit status, and all that was printed."""
    program = cluster.popen(["srun", *words, *command], env=env, cwd="/tmp", **OPTIONS)
    text = program.communicate(timeout=LIMIT_S)[0]
    return program.returncode, text


def world(cluster: Cluster, words: Sequence[str], command: Sequence[str]) -> Said:
    status, text = srun(cluster, words, command, job(next(_ports)))
    assert status == 0, text + cluster.logs()
    return read(text)


@pytest.mark.parametrize("language", PROGRAMS)
@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_ranks_on_four_nodes_are_one_world(cluster: Cluster, mpi: str, language: str) -> None:
    said = world(cluster, ["--nodes=4", "--ntasks=4", f"--mpi={mpi}"], PROGRAMS[language])
    assert said.results == due(4)
    assert said.places == {rank: (f"h{rank + 1}", 0, 1) for rank in range(4)}


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_pairs_of_ranks_on_four_nodes_are_one_world(cluster: Cluster, mpi: str) -> None:
    said = world(cluster, ["--nodes=4", "--ntasks-per-node=2", f"--mpi={mpi}"], PROGRAMS["c"])
    assert said.results == due(8)
    assert said.places == {rank: (f"h{rank // 2 + 1}", rank % 2, 2) for rank in range(8)}


def test_ranks_that_are_dealt_out_are_one_world(cluster: Cluster) -> None:
    """Neighbours are on different nodes, and one node has fewer ranks than the others."""
    words = ["--nodes=4", "--exclusive", "--ntasks=7", "--distribution=cyclic"]
    said = world(cluster, words, PROGRAMS["c"])
    assert said.results == due(7)
    assert [said.places[rank][0] for rank in range(7)] == [f"h{1 + rank % 4}" for rank in range(7)]


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_ranks_of_one_node_need_no_address_and_no_secret(cluster: Cluster, mpi: str) -> None:
    words = ["--nodes=1", "--ntasks=4", f"--mpi={mpi}"]
    status, text = srun(cluster, words, PROGRAMS["c"], ENV)
    assert status == 0, text
    assert read(text).results == due(4)


def batch(cluster: Cluster, script: str, first: Host, path: str = "") -> Said:
    """Hands a script to sbatch, whose output then is on the first node of the job."""
    words = "cat > /tmp/job.sh; sbatch --wait --output=/tmp/job.log --chdir=/tmp /tmp/job.sh"
    env = {**ENV, **ROOT_MAY, "HOME": HOME, "PATH": f"{path}:{ENV['PATH']}"}
    given = cluster.popen(["sh", "-c", words], env=env, stdin=subprocess.PIPE, **OPTIONS)
    text = given.communicate(script, timeout=LIMIT_S)[0]
    log = first.run(["cat", "/tmp/job.log"]).stdout
    assert given.returncode == 0, text + log
    return read(log)


def test_the_pages_batch_script_finds_its_first_node(cluster: Cluster) -> None:
    """With a second step at the same port; the script runs on the first of its own nodes."""
    script = typed(blocks("Slurm")[0], next(_ports), PROGRAMS["c"])
    script = script.replace("--nodes=4", "--nodes=3 --nodelist=h2,h3,h4") + script.splitlines()[-1]
    assert script.count("srun") == 2
    said = batch(cluster, script, cluster.nodes[1])
    assert said.results == sorted(due(6) * 2)
    assert said.places[5] == ("h4", 1, 2)


def test_torchrun_on_each_node_by_the_pages_batch_script(cluster: Cluster) -> None:
    program = TORCHRUN()
    if program is None:
        pytest.skip(TORCH)
    script = typed(blocks("Slurm")[1], next(_ports), PROGRAMS["c"])
    said = batch(cluster, script, cluster.nodes[0], str(Path(program).parent))
    assert said.results == due(4)
    assert sorted(place for place, *_ in said.places.values()) == ["h1", "h1", "h2", "h2"]


OTHERS = [each for each in LAUNCHERS if each.name in ("openmpi4", "openmpi5", "hydra")]


@pytest.mark.parametrize("per_node", [1, 2])
@pytest.mark.parametrize("launcher", OTHERS, ids=[each.name for each in OTHERS])
def test_other_launchers_in_a_job_start_ranks_on_its_nodes(
    cluster: Cluster, launcher: Launcher, per_node: int
) -> None:
    """By daemons of their own, which srun starts, one on each node: ranks inherit from those."""
    program = launcher.program()
    if program is None:
        pytest.skip(launcher.absent)
    script = typed(blocks("Slurm")[0], next(_ports), PROGRAMS["c"])
    script = script.replace("--ntasks-per-node=2", f"--ntasks-per-node={per_node}")
    hands_on = "-x MASTER_ADDR -x MASTER_PORT -x SK_JOB_SECRET_FILE"
    line = f"{program} {'' if launcher.name == 'hydra' else hands_on} "
    said = batch(cluster, script.replace("srun ", line), cluster.nodes[0])
    assert said.results == due(4 * per_node)
    assert said.places == {
        rank: (f"h{rank // per_node + 1}", rank % per_node, per_node)
        for rank in range(4 * per_node)
    }


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_what_is_missing_is_said_by_srun_as_the_launcher(cluster: Cluster, mpi: str) -> None:
    words, program = ["--nodes=2", "--ntasks=2", f"--mpi={mpi}"], PROGRAMS["c"]
    status, text = srun(cluster, words, program, ENV)
    assert status != 0
    assert "srun started 2 ranks and SLURM_STEP_NUM_NODES is 2" in text
    assert "variable MASTER_ADDR is not set" in text
    without_secret = {**job(next(_ports))}
    del without_secret["SK_JOB_SECRET_FILE"]
    status, text = srun(cluster, words, program, without_secret)
    assert status != 0
    assert "there is no job secret: set SK_JOB_SECRET_FD, SK_JOB_SECRET_FILE" in text


def refused_dials(host: Host) -> int:
    """How many connections the host's programs have tried to make in vain."""
    lines = host.run(["cat", "/proc/net/snmp"]).stdout.splitlines()
    names, numbers = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(numbers[names.index("AttemptFails")])


def test_a_rank_of_an_earlier_step_is_none_of_a_later_one(cluster: Cluster) -> None:
    """Its rank 0 ended before it began; the next job has the same port and the same secret."""
    port, program = next(_ports), PROGRAMS["c"][0]
    words = ["--nodes=2", "--nodelist=h3,h4", "--ntasks=2"]
    env = {**job(port), "MASTER_ADDR": "h3"}
    before = refused_dials(cluster.nodes[3])
    only_second = ["sh", "-c", f"test $SLURM_PROCID = 0 || exec {program}"]
    left = cluster.popen(["srun", *words, *only_second], env=env, cwd="/tmp", **OPTIONS)
    assert wait_until(lambda: refused_dials(cluster.nodes[3]) > before + 3)
    status, text = srun(cluster, words, [program], env)
    assert status == 0, text
    assert read(text).results == due(2)
    left.terminate()
    left.communicate(timeout=LIMIT_S)
