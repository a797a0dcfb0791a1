"""What is typed for each launcher, by docs/launchers.md, and what has to be there before.

mpirun and mpiexec reach other hosts by a program called ssh, which here enters their namespaces.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hosts import BUILD, ENV, Host, Hosts
from processes import number_within

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "launchers.md"
# Each host has its own /tmp.
HOME = "/tmp/home"
SECRET = f"{HOME}/.sk-secret"
TOOLS = "/tmp/tools"
SK = str(BUILD / "tools" / "sk" / "sk")
LAYERS = BUILD.parent  # Where ./dev puts what it gets from PyPI.

PROGRAMS = {
    "c": [str(BUILD / "tests" / "launchers" / "launched")],
    "python": [sys.executable, "-B", str(HERE / "launched.py")],
}


def make_ready(hosts: Hosts) -> None:
    """What a user does once: the page's secret in a file of every host, and a way to start there.

    As behind ssh nothing of the caller's environment is there.
    """
    numbers = [f"{host.name}) pid={number_within(host.holder)};;" for host in hosts]
    clean = f"env -i PATH={ENV['PATH']} HOME={HOME}"
    ssh = [
        "#!/bin/sh",
        'while true; do case "$1" in -*) shift;; *) break;; esac; done',
        'host=$1; shift; case "$host" in',
        *numbers,
        '*) echo "no host $host" >&2; exit 1;; esac',
        f'exec nsenter --target=$pid --net --mount --ipc --uts -- {clean} sh -c "$*"',
    ]
    (secret,) = re.findall(r"^\(umask 077; .*\)$", PAGE.read_text(), re.MULTILINE)
    lines = [f"mkdir -p {HOME} {TOOLS}", f"cat > {TOOLS}/ssh <<'END'", *ssh, "END"]
    lines += [f"chmod 755 {TOOLS}/ssh"]
    for host in hosts:
        host.run(["sh", "-ec", "\n".join(lines)])
    hosts[0].run(["sh", "-ec", f"HOME={HOME}; {secret}"])
    made = hosts[0].run(["base64", "-w0", SECRET]).stdout
    for host in list(hosts)[1:]:
        host.run(["sh", "-ec", f"umask 077; echo {made} | base64 -d > {SECRET}"])


@dataclass(frozen=True)
class Start:
    """One command that starts ranks, on the host on which it is typed."""

    host: Host
    command: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)


# Of hosts, a rank's command, where the launcher is, and the first of ten free ports.
Starts = Callable[[Hosts, list[str], str, int], list[Start]]


@dataclass(frozen=True)
class Launcher:
    """A launcher, and what it is told to do."""

    name: str
    program: Callable[[], str | None]  # Where it is; None: it is not here.
    absent: str  # How to get it.
    starts: Starts
    ranks: int = 4
    hosts: int = 2

    @property
    def per_host(self) -> int:
        """Ranks on each of its hosts."""
        return self.ranks // self.hosts


def on_path(name: str) -> Callable[[], str | None]:
    return lambda: shutil.which(name, path=ENV["PATH"])


def of_layer(layer: str, name: str) -> Callable[[], str | None]:
    """A program of one of ./dev's Python environments."""
    path = LAYERS / f"venv-{layer}" / "bin" / name
    return lambda: str(path) if path.exists() else None


def typed(text: str, port: int, command: Sequence[str]) -> str:
    """The page's line as it is to be typed here."""
    text = text.replace("./program", shlex.join(command)).replace("29501", str(port + 1))
    return re.sub(r"\bnode(\d)", r"h\1", text).replace("29500", str(port))


def from_page(section: str, which: slice = slice(None), **env: str) -> Starts:
    """The blocks of a section, each typed on the host that its first line names."""

    def starts(hosts: Hosts, command: list[str], program: str, port: int) -> list[Start]:
        found = []
        shell = {**env, "PATH": f"{TOOLS}:{Path(program).parent}:{ENV['PATH']}", "HOME": HOME}
        for block in blocks(section)[which]:
            where = re.match(r"# on (?:node(\d)|each node)\n", block)
            number = where.group(1) if where else "0"
            places = list(hosts)[:2] if number is None else [hosts[int(number)]]
            text = typed(block, port, command).replace("mpirun", Path(program).name, 1)
            found += [Start(host, ["sh", "-ec", text], shell) for host in places]
        return found

    return starts


def blocks(section: str) -> list[str]:
    """The shell's lines of one section of docs/launchers.md."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE} has no line for {section}"
    return found


def sk_run(hosts: Hosts, command: list[str], _program: str, _port: int) -> list[Start]:
    return [Start(hosts[0], [SK, "run", "-n", "4", *command])]


def played(per_host: int, **variables: str) -> Starts:
    """Ranks with the variables that a launcher would set; {r}, {host} and {local} stand for its."""

    def starts(hosts: Hosts, command: list[str], _program: str, port: int) -> list[Start]:
        found = []
        for r in range(4):
            numbers = {"r": r, "host": r // per_host, "local": r % per_host}
            env = {name: text.format(**numbers) for name, text in variables.items()}
            place = {"MASTER_ADDR": "h0", "MASTER_PORT": str(port)}
            found.append(Start(hosts[r // per_host], command, {**place, **env}))
        return found

    return starts


FLUX = {
    "FLUX_JOB_ID": "f2Z9ek3q",
    "FLUX_JOB_SIZE": "4",
    "FLUX_JOB_NNODES": "2",
    "FLUX_TASK_RANK": "{r}",
    "FLUX_TASK_LOCAL_ID": "{local}",
    "FLUX_URI": "local:///run/flux/local-{host}",
    "PMI_RANK": "{r}",
    "PMI_SIZE": "4",
    "PMI_FD": "99",
    "SK_JOB_SECRET_FILE": SECRET,
}
# Of the page's manifest.
JOBSET = {
    "JOB_COMPLETION_INDEX": "{r}",
    "RANK": "{r}",
    "WORLD_SIZE": "4",
    "SK_JOB_ID": "0",
    "SK_JOB_SECRET": "as secretKeyRef gives it",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
}
HERE_ALWAYS = on_path("sh")
TORCHRUN = of_layer("torch", "torchrun")
TORCH = "torchrun comes with PyTorch, 3 GB: ./dev test --suite torch --install"
PACKAGES = "./dev test --suite launchers installs it"

ROOT_MAY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OPEN_MPI = from_page("Open MPI", **ROOT_MAY)

LAUNCHERS = [
    Launcher("sk_run", HERE_ALWAYS, "", sk_run, ranks=4, hosts=1),
    Launcher("by_hand", HERE_ALWAYS, "", from_page("By hand"), ranks=2),
    Launcher("torchrun", TORCHRUN, TORCH, from_page("torchrun", slice(0, 2))),
    Launcher("torchrun_elastic", TORCHRUN, TORCH, from_page("torchrun", slice(2, 3))),
    Launcher("openmpi4", on_path("mpirun.openmpi"), PACKAGES, OPEN_MPI),
    Launcher("openmpi5", of_layer("launchers", "mpirun"), PACKAGES, OPEN_MPI),
    Launcher("hydra", on_path("mpiexec.hydra"), PACKAGES, from_page("MPICH")),
    Launcher("flux_played", HERE_ALWAYS, "", played(2, **FLUX)),
    Launcher("jobset_played", HERE_ALWAYS, "", played(1, **JOBSET), hosts=4),
]
