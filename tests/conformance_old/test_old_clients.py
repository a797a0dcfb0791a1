"""The same suites of others, driven by the clients of Debian 12: jupyter_client 7.4 on pyzmq 24.

They run in an environment that has those alone (pins-conformance-old.txt); the ranks are Python
with libsk from build/venv, as a user's would be who upgraded one and not the other.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from outside import LIMIT_S, ROOT, environment, passed, unpack

PYTHON = ROOT / "build" / "venv" / "bin" / "python"
OLD = {"ipykernel": "6.17.", "jupyter_client": "7.4.", "pyzmq": "24."}
SUITES = {
    "samples": ("jupyter_kernel_test", "test_ipykernel.py", 12),
    "message-spec": (None, "ipykernel.tests.test_message_spec", 23),
}
ASK = """
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
try:
    print(client.kernel_info(reply=True, timeout=60)["content"]["implementation"])
    client.execute_interactive("print(world_size)", timeout=60)
finally:
    client.stop_channels()
    manager.shutdown_kernel()
"""


def test_the_clients_are_old() -> None:
    for name, least in OLD.items():
        assert version(name).startswith(least), f"{name} {version(name)}"


@pytest.mark.parametrize("ranks", [1, 4])
def test_it_is_our_kernel_that_they_meet(tmp_path: Path, ranks: int) -> None:
    env = environment(tmp_path, ranks, PYTHON)
    command = [sys.executable, "-c", ASK]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.split() == ["superkernel", str(ranks)], done.stderr


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("suite", SUITES)
def test_as_it_is(tmp_path: Path, suite: str, ranks: int) -> None:
    package, name, count = SUITES[suite]
    tests = ["--pyargs", name] if package is None else [name]
    folder = tmp_path if package is None else unpack(package, version(package))
    good = passed(tests, folder, environment(tmp_path / "jupyter", ranks, PYTHON))
    print(f"{suite} at {ranks} ranks: {good} of {count}")
    assert good == count
