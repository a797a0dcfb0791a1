"""Suites of others against our kernel: their source packages, and a run of a file of theirs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ROOT / "build" / "outside"
SK = Path(os.environ.get("SK_BUILD_DIR", ROOT / "build" / "release")) / "tools" / "sk" / "sk"
LIMIT_S = 280


def unpack(name: str, version: str) -> Path:
    """The folder of a source package; downloaded into build/ when it is not there."""
    folder = OUTSIDE / f"{name}-{version}"
    if folder.exists():
        return folder
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    wanted = ["--no-binary", name, f"{name}=={version}", "-d", str(OUTSIDE)]
    done = subprocess.run(pip + wanted, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        pytest.skip(f"{name} cannot be had from PyPI: {done.stderr.strip()[-300:]}")
    shutil.unpack_archive(folder.with_name(folder.name + ".tar.gz"), OUTSIDE)
    return folder


def environment(work: Path, ranks: int, python: str | Path) -> dict[str, str]:
    """Where "python3" is our kernel with ranks of `python`; an IPython folder that nobody used."""
    spec = work / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [str(SK), "kernel", "-f", "{connection_file}", "--ranks", str(ranks)]
    argv += ["--", str(python), "-m", "libsk.kernel"]
    text = {"argv": argv, "display_name": "x", "language": "python", "interrupt_mode": "message"}
    (spec / "kernel.json").write_text(json.dumps(text))
    paths = {"JUPYTER_PATH": str(work), "IPYTHONDIR": str(work / "ipython")}
    return {**os.environ, **paths, "PYTHONPATH": str(ROOT / "tests" / "kernel")}


def passed(tests: list[str], folder: Path, env: dict[str, str]) -> int:
    """How many tests of others passed, run as they are from `folder`; one that failed fails ours.

    A skipped part of a test (history by range, which ipykernel's samples leave out) is no loss.
    """
    command = [sys.executable, "-m", "pytest", "--noconftest", "-c", os.devnull, "--rootdir", "."]
    command += ["-p", "no:cacheprovider", "-p", "retarget", "-q", *tests]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) passed", done.stdout)
    return int(found[1]) if found else 0
