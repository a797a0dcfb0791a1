"""What the machine is, and what it did while a round ran."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Flags that decide which kernels are picked, here and in the peers.
FLAGS = (
    "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
    "amx_bf16", "amx_int8", "hypervisor",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """CPU, cores, kernel, memory: the head of every result file."""
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(.+?)\s*:\s*(.*)$", text.split("\n\n")[0], re.M))
    flags = set(fields.get("flags", "").split())
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return {
        "cpu": fields.get("model name", platform.machine()),
        "cpu_family_model": f"{fields.get('cpu family', '?')}/{fields.get('model', '?')}",
        "flags": [flag for flag in FLAGS if flag in flags],
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def slug(machine: dict[str, Any]) -> str:
    """A short file-name part for the CPU: vendor words, family and model, AMX or not."""
    name = re.sub(r"\(R\)|\(TM\)|CPU|Processor|@.*", "", machine["cpu"])
    words = "-".join(re.findall(r"[a-z0-9]+", name.lower())[:3])
    family = machine["cpu_family_model"].replace("/", "-")
    amx = "-amx" if "amx_bf16" in machine["flags"] else ""
    return f"{words}-{family}{amx}"


def commit(repo: Path) -> str:
    """The commit measured, with "+" when tracked files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(repo), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    # Results of earlier stages do not make the program another one.
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return (head or "unknown") + ("+" if dirty else "")


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of CPU time of all cores since boot, and of this process with waited-for children."""

    busy: float
    stolen: float
    own: float
    wall: float


def cpu_times() -> CpuTimes:
    """A reading; two of them give what a round cost."""
    ticks = os.sysconf("SC_CLK_TCK")
    first = Path("/proc/stat").read_text().split("\n", 1)[0]
    values = [int(word) / ticks for word in first.split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = values[:8]
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return CpuTimes(user + nice + system + irq + softirq, steal, own, time.monotonic())


def foreign_cores(before: CpuTimes, after: CpuTimes) -> float:
    """Cores' worth of time that other processes took. All children must have been waited for."""
    wall = after.wall - before.wall
    busy = after.busy - before.busy
    return max(0.0, busy - (after.own - before.own)) / wall if wall > 0 else 0.0


def stolen_cores(before: CpuTimes, after: CpuTimes) -> float:
    """Cores' worth of time that the hypervisor gave to somebody else."""
    wall = after.wall - before.wall
    return (after.stolen - before.stolen) / wall if wall > 0 else 0.0


@dataclass(frozen=True)
class Probe:
    """One reading of all probes."""

    cores: list[dict[str, Any]]  # Per core: clock, peaks, copy bandwidth.
    place: list[float]  # Of cores 0 and 1, as placement.Look has it; empty with one core.

    def clocks(self) -> dict[int, float]:
        """What the discard rule looks at: FMA latency of each core, which follows its clock."""
        return {reading["core"]: reading["fma_ns"] for reading in self.cores}

    def as_dict(self) -> dict[str, Any]:
        return {"cores": self.cores, "place": self.place}


def _read(program: Path, argument: str) -> dict[str, Any]:
    done = subprocess.run(
        [str(program), argument], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def place(program: Path) -> list[float]:
    """Where cores 0 and 1 lie to each other; empty where there is one core, or no answer."""
    if (os.cpu_count() or 1) < 2:
        return []
    read = _read(program, "place")["place"]
    return read if read[0] > 0.0 else []


def probe(program: Path) -> Probe:
    """The probes of every core, one after the other."""
    cores = [_read(program, str(core)) for core in range(os.cpu_count() or 1)]
    return Probe(cores, place(program))
