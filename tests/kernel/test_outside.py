"""Others' tests of a Python kernel, as they are: jupyter_kernel_test's samples of ipykernel, and
ipykernel's message-spec tests. Their source packages come from PyPI into build/, once.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from conftest import ROOT as ROOT  # Its import makes tests/support known.
from outside import environment, passed, unpack

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

SUITES = {
    "samples": ("jupyter_kernel_test", "0.7.0", "test_ipykernel.py", 12),
    "message-spec": ("ipykernel", "7.4.0", "tests/test_message_spec.py", 24),
}


@pytest.mark.acceptance(1)
@pytest.mark.parametrize("ranks", [1, 4, 16])
@pytest.mark.parametrize("suite", SUITES)
def test_as_it_is(tmp_path: Path, suite: str, ranks: int) -> None:
    package, version, file, count = SUITES[suite]
    env = environment(tmp_path, ranks, sys.executable)
    good = passed([file], unpack(package, version), env)
    print(f"{suite} at {ranks} ranks: {good} of {count}")
    assert good == count
