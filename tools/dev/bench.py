"""./dev bench: builds the benchmarks in Release and runs bench/run.py against the peers."""

from __future__ import annotations

import subprocess
import sys

from builder import build
from product import Part, install
from setup import setup
from shell import BUILD, ROOT, DevError, run

RUNNER = ROOT / "bench" / "run.py"
OPTIONS = ROOT / "bench" / "options.py"
# What these measure is the package in build/venv: its kernel, a rank of it, its calls.
OF_PACKAGE = {"notebook", "preload", "misc", "python"}
WITHOUT_PROGRAMS = {"notebook", "preload"}  # As bench/run.py has it.


def stages_of(options: list[str]) -> set[str]:
    """The stages that are asked for; none stands for all of them."""
    for i, option in enumerate(options):
        if option.startswith("--stages"):
            value = option.partition("=")[2] or "".join(options[i + 1 : i + 2])
            return set(value.split(","))
    return set()


def bench(options: list[str]) -> int:
    """Everything measured is printed as it comes; bench/run.py writes the files."""
    if not RUNNER.exists():
        raise DevError("there is no benchmark yet (bench/run.py)")
    # Wrong options and questions about them are answered before anything is built.
    checked = subprocess.run([sys.executable, "-B", OPTIONS, *options], check=False)
    if checked.returncode != 0 or {"-h", "--help"} & set(options):
        return checked.returncode
    setup("bench")
    stages = stages_of(options)
    folder = BUILD if stages and stages <= WITHOUT_PROGRAMS else build("bench")
    if not stages or stages & OF_PACKAGE:
        build("release")  # The kernel as a user has it, and the stub ranks.
        install(Part.PACKAGE)
    python = BUILD / "venv" / "bin" / "python"
    env = {"SK_BENCH_BUILD": str(folder)}
    return run([python, RUNNER, *options], "benchmarks", env=env, stream=True, may_fail=True)
