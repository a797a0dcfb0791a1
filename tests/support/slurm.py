"""Slurm on one machine: a controller and nodes, each of them one of the hosts of hosts.py.

    with Cluster(nodes=4) as cluster:
        cluster.run(["srun", "--nodes=4", "hostname"])

The daemons are Debian's, and have keys, settings, sockets and logs in their own host's /tmp:
nothing of this machine's Slurm is read, and nothing remains. As a program it runs a command beside
the controller, a shell without one:

    slurm.py srun --nodes=4 --ntasks=8 --mpi=pmix PROGRAM
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from host_program import Program
from hosts import ENV, Command, Host, Hosts, why_not
from processes import wait_until

PROGRAMS = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client"}
FOLDER = "/tmp/slurm"
READY_S = 60.0
CPUS = 4  # As Slurm counts; the machine may have fewer.

SETTINGS = f"""
ClusterName=hosts
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={FOLDER}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PlugStackConfig=/dev/null
SwitchType=switch/none
ReturnToService=2
KillWait=5
SlurmctldTimeout=20
SlurmdTimeout=20
StateSaveLocation={FOLDER}/state
SlurmdSpoolDir={FOLDER}/spool
SlurmctldPidFile={FOLDER}/slurmctld.pid
SlurmdPidFile={FOLDER}/slurmd.pid
SlurmctldLogFile={FOLDER}/slurmctld.log
SlurmdLogFile={FOLDER}/slurmd.log
SlurmdParameters=config_overrides
"""

MUNGED = f"""
umask 077
mkdir {FOLDER} {FOLDER}/state {FOLDER}/spool
chmod 755 {FOLDER}
printf %s "$MUNGE_KEY" > {FOLDER}/munge.key
printf %s "$SETTINGS" > {FOLDER}/slurm.conf
chmod 644 {FOLDER}/slurm.conf
umask 022
munged --socket={FOLDER}/munge.socket --key-file={FOLDER}/munge.key \\
    --pid-file={FOLDER}/munged.pid --log-file={FOLDER}/munged.log --seed-file={FOLDER}/munged.seed
"""


def why_no_slurm() -> str:
    """Why there can be no cluster here, in one sentence; "" where there can."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=ENV["PATH"]) is None:
            return f"there is no {program}; Debian has it in {package} (./dev slurm installs it)"
    return why_not()


class Cluster:
    """Its daemons run from entry to exit."""

    def __init__(self, nodes: int = 4) -> None:
        self.hosts = Hosts(nodes + 1, seed=40)

    @property
    def controller(self) -> Host:
        """Where commands are given; no rank runs here."""
        return self.hosts[0]

    @property
    def nodes(self) -> list[Host]:
        """Where ranks run."""
        return list(self.hosts)[1:]

    def __enter__(self) -> Cluster:
        self.hosts.__enter__()
        try:
            self._start()
        except BaseException:
            self.hosts.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.hosts.close()

    def popen(self, command: Command, **options: Any) -> Program:
        """A program beside the controller; options are Popen's."""
        env: Mapping[str, str] = options.pop("env", ENV)
        return self.controller.popen(command, env=self._environment(env), **options)

    def run(
        self,
        command: Command,
        *,
        env: Mapping[str, str] = ENV,
        check: bool = True,
        timeout: float = READY_S,
    ) -> subprocess.CompletedProcess[str]:
        """Waits for a command, as Host.run() does."""
        return self.controller.run(
            command, env=self._environment(env), check=check, timeout=timeout
        )

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        # Of a job that this may itself be part of nothing is to be seen here.
        own = {name: text for name, text in env.items() if not name.startswith("SLURM")}
        return {**own, "SLURM_CONF": f"{FOLDER}/slurm.conf"}

    def _settings(self) -> str:
        lines = [f"SlurmctldHost={self.controller.name}({self.controller.ip4})", SETTINGS.strip()]
        for node in self.nodes:
            lines.append(f"NodeName={node.name} NodeAddr={node.ip4} CPUs={CPUS} RealMemory=1000")
        lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        return "\n".join([*lines, ""])

    def _start(self) -> None:
        given = {"MUNGE_KEY": secrets.token_hex(64), "SETTINGS": self._settings()}
        env = self._environment({**ENV, **given})
        for host in self.hosts:
            host.run(["sh", "-ec", MUNGED], env=env)
        self.run(["slurmctld", "-c"])
        for node in self.nodes:
            node.run(["slurmd", "-N", node.name], env=self._environment(ENV))
        said = ""

        def are_idle() -> bool:
            nonlocal said
            asked = self.run(["sinfo", "--noheader", "--Node", "--format=%N %T"], check=False)
            said = asked.stdout + asked.stderr
            return said.split() == [word for node in self.nodes for word in (node.name, "idle")]

        if not wait_until(are_idle, READY_S):
            raise RuntimeError(
                f"the nodes are not ready within {READY_S:.0f} s: {said}{self.logs()}"
            )

    def logs(self) -> str:
        """What the daemons wrote, for a failure's report."""
        said = []
        for host in self.hosts:
            asked = host.run(["sh", "-c", f"tail -n 15 {FOLDER}/*.log"], check=False)
            said.append(f"--- {host.name}\n{asked.stdout}")
        return "\n".join(said)


def main() -> int:
    """Runs a command beside the controller; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if reason := why_no_slurm():
        print(f"no Slurm here: {reason}", file=sys.stderr)
        return 2
    command = options.command or [os.environ.get("SHELL", "/bin/bash")]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Cluster(options.nodes) as cluster:
        program = cluster.popen(command, stdin=None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The command's, on the same terminal.
        return program.wait()


if __name__ == "__main__":
    sys.exit(main())
