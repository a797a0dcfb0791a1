"""Machines that store numbers the other way round: no libsk can be made for them, and a sentence of
the compiler's says so. What ranks send each other is little-endian on all machines that have one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIRES = {
    "transport/bootstrap/wire.h": "the wire format is little-endian",
    "transport/stream/frame.h": "frames are little-endian",
}
OTHER_ORDER = ["-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__"]


def compile_header(header: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = ["c++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-", "-w"]
    command += ["-I", str(ROOT), "-I", str(ROOT / "include"), *more]
    text = f'#include "{header}"\n'
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("header", WIRES)
def test_only_machines_of_one_order_of_bytes_are_built_for(header: str) -> None:
    fine = compile_header(header)
    assert fine.returncode == 0, fine.stderr
    refused = compile_header(header, *OTHER_ORDER)
    assert refused.returncode != 0
    assert WIRES[header] in refused.stderr
