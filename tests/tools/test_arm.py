"""./dev arm: what it loads for the other processor, and which programs and cases it runs."""

from __future__ import annotations

import re
from pathlib import Path

import arm
import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "tests" / "unit"


def test_libraries_are_what_a_build_needs_of_a_processor() -> None:
    libraries = arm.libraries()
    assert {"libcapnp-dev", "libfmt-dev", "libgtest-dev", "libhwloc-dev"} <= set(libraries)
    assert "python3-dev" not in libraries and "cmake" not in libraries


def test_programs_are_those_that_can_be_run() -> None:
    targets = (
        "tests/unit/exec/cpu/tile/exec_cpu_tile_gemm_test: CXX_EXECUTABLE_LINKER\n"
        "tests/unit/exec/cpu/tile/gemm_test.cc.o: CXX_COMPILER\n"
        "tests/unit/base/base_caught_test: CXX_EXECUTABLE_LINKER\n"
        "tests/unit/transport/shm/transport_shm_connect_test: CXX_EXECUTABLE_LINKER\n"
        "tests/unit/topo/topo_test: CXX_EXECUTABLE_LINKER\n"
        "tests/gpu/gpu_silicon_test: CXX_EXECUTABLE_LINKER\n"
        "op_schema_test: phony\n"
    )
    assert arm.chosen(targets) == [
        "tests/unit/exec/cpu/tile/exec_cpu_tile_gemm_test",
        "tests/unit/base/base_caught_test",
        "tests/unit/topo/topo_test",
    ]


def unit_programs() -> dict[str, str]:
    """Each test program, and the text of its sources."""
    programs = {}
    for lists in UNIT.rglob("CMakeLists.txt"):
        for name, rest in re.findall(r"sk_test\((\w+)([^)]*)\)", lists.read_text()):
            sources = [lists.parent / each for each in re.findall(r"[\w/]+\.cc", rest)]
            programs[name] = "".join(each.read_text() for each in sources if each.exists())
    return programs


def test_what_is_left_out_exists_and_says_why() -> None:
    programs = unit_programs()
    assert len(programs) > 50
    for each in arm.LEFT_OUT:
        assert each.program in programs, f"there is no {each.program}"
        assert each.why and "\n" not in each.why
        for case in each.cases.split(":") if each.cases != "*" else []:
            suite, name = re.sub(r"^\*/|/\*$", "", case).split(".")  # Less what parameters add.
            pattern = rf"TEST(?:_F|_P)?\(\s*{suite},\s*{name}\)"
            assert re.search(pattern, programs[each.program]), f"{each.program} has no {case}"


def test_cases_that_are_left_out_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    some = (arm.LeftOut("a_test", "no reason", "A.b:A.c"), arm.LeftOut("a_test", "another", "D.e"))
    monkeypatch.setattr(arm, "LEFT_OUT", some)
    assert arm.gtest_filter("a_test", None) == "*-A.b:A.c:D.e"
    assert arm.gtest_filter("a_test", "plan") == "*plan*-A.b:A.c:D.e"
    assert arm.gtest_filter("other_test", None) == "*"
