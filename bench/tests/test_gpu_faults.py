"""The whole program of a visit on the fake GPU and its faults: what is told, whatever happens."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1]
RUN = "import sys\nfrom gpu.visit import main\nsys.exit(main(sys.argv[1:]))\n"
BUILT = Path(os.environ.get("SK_BUILD_DIR", BENCH.parent / "build" / "release"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """As ./dev gpu --bundle lays it out."""
    programs = [
        BUILT / "bench/gpu/gpu_bench", BUILT / "bench/gpu/gpu_bench_watched",
        BUILT / "tests/gpu/gpu_silicon_test", BUILT / "tests/gpu/gpu_silicon_test_watched",
    ]  # fmt: skip
    if not all(path.exists() for path in programs):
        pytest.skip(f"{BUILT} has no {programs[0].name}; ./dev test builds it")
    home = tmp_path / "bundle"
    (home / "bin").mkdir(parents=True)
    for path in programs:
        (home / "bin" / path.name).symlink_to(path)
    for package in ("gpu", "measure"):
        shutil.copytree(BENCH / package, home / package)
    (home / "bundle.json").write_text('{"commit": "abc"}')
    (home / "run").write_text(RUN)
    return home


class Told:
    """What a visit has left."""

    def __init__(self, home: Path, fault: str = "", *more: str, wait_s: str = "") -> None:
        self.out = home / "out"  # As it is where nothing else is said.
        command = [sys.executable, "-B", str(home / "run"), "--fake", *more]
        env = {**os.environ, "SK_FAKE_FAULT": fault}
        if wait_s:
            env["SK_GPU_WAIT_S"] = wait_s
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self) -> int:
        self.output = self.process.communicate(timeout=200)[0]
        self.visit = json.loads((self.out / "visit.json").read_text())
        self.log = (self.out / "visit.log").read_text()
        return self.process.returncode

    def outcomes(self) -> dict[str, str]:
        return {name: step["outcome"] for name, step in self.visit["steps"].items()}


SOME = ("--only", "smoke-cluster", "--only", "bare-128x256x64", "--only", "latency-abort")


@pytest.mark.parametrize(
    ("fault", "outcome", "word"),
    [
        ("hang", "killed", "not done within"),
        ("poison", "failed", "nothing runs on it in this process any more"),
        ("kill", "failed", "signal 9"),
        ("fail", "failed", "CUDA_ERROR_UNKNOWN"),
    ],
)
def test_a_gpu_that_fails_costs_one_step(bundle: Path, fault: str, outcome: str, word: str) -> None:
    limit = "5" if fault == "hang" else "20"
    told = Told(bundle, f"{fault}@bare-128x256x64", *SOME, "--limit", limit)
    assert told.end() == 1
    assert told.outcomes() == {
        "smoke-cluster": "passed", "bare-128x256x64": outcome, "latency-abort": "passed",
    }  # fmt: skip
    assert word in told.visit["steps"]["bare-128x256x64"]["why"]
    assert "FAKE GPU" in told.visit["mark"] and told.visit["calls"][0]["seconds"] > 0
    assert "NO cuBLASLt" in told.log


def test_a_benchmark_that_hangs_has_said_what_it_was_at(bundle: Path) -> None:
    step = "versus-4096x4096x4096"
    told = Told(bundle, f"hang@{step}", "--only", step, "--limit", "5")
    assert told.end() == 1
    assert told.visit["steps"][step]["why"].endswith("130x72x64: check of bare ...")


# In a kernel itself: the plain one hangs, the watched one names who waits for what was lost.
@pytest.mark.parametrize(
    ("step", "waits"),
    [
        ("bare-128x256x4096", "load at stage_empty, stage 0, parity 0, task 0 (block 0"),
        ("smoke-cooperative", "post at ring_done, stage 0, parity 0, task 0 (block 0"),
    ],
)
def test_a_launch_that_hangs_is_explained(bundle: Path, step: str, waits: str) -> None:
    told = Told(bundle, f"lose@{step}", "--only", step, "--limit", "8")
    assert told.end() == 1
    found = told.visit["steps"][step]
    assert found["outcome"] == "killed"
    assert any(each.startswith(waits) for each in found["watched"]["waits"]), found["watched"]
    assert waits in told.log


# Before the step's time is over: the kernels give a wait a quarter of it.
def test_ranks_that_wait_for_each_other_say_so_themselves(bundle: Path) -> None:
    step = "smoke-cooperative"
    told = Told(bundle, f"mute@{step}", "--only", step, "--limit", "12", wait_s="1")
    assert told.end() == 1
    found = told.visit["steps"][step]
    assert found["outcome"] == "failed"
    # Each waits for the other, and whose time is over first tells it.
    told_by = re.findall(r"rank (\d) waited .* for rank (\d) in task \d+ \(reduce\)", told.log)
    assert told_by
    assert set(told_by) <= {("0", "1"), ("1", "0")}


def test_a_wait_that_is_no_time_is_named(bundle: Path) -> None:
    told = Told(bundle, "", "--only", "smoke-cluster", wait_s="soon")
    output = told.process.communicate(timeout=60)[0]  # There is no visit.
    assert told.process.returncode == 2
    assert "SK_GPU_WAIT_S is soon; seconds above 0 and up to 3600 are due" in output


def test_stalls_and_the_way_to_the_first_tile_are_kept_for_each_candidate(bundle: Path) -> None:
    told = Told(bundle, "", "--only", "products", "--only", "stalls-8192x8192x8192")
    assert told.end() == 0
    cell = told.visit["figures"]["stalls 1000x304x320"]
    assert list(cell) == ["plan", "bare", "plan_pairs", "bare_pairs"]
    for name, found in cell.items():
        launch = found["launch"]
        assert 0 < launch["first_task_us"] < launch["first_stage_us"] < launch["end_us"], name
        for stall in ("load at stage_empty", "work at stage_full", "post at ring_done"):
            assert 0 < found["stalls"][stall] < 1, (name, stall)
    lines = told.visit["steps"]["stalls-8192x8192x8192"]["lines"]
    assert all("gpu" in line for line in lines)


@pytest.mark.parametrize("fault", ["fail", "poison", "kill"])
def test_a_gpu_that_fails_once_is_a_flake(bundle: Path, tmp_path: Path, fault: str) -> None:
    (tmp_path / "once").touch()
    told = Told(bundle, f"{fault}@bare-128x256x64@{tmp_path / 'once'}", *SOME)
    assert told.end() == 0
    step = told.visit["steps"]["bare-128x256x64"]
    assert step["outcome"] == "passed at the second try"
    assert [each["outcome"] for each in step["tries"]] == ["failed", "passed"]


def test_a_visit_that_is_told_to_end_leaves_whole_files(bundle: Path) -> None:
    told = Told(bundle, "hang@bare-128x256x64", *SOME)
    end = time.monotonic() + 60
    while time.monotonic() < end and "bare-128x256x64 ..." not in _text(told.out / "visit.log"):
        time.sleep(0.05)
    told.process.send_signal(signal.SIGTERM)
    assert told.end() == 128 + signal.SIGTERM
    assert told.outcomes() == {"smoke-cluster": "passed"}
    assert told.visit["left"] == ["bare-128x256x64", "latency-abort"]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_fault_that_there_is_not_is_named(bundle: Path) -> None:
    told = Told(bundle, "melt@smoke-cluster", "--only", "smoke-cluster")
    assert told.end() == 1
    assert "hang, fail, poison, kill, lose or mute" in told.visit["steps"]["smoke-cluster"]["why"]


def test_a_step_that_there_is_not_is_named(bundle: Path) -> None:
    told = Told(bundle, "", "--only", "nothing")
    output = told.process.communicate(timeout=60)[0]
    assert told.process.returncode == 2 and "no step is like nothing; --list says all" in output
