"""The build of the kernels refuses what nvcc only mentions; check_kernels.py reads machine code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import check_kernels
import pytest

ROOT = Path(__file__).resolve().parents[2]
SOUND = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'run' for 'sm_90a'
ptxas info    : Function properties for run
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 2 barriers
"""
LOSS = "ptxas info    : (C75{}) Potential Performance Loss: {}"
FAULTS = {
    "spill": "    0 bytes stack frame, 8 bytes spill stores, 0 bytes spill loads",
    "frame": "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
    "wgmma": LOSS.format(10, "wgmma.mma_async instructions are serialized due to x in 'run'"),
    "setmaxnreg": LOSS.format("08", "'setmaxnreg' ignored; unable to determine register count"),
}


def compile_with(folder: Path, report: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """The compiler step, with an nvcc that writes its output and says `report`."""
    nvcc = folder / "nvcc"
    nvcc.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho code >"$2"\n'
        f"cat >&2 <<'END'\n{report}\nEND\nexit {status}\n"
    )
    nvcc.chmod(0o755)
    defines = {
        "NVCC": nvcc,
        "HOST": "c++",
        "ROOT": ROOT,
        "SOURCE": "run.cu",
        "GPU": "sm_90a",
        "OUTPUT": folder / "run.sm_90a.cubin",
    }
    command = ["cmake", *(f"-D{name}={value}" for name, value in defines.items())]
    command += ["-P", str(ROOT / "cmake/SkCompileKernels.cmake")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_sound_kernel_is_compiled(tmp_path: Path) -> None:
    done = compile_with(tmp_path, SOUND)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.sm_90a.cubin").exists()
    assert check_kernels.read_report((tmp_path / "run.sm_90a.cubin.txt").read_text()) == {
        "run": 168
    }


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_slows_a_kernel_fails_the_build(tmp_path: Path, fault: str) -> None:
    done = compile_with(tmp_path, SOUND + fault)
    assert done.returncode != 0
    assert fault.strip()[:40] in done.stderr
    assert not (tmp_path / "run.sm_90a.cubin").exists()


def test_a_failing_compiler_fails_the_build(tmp_path: Path) -> None:
    done = compile_with(tmp_path, "run.cu(3): error: expected a ;", status=2)
    assert done.returncode != 0
    assert "expected a ;" in done.stderr


SASS = """\
.text.sk_run_moves:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.64.STRONG.GPU R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.STRONG.SYS R5, desc[UR4][R6.64] ;
.L_x_0:
        /*0030*/             @!UP1 MEMBAR.ALL.GPU ;
        /*0040*/                   REDG.E.ADD.64.STRONG.GPU desc[UR4][R2.64], R4 ;
        /*0050*/              @!P1 MEMBAR.SC.SYS ;
"""


def kernel(sass: str, registers: int = 100) -> check_kernels.Kernel:
    """The one kernel of `sass`."""
    name, instructions = check_kernels.read_sass(sass).popitem()
    return check_kernels.Kernel("sm_90a", name, registers, instructions)


def test_machine_code_is_read() -> None:
    sound = kernel(SASS)
    assert sound.instructions["LDG.E.64.STRONG.GPU"] == 1
    assert sum(sound.instructions.values()) == 6
    assert list(sound.findings()) == []


@pytest.mark.parametrize(
    ("sass", "registers", "said"),
    [
        (SASS + "        /*0060*/   STL [R1], R4 ;\n", 100, "STL: no local memory"),
        (SASS.replace("ADD.64.STRONG.GPU", "ADD.64.STRONG.SM"), 100, "no instruction like"),
        (SASS.replace("MEMBAR.ALL.GPU", "NOP"), 100, "no instruction like"),
        (SASS.replace("LDG.E.STRONG.SYS", "LDG.E"), 100, "no instruction like"),
        (SASS.replace("MEMBAR.SC.SYS", "MEMBAR.SC.GPU"), 100, "no instruction like"),
        (SASS, 171, "171 registers; 384 threads leave 170"),
    ],
)
def test_what_is_missing_or_too_much_is_said(sass: str, registers: int, said: str) -> None:
    assert any(said in sentence for sentence in kernel(sass, registers).findings())


def test_a_kernel_that_is_not_there_is_said() -> None:
    assert "sk_run_gemms for sm_100f: not there" in check_kernels.findings([kernel(SASS)])


@pytest.mark.parametrize(
    "instruction",
    [
        "WARPSYNC.COLLECTIVE R4, `(.L_x_1)",
        "BRA.DIV ~URZ, `(.L_x_1) ;\n        /*0060*/   SHFL.BFLY PT, R4, R4, 0x1, 0x1f",
        "WARPSYNC.ALL",
    ],
)
def test_a_watched_kernel_that_waits_for_more_lanes_than_the_plain_one_is_said(
    instruction: str,
) -> None:
    plain = kernel(SASS + f"        /*0040*/   {instruction} ;\n")
    assert check_kernels.watched_findings([plain], [plain]) == []
    lone = kernel(
        SASS + f"        /*0040*/   {instruction} ;\n        /*0050*/   {instruction} ;\n"
    )
    (said, *_) = check_kernels.watched_findings([plain], [lone])
    assert said.startswith("sk_run_moves for sm_90a, watched: 2 instructions like ")
    assert said.endswith(", not 1")
    branches = kernel(
        SASS + "        /*0040*/   BRA.DIV ~URZ, `(.L_x_1) ;\n"
    )  # Of what is there already.
    assert check_kernels.watched_findings([kernel(SASS)], [branches]) == []


def test_a_kernel_without_a_watched_form_is_said() -> None:
    (said,) = check_kernels.watched_findings([kernel(SASS)], [])
    assert said == "sk_run_moves for sm_90a: its watched form is not there"


def test_an_install_without_the_kernels(tmp_path: Path) -> None:
    """Who builds single targets, as ./dev demo does, has none, though nvcc was found."""
    script = ROOT / "build" / "release" / "cuda" / "cmake_install.cmake"
    if not script.exists() or "libsk_cuda.so" not in script.read_text():
        pytest.skip("the Release build is without kernels: no nvcc, or not built")
    elsewhere = tmp_path / "cmake_install.cmake"
    text = script.read_text()
    elsewhere.write_text(text.replace(f'"{script.parent}/libsk', f'"{tmp_path}/libsk'))
    into = [f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'prefix'}", "-DCMAKE_INSTALL_LOCAL_ONLY=1"]
    done = subprocess.run(["cmake", *into, "-P", elsewhere], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "prefix" / "lib" / "libsk_cuda.so.0").exists()
