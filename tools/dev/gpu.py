"""./dev gpu: checks and benchmarks on a GPU, from a folder that needs nothing but glibc."""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from builder import build
from kernels import find_nvcc
from setup import PYTHON, setup
from shell import BUILD, ROOT, DevError, output_of, run, say
from wheel import requested, wheel

BUNDLE = BUILD / "gpu-bundle"
OUT = BUILD / "gpu-visit"  # What a visit leaves, where it is made from here.
SPARE_S = 300.0  # Beyond a visit's budget: to start the GPU, and to end what hangs.
RESULTS = ROOT / "bench" / "results"
BYTES_MAX = 60 * 10**6
# What is tried of a bundle before it travels: every program, and every way to a kernel.
OF_FAKE = tuple(
    word
    for name in (
        "smoke-.*", "bare.*", "versus.*", "moves", "products-2-ranks", "golden", "pair-results",
        "gemm-4096x4096x4096", "stalls-4096x4096x512", "latency.*", "fused-4096x4096x4096-2-ranks",
        "endurance-1", "collectives-allreduce-2-ranks", "memcheck-1",
    )
    for word in ("--only", name)
)  # fmt: skip
PLAIN = ("tests/gpu/gpu_silicon_test", "tests/gpu/gpu_endurance_test", "bench/gpu/gpu_bench")
# And with kernels that say who waits where when they hang.
PROGRAMS = (*PLAIN, *(f"{program}_watched" for program in PLAIN))
LIBRARIES = ("cuda/libsk_cuda.so.0", "cuda/watch/libsk_cuda_watched.so.0")
API = "gpu_api_test"
TARGETS = ("sk_cuda", "sk_cuda_watched", *(Path(program).name for program in PROGRAMS))
PYTHON_FILES = (
    "gpu/__init__.py", "gpu/attempt.py", "gpu/awake.py", "gpu/book.py", "gpu/package.py",
    "gpu/places.py", "gpu/process.py", "gpu/publish.py", "gpu/steps.py", "gpu/summary.py",
    "gpu/visit.py", "measure/__init__.py", "measure/goals.py", "measure/stats.py",
)  # fmt: skip
# Of glibc, which every machine has, of this version or a later one.
GLIBC = re.compile(r"(linux-vdso|libc|libm|libdl|librt|libpthread|ld-linux[-\w]*)\.so(\.\d+)?")
LDD_LINE = re.compile(r"^\s*(\S+)(?: => (.*?))?(?: \(0x[0-9a-f]+\))?$")
ELF = b"\x7fELF"
RUN = """#!/usr/bin/env python3
\"\"\"Checks and benchmarks on this machine's GPU, which needs a driver; --help says more.\"\"\"

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu.visit import main

sys.exit(main(sys.argv[1:]))
"""


def elves(folder: Path) -> list[Path]:
    """Programs and libraries, but for the one that runs with what is in the wheel."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    files = [path for path in files if path.name != API]
    return [path for path in files if path.open("rb").read(4) == ELF]


def foreign(ldd: str, folder: Path) -> list[str]:
    """Of `ldd`'s output, what is neither glibc's nor under `folder`; what was not found, too."""
    found = []
    for line in ldd.splitlines():
        match = LDD_LINE.match(line)
        if match is None or line.strip() == "statically linked":
            continue
        name, path = Path(match[1]).name, match[2]
        if path == "not found":
            found.append(f"{name} is not found")
        elif GLIBC.fullmatch(name) is None and not Path(path or match[1]).is_relative_to(folder):
            found.append(f"{name} is the system's: {path or match[1]}")
    return found


def glibc_needed(data: bytes) -> tuple[int, ...]:
    """The newest version of glibc's symbols that a program or library names."""
    found = re.findall(rb"\x00GLIBC_([0-9]+(?:\.[0-9]+)+)(?=\x00)", data)
    return max((tuple(int(part) for part in text.split(b".")) for text in found), default=(0,))


def prove(folder: Path) -> str:
    """The glibc that `folder` needs; DevError where it needs more, or is too large."""
    problems = []
    newest: tuple[int, ...] = (0,)
    files = elves(folder)
    if not files:
        raise DevError(f"{folder} holds no program")
    for path in files:
        done = subprocess.run(
            ["ldd", str(path)], capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin"}
        )
        why = foreign(done.stdout, folder) if done.returncode == 0 else [done.stderr.strip()]
        problems += [f"{path.relative_to(folder)}: {each}" for each in why]
        newest = max(newest, glibc_needed(path.read_bytes()))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > BYTES_MAX:
        problems.append(f"it has {size / 1e6:.1f} MB, at most {BYTES_MAX / 1e6:.0f} may be carried")
    if problems:
        raise DevError("the bundle would not run elsewhere:\n  " + "\n  ".join(problems))
    version = ".".join(map(str, newest))
    say(f"{len(files)} programs and libraries need glibc {version} and nothing else")
    say(f"{folder}: {size / 1e6:.1f} MB")
    return version


