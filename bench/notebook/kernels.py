"""The kernels that are compared: ours on N ranks, ipykernel, ipyparallel on N engines."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import peers

from notebook.client import Kernel

REPO = Path(__file__).resolve().parent.parent.parent
IPYPARALLEL_START = """
import logging, ipyparallel
cluster = ipyparallel.Cluster(n={ranks}, log_level=logging.ERROR)
client = cluster.start_and_connect_sync(activate=True)
"""


@dataclass(frozen=True)
class Candidate:
    """How a kernel is started, and how its user would run a cell on all ranks."""

    name: str
    command: tuple[str, ...]
    ranks: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    prepare: str = ""  # A cell before the first one that counts; part of the start.
    magic: str = ""  # A line above each cell.

    def open(self, scratch: Path) -> Kernel:
        return Kernel(self.command, scratch, self.env)

    def cell(self, code: str) -> str:
        return f"{self.magic}\n{code}" if self.magic else code


def build() -> Path:
    """Where `sk` and the stub rank are: the Release build that ./dev test makes, too."""
    return Path(os.environ.get("SK_BENCH_KERNEL_BUILD", REPO / "build" / "release"))


def ours(ranks: int) -> Candidate:
    """`sk kernel` with Python ranks of this interpreter."""
    return _ours(f"libsk-{ranks}", ranks, (sys.executable, "-m", "libsk.kernel"))


def stub(ranks: int) -> Candidate:
    """`sk kernel` with ranks that are a small C++ program: what the control plane costs."""
    return _ours(f"stub-{ranks}", ranks, (str(build() / "tests/support/sk-stub-rank"),))


def _ours(name: str, ranks: int, program: tuple[str, ...]) -> Candidate:
    sk = str(build() / "tools" / "sk" / "sk")
    command = (sk, "kernel", "-f", "{connection_file}", "--ranks", str(ranks), "--", *program)
    return Candidate(name, command, ranks, {"SK_PROGRAM": sk})


def _peer_python() -> Path:
    return peers.folder() / "notebook" / "bin" / "python"


def ipykernel() -> Candidate:
    """The single-process kernel that everybody has."""
    command = (str(_peer_python()), "-m", "ipykernel_launcher", "-f", "{connection_file}")
    return Candidate("ipykernel", command)


def ipyparallel(ranks: int) -> Candidate:
    """A cluster started from an ipykernel; cells by its %%px."""
    command = (str(_peer_python()), "-m", "ipykernel_launcher", "-f", "{connection_file}")
    return Candidate(
        f"ipyparallel-{ranks}",
        command,
        ranks,
        prepare=IPYPARALLEL_START.format(ranks=ranks),
        magic="%%px",
    )


def missing() -> str:
    """Why nothing can be measured, or ""."""
    needs = {
        build() / "tools" / "sk" / "sk": "./dev bench builds it",
        build() / "tests" / "support" / "sk-stub-rank": "./dev bench builds it",
        _peer_python(): "python3 bench/peers.py notebook installs it",
    }
    lacking = [f"{path} ({how})" for path, how in needs.items() if not path.exists()]
    return f"there is no {', no '.join(lacking)}" if lacking else ""
