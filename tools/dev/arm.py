"""./dev arm: libsk for AArch64, built on this machine, and by qemu-user its C++ tests.

Those of tests/unit. What the emulator cannot run of them is named in LEFT_OUT, and reported as
skipped.

The libraries of packages.txt lie in build/aarch64/sysroot, unpacked and not installed: this
machine stays of one architecture.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import debian
from builder import build, configure
from results import FAILED, SKIPPED, Outcome, Results, read_junit
from setup import install_packages, read_packages
from shell import BUILD, LOGS, ROOT, DevError, output_of, run
from test import close

HOME = BUILD / "aarch64"
SYSROOT = HOME / "sysroot"
# The compiler has these of its own, and headers of two origins would mix.
NOT_UNPACKED = ("libc6-dev_", "linux-libc-dev_", "libstdc++-12-dev_", "libgcc-12-dev_")
PROGRAM = re.compile(r"^(tests/unit/(?:\w+/)*(\w+_test)): ", re.MULTILINE)
PROGRAM_TIMEOUT_S = 900  # Ten to thirty times what it takes by itself.
ENVIRONMENT = {"SK_TEST_PARTS": "0.05"}  # Of random plans, of which the others show nothing new.


@dataclass(frozen=True)
class LeftOut:
    """What the emulator does not run: a program, or cases of it in the words of googletest."""

    program: str
    why: str
    cases: str = "*"


LEFT_OUT = (
    LeftOut(
        "transport_shm_connect_test",
        "its ranks are programs that it starts, and this machine's kernel starts none of AArch64",
    ),
    LeftOut("transport_shm_strangers_test", "its ranks are such programs, too"),
    LeftOut(
        "control_test",
        "the test starts itself again",
        "StackProbeDeath.AThreadThatAllocatesOrTellsOfFramesAnswersAndGoesOn",
    ),
    LeftOut(
        "transport_shm_watch_test",
        "the emulator's /proc/self/stat gives a forked process the start of its parent",
        "ProcessName.TellsAProcessFromTheNextOfItsPid:WatchTest.TellsWhoEndedInItsOrderToAll"
        ":WatchTest.TheWatchersEndEndsTheQueueAndIsSeen",
    ),
    LeftOut(
        "transport_shm_memory_test",
        "the emulator books address space page by page, which takes minutes for each segment",
    ),
)


def arm(pattern: str | None) -> int:
    """Builds the library and the tests, and runs these."""
    install_packages("arm")
    make_sysroot()
    folder = configure("arm", [f"-DSK_SYSROOT={SYSROOT}"])
    programs = chosen(output_of(["ninja", "-C", folder, "-t", "targets", "all"]))
    build("arm", "sk", *programs)
    results = Results()
    for program in programs:
        results.add(run_program(folder / program, pattern))
    if not pattern:
        results.add(
            Outcome(f"{each.program}: {each.cases}", SKIPPED, each.why) for each in LEFT_OUT
        )
    return close(results, filtered=bool(pattern))


def chosen(targets: str) -> list[str]:
    """The programs among ninja's targets that can be run here."""
    whole = {each.program for each in LEFT_OUT if each.cases == "*"}
    return [path for path, name in PROGRAM.findall(targets) if name not in whole]


def gtest_filter(program: str, pattern: str | None) -> str:
    """What `pattern` asks for of the program's cases, without those that are left out."""
    wanted = f"*{pattern}*" if pattern else "*"
    without = [each.cases for each in LEFT_OUT if each.program == program]
    return f"{wanted}-{':'.join(without)}" if without else wanted


def run_program(program: Path, pattern: str | None) -> list[Outcome]:
    """By the emulator, with the libraries that were unpacked."""
    junit = program.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    command = ["qemu-aarch64", "-L", SYSROOT, program, f"--gtest_output=xml:{junit}"]
    command += [f"--gtest_filter={gtest_filter(program.name, pattern)}"]
    what = f"{program.name} (AArch64)"
    try:
        status = run(command, what, env=ENVIRONMENT, may_fail=True, timeout_s=PROGRAM_TIMEOUT_S)
    except DevError as late:  # The others are run all the same.
        return [Outcome(program.name, FAILED, str(late))]
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
