"""Looks at compiled kernels: what they take of a multiprocessor, and which instructions they hold.

usage: check_kernels.py FOLDER WATCHED NVDISASM   (exit status 1: something is not as it must be)

FOLDER holds a NAME.TARGET.cubin and ptxas' report NAME.TARGET.cubin.txt for each target, as
cmake/SkCompileKernels.cmake leaves them. That compiler step refuses spills and frames already; here
the machine code itself is read, for what a report does not say: whether the matrix instructions and
asynchronous copies that the source asks for are there, and whether signals keep order and scope.

WATCHED holds the same kernels with watched waits. What is added there is run by single lanes, so no
instruction of it may wait for the other lanes of a warp: they may wait for that lane elsewhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

THREADS = 384  # Of a block; a multiprocessor has 65536 registers.
REGISTERS_MAX = 65536 // THREADS

# No kernel of ours: local memory, by whatever name.
FORBIDDEN = re.compile(r"^(LDL|STL)\b")
# Every interpreter: an acquire, a release and its add, at the scope of the GPU that ranks share; a
# look at the host's abort word and a verdict's release to the host, at the machine's.
SIGNALS = (
    r"^LDG\.E\.64\.STRONG\.GPU$", r"^REDG?\.E\.ADD\.64\.STRONG\.GPU$", r"^MEMBAR\..*GPU$",
    r"^LDG\.E\.STRONG\.SYS$", r"^MEMBAR\..*SYS$",
)  # fmt: skip
MMA = (r"^HMMA\.16816\.F32\.BF16$", r"^HMMA\.16816\.F32$", r"^LDGSTS\.", r"^LDSM\.")
# Products by warpgroups, boxes in by the copy engine, rows out in units, registers handed over.
ENGINE = (r"^UTMALDG\.2D$", r"^STG\.E\.128$", r"^SHFL\.BFLY$", r"^USETMAXREG\.TRY_ALLOC")
BOXES = (r"^HGMMA\.64x256x16\.F32", *ENGINE)
# By two blocks of a cluster: boxes to both, arrivals in the other's memory, a meeting at the end.
PAIRS = (
    *BOXES, r"^UTMALDG\.2D\.MULTICAST$", r"^SYNCS\.ARRIVE\.TRANS64\.RED\.", r"^UCGABAR_WAIT$",
)  # fmt: skip
NARROW = (r"^HGMMA\.64x128x16\.F32", *ENGINE)
# Of a B [k, n], and of an A [k, m] with it.
UNPACKED = ("kn_bf16", "kn_f16", "km_kn_bf16", "km_kn_f16")
# By target and kernel, patterns of which each must match an instruction.
REQUIRED = {
    **{(target, "sk_run_moves"): SIGNALS for target in ("sm_80", "sm_90a", "sm_100f")},
    **{(target, "sk_run_gemms"): SIGNALS + MMA for target in ("sm_80", "sm_90a", "sm_100f")},
    ("sm_90a", "sk_run_boxes_bf16"): SIGNALS + BOXES,
    ("sm_90a", "sk_run_boxes_f16"): SIGNALS + BOXES,
    ("sm_90a", "sk_run_narrow_bf16"): SIGNALS + NARROW,
    ("sm_90a", "sk_run_narrow_f16"): SIGNALS + NARROW,
    ("sm_90a", "sk_run_pairs_bf16"): SIGNALS + PAIRS,
    ("sm_90a", "sk_run_pairs_f16"): SIGNALS + PAIRS,
    **{("sm_90a", f"sk_run_boxes_{of}"): SIGNALS + BOXES for of in UNPACKED},
    **{("sm_90a", f"sk_run_narrow_{of}"): SIGNALS + NARROW for of in UNPACKED},
    **{("sm_90a", f"sk_run_pairs_{of}"): SIGNALS + PAIRS for of in UNPACKED},
    ("sm_90a", "sk_bare_boxes_bf16"): BOXES,
    ("sm_90a", "sk_bare_pairs_bf16"): PAIRS,
}

# What the compiler puts behind a shuffle or a vote where it cannot prove that all lanes come: a
# lane that does not holds up those that have. Neither shuffles themselves nor the branches to it
# are a measure, for code that all lanes run may be there twice, and proven once. Before sm_90 there
# is no such instruction, and both of these must be more.
COLLECTIVE, BRANCH, ASKED = r"^WARPSYNC\.COLLECTIVE$", r"^BRA\.DIV$", r"^(SHFL|VOTE|WARPSYNC)"
# Such a one too; but meetings of a cluster, which all lanes do come to, take it as well.
LANES_MEET, CLUSTERS_MEET = r"^WARPSYNC(?!\.COLLECTIVE)", r"^UCGABAR_WAIT$"

COMPILED = re.compile(r"Compiling entry function '(\w+)'")
USED = re.compile(r"Used (\d+) registers")
LABEL = re.compile(r"^\.text\.(\w+):")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


@dataclass
class Kernel:
    """One kernel of one target."""

    target: str
    name: str
    registers: int
    instructions: Counter[str]

    def findings(self) -> Iterator[str]:
        """Sentences on what is wrong with it."""
        if self.registers > REGISTERS_MAX:
            yield f"{self}: {self.registers} registers; {THREADS} threads leave {REGISTERS_MAX}"
        for instruction in self.instructions:
            if FORBIDDEN.match(instruction):
                yield f"{self}: {instruction}: no local memory in kernels of ours"
        for pattern in REQUIRED.get((self.target, self.name), ()):
            if not any(re.match(pattern, each) for each in self.instructions):
                yield f"{self}: no instruction like {pattern}"

    def __str__(self) -> str:
        return f"{self.name} for {self.target}"

    def line(self) -> str:
        """What a table says of it."""
        count = sum(self.instructions.values())
        return f"{self.target:8} {self.name:18} {self.registers:4} registers {count:6} instructions"


def read_report(text: str) -> dict[str, int]:
    """Registers by kernel."""
    registers = {}
    name = ""
    for line in text.splitlines():
        if found := COMPILED.search(line):
            name = found[1]
        elif found := USED.search(line):
            registers[name] = int(found[1])
    return registers


def read_sass(text: str) -> dict[str, Counter[str]]:
    """How often each instruction occurs, by kernel."""
    kernels: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    for line in text.splitlines():
        if found := LABEL.match(line):
            current = kernels.setdefault(found[1], Counter())
        elif found := INSTRUCTION.match(line):
            current[found[1]] += 1
    return kernels


def read_kernels(folder: Path, nvdisasm: str) -> list[Kernel]:
    """All kernels that were compiled into `folder`."""
    kernels = []
    for cubin in sorted(folder.glob("*.cubin")):
        target = cubin.name.split(".")[1]
        registers = read_report(Path(f"{cubin}.txt").read_text())
        done = subprocess.run(
            [nvdisasm, "-c", cubin], capture_output=True, text=True, check=True, timeout=300
        )
        for name, instructions in read_sass(done.stdout).items():
            kernels.append(Kernel(target, name, registers.get(name, 0), instructions))
    return kernels


def findings(kernels: list[Kernel]) -> list[str]:
    """Everything that is wrong, also with kernels that are not there."""
    found = [sentence for kernel in kernels for sentence in kernel.findings()]
    there = {(kernel.target, kernel.name) for kernel in kernels}
    found += [f"{name} for {target}: not there" for target, name in REQUIRED.keys() - there]
    return sorted(found)


def watched_findings(plain: list[Kernel], watched: list[Kernel]) -> list[str]:
    """What the watched forms do with all lanes of a warp, and the plain ones do not."""

    def count(kernel: Kernel, pattern: str) -> int:
        return sum(n for each, n in kernel.instructions.items() if re.match(pattern, each))

    forms = {(kernel.target, kernel.name): kernel for kernel in watched}
    found = []
    for kernel in plain:
        form = forms.get((kernel.target, kernel.name))
        if form is None:
            found.append(f"{kernel}: its watched form is not there")
            continue
        patterns = [COLLECTIVE] if count(kernel, CLUSTERS_MEET) else [COLLECTIVE, LANES_MEET]
        if not count(form, COLLECTIVE) and count(form, ASKED) > count(kernel, ASKED):
            patterns.append(BRANCH)
        for pattern in patterns:
            more, usual = count(form, pattern), count(kernel, pattern)
            if more > usual:
                found.append(f"{kernel}, watched: {more} instructions like {pattern}, not {usual}")
    return sorted(found)


def main() -> int:
    """Prints the table and the findings."""
    kernels = read_kernels(Path(sys.argv[1]), sys.argv[3])
    print("\n".join(kernel.line() for kernel in kernels))
    found = findings(kernels)
    found += watched_findings(kernels, read_kernels(Path(sys.argv[2]), sys.argv[3]))
    sound = "kernels: no spill, no frame, every instruction there; watched ones ask no other lane"
    print("\n".join(found) if found else sound)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
