"""./dev arm: what it loads for the other processor, and which programs it runs."""

from __future__ import annotations

import arm


def test_libraries_are_what_a_build_needs_of_a_processor() -> None:
    libraries = arm.libraries()
    assert {"libcapnp-dev", "libfmt-dev", "libgtest-dev", "libhwloc-dev"} <= set(libraries)
    assert "python3-dev" not in libraries and "cmake" not in libraries


def test_programs_are_of_what_depends_on_it() -> None:
    targets = (
        "tests/unit/exec/cpu/tile/exec_cpu_tile_gemm_test: CXX_EXECUTABLE_LINKER\n"
        "tests/unit/exec/cpu/tile/gemm_test.cc.o: CXX_COMPILER\n"
        "tests/unit/base/base_caught_test: CXX_EXECUTABLE_LINKER\n"
        "tests/unit/sk_kernel/sk_kernel_test: CXX_EXECUTABLE_LINKER\n"
        "op_schema_test: phony\n"
    )
    assert arm.PROGRAM.findall(targets) == [
        "tests/unit/exec/cpu/tile/exec_cpu_tile_gemm_test",
        "tests/unit/base/base_caught_test",
    ]
