"""Every fault of the table: the tests that show what libsk does of it are run, and a line tells.

    ./dev test --suite faults                          all of them
    SK_FAULTS_SEED=7 ./dev test --suite faults -k fault_02    one, as a line has named it

Tests of other suites are run where they are, so this suite is none of a whole `./dev test`.
"""

from __future__ import annotations

import pytest
from faults import FAULTS, Lines, of_run, without_run
from runner import run
from table import Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_it_is_as_promised(fault: Fault, lines: Lines) -> None:
    if not fault.tests:
        lines.tell(fault, *without_run(fault))
        pytest.skip(fault.out_of_reach or fault.not_built)
    seen = run(fault)
    lines.tell(fault, *of_run(fault, seen))
    assert not seen.failures, "\n\n".join(seen.failures)
    if seen.skips:
        pytest.skip("; ".join(seen.skips))