def try_elsewhere(folder: Path) -> None:
    """Moves a copy away and runs it there with the CPU in the GPU's place."""
    away = BUILD / "gpu-bundle-elsewhere"
    shutil.rmtree(away, ignore_errors=True)
    shutil.copytree(folder, away, symlinks=True)
    hidden = folder.with_name("gpu-bundle-hidden")
    folder.rename(hidden)  # So that nothing is found where it was made.
    try:
        what = "the bundle, moved, on a fake GPU"
        command = [away / "run", "--fake", "--budget", "500", "--limit", "60"]
        run([*command, *OF_FAKE], what, cwd=away, timeout_s=560)
    finally:
        hidden.rename(folder)
        shutil.rmtree(away, ignore_errors=True)


def commit() -> str:
    """What the bundle is made of; "+" and how, when tracked files differ from it."""
    made = output_of(["git", "rev-parse", "--short=12", "HEAD"]).strip()
    changes = output_of(["git", "diff", "HEAD"])
    return f"{made}+{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else made


def add_package(fresh: Path, pythons: list[str]) -> None:
    """The Python package for these interpreters, its tests with torch, and the page they read."""
    tests = fresh / "tests" / "gpu" / "python"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tests" / "gpu" / "python", tests, ignore=ignored)
    (fresh / "docs").mkdir()
    shutil.copy2(ROOT / "docs" / "gpu-python.md", fresh / "docs")
    if pythons:
        wheel(requested(pythons), cuda=True, to=fresh / "dist")
        made = build("gpu", API)
        (fresh / "api").mkdir()
        shutil.copy2(made / "tests" / "gpu" / API, fresh / "api")


def bundle(pythons: list[str] | None = None) -> None:
    """Builds for all targets and puts together what a machine with a GPU needs."""
    setup("gpu")
    made = build("gpu", *TARGETS, options=[f"-DSK_NVCC={find_nvcc()}"])
    fresh = BUILD / "gpu-bundle-new"
    shutil.rmtree(fresh, ignore_errors=True)
    (fresh / "bin").mkdir(parents=True)
    for program in PROGRAMS:
        shutil.copy2(made / program, fresh / "bin")
    for name in LIBRARIES:  # Under the names that they are loaded by.
        shutil.copy2((made / name).resolve(), fresh / "bin" / Path(name).name)
    shutil.copytree(ROOT / "tests/golden/plans", fresh / "plans")
    for name in PYTHON_FILES:
        (fresh / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / "bench" / name, fresh / name)
    add_package(fresh, pythons or [])
    (fresh / "run").write_text(RUN)
    (fresh / "run").chmod(0o755)
    head = {"commit": commit(), "glibc": prove(fresh)}
    (fresh / "bundle.json").write_text(json.dumps(head) + "\n")
    shutil.rmtree(BUNDLE, ignore_errors=True)
    fresh.rename(BUNDLE)
    try_elsewhere(BUNDLE)
    say(f"{BUNDLE}/run needs a GPU, its driver and Python; so does ./dev gpu beside it")


def absent_driver() -> str:
    """Why there can be no GPU here, or ""."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        return f"no NVIDIA driver on this machine: {problem}"
    return ""


def results(visit: Path) -> None:
    """Files and pictures under bench/results from what a visit has left, here or elsewhere."""
    # Of its own process: bench has a package of this file's name.
    command = [sys.executable, "-B", "-m", "gpu.publish", visit.resolve(), RESULTS]
    run(command, "result files", stream=True, cwd=ROOT / "bench")
    python = PYTHON if PYTHON.exists() else sys.executable
    has_plots = subprocess.run([python, "-c", "import matplotlib"], capture_output=True)
    if has_plots.returncode == 0:
        run([python, "-B", ROOT / "bench/plots.py"], "pictures", may_fail=True)
    else:
        say("no pictures: this Python has no matplotlib; bench/plots.py makes them elsewhere")


def visit_options(words: list[str]) -> argparse.Namespace:
    """Of the bundle's run, what matters here; it judges them all itself."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("SK_GPU_OUT") or OUT))
    parser.add_argument("--budget", type=float, default=540)
    for name in ("--fake", "--list", "--help"):
        parser.add_argument(name, action="store_true")
    return parser.parse_known_args(words)[0]


def gpu(words: list[str]) -> int:
    """Runs the bundle with these options; its exit status. What is done is not done again."""
    options = visit_options(words)
    is_without_gpu = options.fake or options.list or options.help
    why = "" if is_without_gpu else absent_driver()
    if why:
        raise DevError(why)
    if not (BUNDLE / "run").exists():
        raise DevError(
            f"{BUNDLE} is not there. Where a compiler and packages can be had, ./dev gpu --bundle "
            "makes it; a machine with nothing but a GPU is brought one that was made elsewhere"
        )
    command = [sys.executable, "-B", BUNDLE / "run", "--out", options.out, *words]
    limit_s = options.budget + SPARE_S
    status = run(command, "the GPU", stream=True, may_fail=True, timeout_s=limit_s)
    if not is_without_gpu and (options.out / "visit.json").exists():
        results(options.out / "visit.json")
    return status
