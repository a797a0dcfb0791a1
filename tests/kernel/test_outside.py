"""Others' tests of a Python kernel, as they are: jupyter_kernel_test's samples of ipykernel, and
ipykernel's message-spec tests. Their source packages come from PyPI into build/, once.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SK

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

OUTSIDE = ROOT / "build" / "outside"
PACKAGES = {"jupyter_kernel_test": "0.7.0", "ipykernel": "7.4.0"}
SUITES = {
    "samples": ("jupyter_kernel_test", "test_ipykernel.py", 12),
    "message-spec": ("ipykernel", "tests/test_message_spec.py", 24),
}
LIMIT_S = 280


def unpack(name: str) -> Path:
    """The folder of a source package; downloaded when it is not there."""
    folder = OUTSIDE / f"{name}-{PACKAGES[name]}"
    if folder.exists():
        return folder
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    wanted = ["--no-binary", name, f"{name}=={PACKAGES[name]}", "-d", str(OUTSIDE)]
    done = subprocess.run(pip + wanted, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        pytest.skip(f"{name} cannot be had from PyPI: {done.stderr.strip()[-300:]}")
    shutil.unpack_archive(folder.with_name(folder.name + ".tar.gz"), OUTSIDE)
    return folder


def environment(work: Path, ranks: int) -> dict[str, str]:
    """Where "python3" is our kernel, with an IPython folder that nobody has used."""
    spec = work / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [str(SK), "kernel", "-f", "{connection_file}", "--ranks", str(ranks)]
    argv += ["--", sys.executable, "-m", "libsk.kernel"]
    text = {"argv": argv, "display_name": "x", "language": "python", "interrupt_mode": "message"}
    (spec / "kernel.json").write_text(json.dumps(text))
    paths = {"JUPYTER_PATH": str(work), "IPYTHONDIR": str(work / "ipython")}
    return {**os.environ, **paths, "PYTHONPATH": str(Path(__file__).parent)}


@pytest.mark.parametrize("ranks", [1, 4, 16])
@pytest.mark.parametrize("suite", SUITES)
def test_as_it_is(tmp_path: Path, suite: str, ranks: int) -> None:
    package, file, count = SUITES[suite]
    command = [sys.executable, "-m", "pytest", "--noconftest", "-c", os.devnull, "--rootdir", "."]
    command += ["-p", "no:cacheprovider", "-p", "retarget", "-q", file]
    done = subprocess.run(
        command,
        cwd=unpack(package),
        env=environment(tmp_path, ranks),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    # A skipped part of a test (history by range, which ipykernel's samples leave out) is no loss.
    found = re.search(r"(\d+) passed", done.stdout)
    passed = int(found[1]) if found else 0
    print(f"{suite} at {ranks} ranks: {passed} of {count}")
    assert passed == count
