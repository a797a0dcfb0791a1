"""The steps of a visit to a GPU: their order, what each waits for, how long each may take."""

from __future__ import annotations

from pathlib import Path

from gpu import steps
from gpu.steps import GEMMS, PAIRED, STEPS


def test_steps_go_by_worth() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    order = (
        "smoke-cooperative", "bare-128x256x64", "bare-128x256x256", "bare-128x256x4096",
        "bare-4096x4096x256", "bare-watched", "bare_pairs-256x256x64", "versus-4096x4096x4096",
        "moves", "products", "moves-2-ranks", "products-2-ranks", "golden",
        "gemm-8192x8192x8192", "endurance-1", "memcheck-1",
    )  # fmt: skip
    assert [name for name in names if name in order] == list(order)
    # Within the first minute although each of these took five seconds.
    assert names.index("versus-4096x4096x4096") <= 12


def test_watched_kernels_are_tried_before_stalls_and_by_nvidias_checker() -> None:
    by_name = {step.name: step for step in STEPS}
    assert by_name["bare-watched"].command == ("gpu_bench_watched", "bare", "128x256x64")
    stalls = [step for step in STEPS if step.part == "stalls"]
    assert stalls and all("bare-watched" in step.after for step in stalls)
    assert by_name["synccheck-watched"].command[2:] == (
        "synccheck", "--error-exitcode=9", "gpu_bench_watched", "bare", "128x256x64",
    )  # fmt: skip


def test_no_step_may_take_long_and_each_check_comes_before_what_it_is_for() -> None:
    names = [step.name for step in STEPS]
    checks = {step.name for step in STEPS if step.is_check}
    large = {f"gemm-{case}" for case in GEMMS[4:]} | {f"pairs-{case}" for case in PAIRED[2:]}
    for step in STEPS:
        is_long = step.command[0] == steps.CHECKER or step.name == "python-torch_operations"
        # Their operands are made and their results summed in double precision by the host.
        is_large = step.name in large
        assert step.limit_s <= (90 if is_long else 45 if is_large else 20)
        assert set(step.after) <= checks
        assert all(names.index(each) < names.index(step.name) for each in step.after)
        assert step.is_check or step.after


def test_every_file_of_the_packages_tests_is_a_step() -> None:
    folder = Path(__file__).resolve().parents[2] / "tests" / "gpu" / "python"
    named = {step.command[1] for step in STEPS if step.command[0] == steps.PYTEST}
    assert named == {path.name for path in folder.glob("test_*.py")}
