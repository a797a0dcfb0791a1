"""./dev arm: libsk for AArch64, built on this machine, and by qemu-user the unit tests of what
depends on the processor: the kernels, what they stand on, and operations' schemas.

The libraries of packages.txt lie in build/aarch64/sysroot, unpacked and not installed: this
machine stays of one architecture.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import debian
from builder import build, configure
from results import FAILED, Outcome, Results, read_junit
from setup import install_packages, read_packages
from shell import BUILD, LOGS, ROOT, output_of, run
from test import close

HOME = BUILD / "aarch64"
SYSROOT = HOME / "sysroot"
# The compiler has these of its own, and headers of two origins would mix.
NOT_UNPACKED = ("libc6-dev_", "linux-libc-dev_", "libstdc++-12-dev_", "libgcc-12-dev_")
PROGRAM = re.compile(r"^(tests/unit/(?:base|op|exec/cpu/tile)/\w+_test): ", re.MULTILINE)
PROGRAM_TIMEOUT_S = 900  # Ten to thirty times what it takes by itself.


def arm(pattern: str | None) -> int:
    """Builds the library and the tests, and runs these."""
    install_packages("arm")
    make_sysroot()
    folder = configure("arm", [f"-DSK_SYSROOT={SYSROOT}"])
    programs = PROGRAM.findall(output_of(["ninja", "-C", folder, "-t", "targets", "all"]))
    build("arm", "sk", *programs)
    results = Results()
    for program in programs:
        results.add(run_program(folder / program, pattern))
    return close(results, filtered=bool(pattern))


def run_program(program: Path, pattern: str | None) -> list[Outcome]:
    """By the emulator, with the libraries that were unpacked."""
    junit = program.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    command = ["qemu-aarch64", "-L", SYSROOT, program, f"--gtest_output=xml:{junit}"]
    command += [f"--gtest_filter=*{pattern}*"] if pattern else []
    status = run(command, f"{program.name} (AArch64)", may_fail=True, timeout_s=PROGRAM_TIMEOUT_S)
    outcomes = read_junit(junit) if junit.exists() else []
    if status != 0 and not any(outcome.state == FAILED for outcome in outcomes):
        outcomes.append(Outcome(program.name, FAILED, f"exit status {status}; see {LOGS}"))
    return outcomes


def libraries() -> list[str]:
    """What a build needs of packages.txt that is of a processor."""
    names = read_packages((ROOT / "packages.txt").read_text(), "arm")
    return [name for name in names if name.endswith("-dev") and name != "python3-dev"]


def make_sysroot() -> None:
    """Loads and unpacks what is not there yet, of the release that this machine is."""
    wanted = "\n".join(libraries())
    stamp = SYSROOT / "packages"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    (HOME / "state").mkdir(parents=True)
    (HOME / "state" / "status").touch()  # Nothing of that architecture is installed.
    apt = debian.apt_get(
        HOME / "apt",
        {
            "APT::Architecture": "arm64",
            "APT::Architectures::": "arm64",
            "Dir::State::status": HOME / "state" / "status",
            "Dir::State::extended_states": HOME / "state" / "extended_states",
        },
    )
    run([*apt, "update"], "apt-get update for arm64", env=debian.QUIET)
    load = [*apt, "-y", "--no-install-recommends", "--download-only", "install", *libraries()]
    run(load, "loading libraries for arm64", env=debian.QUIET)
    archives = [
        each
        for each in sorted((HOME / "apt" / "archives").glob("*.deb"))
        if not each.name.startswith(NOT_UNPACKED)
    ]
    each_by_itself = 'for archive; do dpkg-deb -x "$archive" "$0"; done'
    run(["sh", "-ec", each_by_itself, SYSROOT, *archives], "unpacking libraries for arm64")
    stamp.write_text(wanted)
