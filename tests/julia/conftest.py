"""Kernels with Julia ranks: one of each number of ranks for all tests of a run, for Julia starts
slowly, and what a cell led to as tests of the other kernels see it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).resolve().parents[2]
_OTHERS = ROOT / "tests" / "kernel"


def _conftest_of_kernels() -> ModuleType:
    """That of tests/kernel, which has the client; the name is this file's."""
    sys.path.append(str(_OTHERS))
    about = importlib.util.spec_from_file_location("kernel_conftest", _OTHERS / "conftest.py")
    assert about is not None and about.loader is not None
    module = importlib.util.module_from_spec(about)
    about.loader.exec_module(module)
    return module


_kernel_conftest = _conftest_of_kernels()
BUILD: Path = _kernel_conftest.BUILD
SK: Path = _kernel_conftest.SK
Cell = _kernel_conftest.Cell
Kernel = _kernel_conftest.Kernel
wait_until = _kernel_conftest.wait_until

START_S = 300.0
"""Julia compiles the rank's program at its start where no image was made."""


def find_julia() -> str:
    """The program, as ./dev test found it."""
    found = os.environ.get("SK_JULIA")
    if not found or found == "None":
        pytest.skip("no Julia here; ./dev test --suite julia --install gets it")
    return found


def install(julia: str, kernels: Path, *more: str) -> str:
    """`sk install` into a prefix; what it says."""
    command = [str(SK), "install", "--language", "julia", "--julia", julia]
    command += ["--prefix", str(kernels), *more]
    env = {**os.environ, "SK_LIBRARY": str(BUILD / "libsk.so.0")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1800, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def julia() -> str:
    """The program that ranks run."""
    return find_julia()


@pytest.fixture(scope="session")
def spec(julia: str) -> Path:
    """The folder of kernelspecs, with a superkernel-julia: SK_JULIA_KERNELS, or made here. With
    SK_JULIA_IMAGE=1 with its image, which costs some minutes."""
    if "SK_JULIA_KERNELS" in os.environ:
        return Path(os.environ["SK_JULIA_KERNELS"])
    prefix = Path(tempfile.mkdtemp(prefix="sk-julia-"))
    install(julia, prefix, *([] if os.environ.get("SK_JULIA_IMAGE") == "1" else ["--no-image"]))
    return prefix / "share" / "jupyter" / "kernels"


def start(kernels: Path, ranks: int, name: str = "superkernel-julia") -> Kernel:
    """A kernel of this kernelspec."""
    manager = KernelManager(
        kernel_name=name, kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(kernels)])
    )
    manager.start_kernel(
        cwd=str(kernels),
        env={**os.environ, "SK_NRANKS": str(ranks), "JULIA_LOAD_PATH": "@stdlib"},
    )
    kernel = Kernel(manager)
    sent = kernel.start("nothing")
    reply = kernel.client.get_shell_msg(timeout=START_S)["content"]
    assert reply["status"] == "ok", reply  # Else each test that uses it fails, and says less.
    while True:
        message = kernel.client.get_iopub_msg(timeout=START_S)
        if (
            message["parent_header"].get("msg_id") == sent
            and message["content"].get("execution_state") == "idle"
        ):
            return kernel


Kernels = Callable[[int], Kernel]

failed: list[str] = []
"""Tests that did."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes a failure."""
    if report.failed:
        failed.append(report.nodeid)


@pytest.fixture(scope="session")
def kernels(spec: Path) -> Iterator[Kernels]:
    """By their number of ranks. Tests behind one that failed get new ones: a cell that it left
    waiting is not what they are about."""
    running: dict[int, Kernel] = {}
    failures = len(failed)

    def of(ranks: int) -> Kernel:
        nonlocal failures
        if len(failed) > failures:
            failures = len(failed)
            while running:
                running.popitem()[1].stop()
        if ranks not in running:
            running[ranks] = start(spec, ranks)
        return running[ranks]

    yield of
    for kernel in running.values():
        kernel.stop()


@pytest.fixture(params=[1, 4])
def ranks(request: pytest.FixtureRequest) -> int:
    """How many ranks the kernel has."""
    return int(request.param)


@pytest.fixture
def kernel(kernels: Kernels, ranks: int) -> Kernel:
    """The kernel of that many ranks."""
    return kernels(ranks)


def as_json(path: Path) -> dict[str, object]:
    """What Jupyter reads."""
    read: dict[str, object] = json.loads(path.read_text())
    return read
