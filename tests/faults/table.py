"""The faults that a job meets, what libsk does of each, and the tests that show it.

docs/faults.md is written from this (tools/make_faults_page.py), test_faults.py runs the tests.
A test is a name of pytest, FILE::FUNCTION or FILE::FUNCTION[CASE], or one of ctest, SUITE.NAME,
SUITE.* or the name of a program that ctest runs.
"""

from __future__ import annotations

from dataclasses import dataclass

NET = "tests/net/"
KERNEL = "tests/kernel/"
PYTHON = "bindings/python/tests/"
ABI = "tests/abi/"

NO_RDMA = "there is no transport over RDMA; between hosts libsk speaks TCP, over whatever card"


@dataclass(frozen=True)
class Fault:
    """One of them."""

    number: int
    what: str
    does: str = ""  # What libsk promises.
    code: str = ""  # What calls return, or what stands in its place.
    within: str = ""  # How soon.
    tests: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()  # Variables by which a run of its tests is repeated.
    lacks: str = ""  # What a job would want beyond that, and does not get.
    out_of_reach: str = ""  # Why no test of it runs on one machine without special devices.
    not_built: str = ""  # Why there is nothing to test.

    @property
    def name(self) -> str:
        """What pytest calls it, and -k finds."""
        return f"fault_{self.number:02d}"


LOST = "`SK_ERR_PEER_LOST`"
CUT = "`SK_ERR_TRANSPORT`"
TIMEOUT = "`SK_ERR_TIMEOUT`"
DESYNC = "`SK_ERR_DESYNC`"
TRUST = "`SK_ERR_TRUST`"
NO_MEMORY = "`SK_ERR_NO_MEMORY`"
BAD_CALL = "`SK_ERR_INVALID_ARGUMENT` and its kin, 10 to 15"
NONE = "none"
AT_ONCE = "at once"
SECOND = "1 s"
SILENCE = "5 s, or what `SK_NET_SILENCE_S` says"
TIME = "the call's timeout"
MEETING_TIME = "the communicator's timeout"
