"""The MPI side: builds our programs against each MPI and runs them as candidates."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from measure import machine
from measure.launch import Area, json_lines
from measure.rounds import Bench

E2E = Path(__file__).resolve().parent.parent / "e2e"
# Settings under which an MPI was seen faster than as it comes, at some size; found by trying all
# algorithms of Intel MPI on two ranks. Open MPI 5.0.11 and MPICH 5.0.2 from the package index have
# no XPMEM and showed no setting that is faster than their defaults.
TUNED: dict[str, dict[str, dict[str, str]]] = {
    "impi": {
        "alg2": {"I_MPI_ADJUST_ALLREDUCE": "2"},
        "alg3": {"I_MPI_ADJUST_ALLREDUCE": "3"},
        "avx512": {"I_MPI_SHM": "skx_avx512"},
    },
}


@dataclass(frozen=True)
class Variant:
    """One MPI under one setting."""

    peer: peers.Peer
    setting: str  # "" is as it comes.

    @property
    def name(self) -> str:
        return f"{self.peer.name}-{self.setting}" if self.setting else self.peer.name

    @property
    def env(self) -> dict[str, str]:
        extra = TUNED[self.peer.name][self.setting] if self.setting else {}
        return {**self.peer.env, **extra}


def variants(bench: Bench, names: Sequence[str]) -> list[Variant]:
    """The MPIs that can run here, each as it comes and tuned. Says which are missing and why."""
    found = []
    flags = machine.describe()["flags"]
    for name in names:
        peer = peers.mpi(name)
        if peer.why:
            bench.say(f"without {peer.title}: {peer.why}")
            continue
        found.append(Variant(peer, ""))
        for setting in TUNED.get(name, {}):
            if setting == "avx512" and "avx512f" not in flags:
                continue
            found.append(Variant(peer, setting))
    return found


def build(bench: Bench, peer: peers.Peer, source: str, libraries: Sequence[str] = ()) -> Path:
    """Compiles e2e/`source` with the flags of our own programs. Raises CalledProcessError."""
    compiler = "gcc" if source.endswith(".c") else "g++"
    standard = ["-std=gnu11", "-D_GNU_SOURCE"] if source.endswith(".c") else ["-std=c++20"]
    program = bench.scratch / "programs" / f"{Path(source).stem}-{peer.name}"
    program.parent.mkdir(parents=True, exist_ok=True)
    lib = peer.root / "lib"
    command = [
        compiler, *standard, "-O3", f"-I{peer.root / 'include'}", f"-I{E2E.parent.parent}",
        str(E2E / source), "-o", str(program), f"-L{lib}", "-lmpi", f"-Wl,-rpath,{lib}",
        "-Wl,--allow-shlib-undefined", *libraries,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{source} does not compile against {peer.title}: {done.stderr[-400:]}")
    return program


def run(
    variant: Variant,
    ranks: int,
    program: Path,
    arguments: Sequence[str],
    *,
    timeout_s: float,
    env: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """One launch under mpirun. The ranks share an area in /dev/shm; they pin themselves."""
    with Area(Path("/dev/shm")) as area:
        command = [*variant.peer.launch, "-n", str(ranks), str(program), area, *arguments]
        return json_lines(command, {**variant.env, **(env or {})}, timeout_s)


def published(used: Sequence[Variant]) -> dict[str, Any]:
    """Title and forced variables of each, for the result file, free of this machine's paths."""

    def public(env: dict[str, str]) -> dict[str, str]:
        paths = ("LD_LIBRARY_PATH", "PATH", "I_MPI_ROOT", "OPAL_PREFIX")
        return {name: value for name, value in env.items() if name not in paths}

    return {v.name: {"title": v.peer.title, "forced": public(v.env)} for v in used}
