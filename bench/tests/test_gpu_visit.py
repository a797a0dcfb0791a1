"""A visit to a GPU whose programs are shell scripts: what is run, what is told, what is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpu import places, process, steps, visit
from gpu.steps import STEPS, Step
from gpu.visit import Book, NoGpuError, Visit

BENCH = Path(__file__).resolve().parents[1]
MACHINE = {"device": "G1", "driver": "1.2", "driver_cuda": "13.0", "kernels_cuda": "13.0"}
PASSES = "echo '[  PASSED  ] 2 tests.'"
FIGURES = """echo '{"part":"order","case":"c","candidate":"x","us":[1.0]}'"""


def check(name: str, **more: Any) -> Step:
    return Step(name, (f"gpu_{name}",), **more)


def figures(name: str, *after: str) -> Step:
    return Step(name, (f"gpu_{name}",), part="order", after=after)


class Bed:
    """Programs, and what a visit with some steps says of them."""

    def __init__(self, home: Path) -> None:
        self.home, self.out = home, home / "out"
        (home / "bin").mkdir()
        self.out.mkdir()
        self.program("bench", """echo '{"device":"G1"}'""")

    def program(self, name: str, script: str) -> None:
        path = self.home / "bin" / f"gpu_{name}"
        path.write_text(f"#!/bin/sh\necho {name} >>{self.home / 'ran'}\n{script}\n")
        path.chmod(0o755)

    def ran(self) -> list[str]:
        path = self.home / "ran"
        names = path.read_text().split() if path.exists() else []
        path.write_text("")
        return names

    def run(self, *wanted: Step, commit: str = "abc", step_s: float = 0.0, **more: Any) -> int:
        def clock() -> float:  # Every program takes so long.
            path = self.home / "ran"
            return step_s * len(path.read_text().split()) if path.exists() else 0.0

        head = {"date": "2026-01-01", "commit": commit, "machine": MACHINE, "mark": ""}
        self.book = Book((self.out / "visit.json",), head)
        self.book.resume([self.out / "visit.json"])
        return Visit(
            self.book, self.out / "visit.log", fake=False, clock=clock, steps=wanted,
            home=self.home, **more,
        ).run()  # fmt: skip

    def told(self) -> dict[str, Any]:
        return json.loads((self.out / "visit.json").read_text())

    def outcomes(self) -> dict[str, str]:
        return {name: step["outcome"] for name, step in self.told()["steps"].items()}

    def log(self) -> str:
        return (self.out / "visit.log").read_text()


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_what_passed_has_its_output_and_its_figures(bed: Bed) -> None:
    bed.program("sums", f"echo hello; {PASSES}")
    bed.program("times", FIGURES)
    assert bed.run(check("sums"), figures("times", "sums")) == 0
    told = bed.told()
    assert told["steps"]["sums"]["passed"] == 2 and told["machine"] == MACHINE
    assert told["figures"]["order c"]["x"]["median"] == 1.0 and told["left"] == []
    begin, end = told["steps"]["sums"]["log"]
    assert bed.log()[begin:end].startswith("hello\n")


def test_a_benchmark_is_held_back_by_its_own_check_alone(bed: Bed) -> None:
    bed.program("sums", "echo 'rank 1 differs'; exit 1")
    bed.program("copies", PASSES)
    bed.program("times", FIGURES)
    bed.program("rates", FIGURES)
    wanted = (check("sums"), check("copies"), figures("times", "sums"), figures("rates", "copies"))
    assert bed.run(*wanted) == 1
    assert bed.ran() == ["sums", "sums", "copies", "rates"]
    assert bed.outcomes() == {
        "sums": "failed", "copies": "passed", "times": "held back", "rates": "passed",
    }  # fmt: skip
    assert "exit status 1; it said: rank 1 differs" in bed.told()["steps"]["sums"]["why"]
    assert bed.told()["steps"]["times"]["why"] == "sums has not passed"
    bed.program("sums", PASSES)
    assert bed.run(*wanted) == 0
    assert bed.ran() == ["sums", "times"]


def test_a_flake_is_told_as_one_and_holds_nothing_back(bed: Bed) -> None:
    bed.program("sums", f"rm {bed.home}/once && echo flaked && exit 1; {PASSES}")
    (bed.home / "once").touch()
    bed.program("times", FIGURES)
    assert bed.run(check("sums"), figures("times", "sums")) == 0
    step = bed.told()["steps"]["sums"]
    assert step["outcome"] == "passed at the second try"
    assert "flaked" in step["tries"][0]["why"] and "flaked" in bed.log()


@pytest.mark.parametrize("output", ["[  PASSED  ] 0 tests.", "", "[  SKIPPED ] 2 tests."])
def test_a_check_in_which_nothing_ran_has_failed(bed: Bed, output: str) -> None:
    bed.program("sums", f"echo '{output}'")
    assert bed.run(check("sums")) == 1
    assert "not every test ran" in bed.told()["steps"]["sums"]["why"]


def test_a_step_that_hangs_leaves_what_it_said_and_no_process(bed: Bed) -> None:
    # Children of a child whose parent has ended, in a session of their own, and deaf to SIGTERM.
    deaf = "trap '' TERM; echo $$ >>{0}/pids; while :; do sleep 1000 & wait $!; done"
    (bed.home / "deaf").write_text(deaf.format(bed.home))
    bed.program(
        "hangs",
        f"echo begun; (setsid sh {bed.home}/deaf &) ; while [ ! -s {bed.home}/pids ]; do :; done; "
        "echo waits; exec tail -f /dev/null",
    )
    bed.program("sums", PASSES)
    process.adopt_orphans()
    limit_s = 4.0
    assert bed.run(check("hangs"), check("sums"), limit_s=limit_s) == 1
    step = bed.told()["steps"]["hangs"]
    assert step["outcome"] == "killed" and "would_not_die" not in step
    assert "begun\nwaits" in bed.log() and "waits" in step["why"]
    assert any("deaf" in each for each in step["ended_with_it"])
    assert bed.outcomes()["sums"] == "passed"
    for pid in (bed.home / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()


def test_what_a_step_leaves_running_ends_with_it(bed: Bed) -> None:
    bed.program("sums", f"sleep 1000 & echo $! >{bed.home}/pid; {PASSES}")
    process.adopt_orphans()
    assert bed.run(check("sums")) == 0
    assert any("sleep 1000" in each for each in bed.told()["steps"]["sums"]["ended_with_it"])
    assert not Path(f"/proc/{(bed.home / 'pid').read_text().strip()}").exists()


def test_a_gpu_that_answers_no_more_ends_the_visit(bed: Bed) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    bed.program("bench", "echo 'the GPU has fallen off the bus'; exit 1")
    bed.program("sums", PASSES)
    with pytest.raises(NoGpuError, match="behind hangs the GPU answers no more: .*off the bus"):
        bed.run(check("hangs"), check("sums"), limit_s=0.5)
    assert bed.ran() == ["hangs", "bench"]


def test_a_step_that_floods_the_log_is_cut_off(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STEP_BYTES_MAX", 10_000)
    bed.program("floods", "yes || exit 7")
    bed.program("sums", PASSES)
    assert bed.run(check("floods"), check("sums")) == 1
    begin, end = bed.told()["steps"]["floods"]["log"]
    assert end - begin == 10_000 and bed.outcomes()["sums"] == "passed"


def test_when_time_is_over_the_rest_is_listed_and_the_next_call_does_it(bed: Bed) -> None:
    for name in ("one", "two", "three"):
        bed.program(name, PASSES)
    wanted = (check("one"), check("two"), check("three", limit_s=5.0))
    # Behind the first 15 s are left: the last one fits there, where the second does not.
    assert bed.run(*wanted, step_s=30.0, budget_s=45.0) == 2
    assert bed.ran() == ["one", "three"] and bed.told()["left"] == ["two"]
    assert "goes on from here: two" in bed.log()
    assert bed.run(*wanted) == 0
    assert bed.ran() == ["two"] and bed.told()["left"] == []


def test_what_failed_before_comes_behind_what_was_not_tried(bed: Bed) -> None:
    bed.program("one", "exit 1")
    bed.program("two", PASSES)
    assert bed.run(check("one")) == 1
    bed.ran()
    bed.program("one", PASSES)
    assert bed.run(check("one"), check("two")) == 0
    assert bed.ran() == ["two", "one"]


def test_results_of_another_build_or_a_file_cut_off_count_for_nothing(bed: Bed) -> None:
    bed.program("one", PASSES)
    assert bed.run(check("one")) == 0
    assert bed.run(check("one"), commit="def") == 0
    assert bed.ran() == ["one", "one"]
    path = bed.out / "visit.json"
    path.write_text(path.read_text()[:-50])
    assert bed.run(check("one"), commit="def") == 0
    assert bed.ran() == ["one"]


def test_a_program_that_is_not_there_is_named(bed: Bed) -> None:
    assert bed.run(check("nowhere")) == 1
    assert "cannot be run" in bed.told()["steps"]["nowhere"]["why"]


@pytest.mark.parametrize("there", [True, False])
def test_nvidias_checker_is_given_our_program(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    checker = bed.home / "checker"
    checker.write_text(f"#!/bin/sh\necho $2 $4 >>{bed.home / 'ran'}\n{PASSES}\n")
    checker.chmod(0o755)
    monkeypatch.setattr(places, "find_sanitizer", lambda: str(checker) if there else None)
    command = (steps.CHECKER, "--tool", "memcheck", "--error-exitcode=9", steps.SILICON)
    assert bed.run(Step("memcheck", command)) == 0
    assert bed.ran() == (["memcheck", str(bed.home / "bin" / steps.SILICON)] if there else [])
    assert bed.outcomes() == {"memcheck": "passed" if there else "absent"}


# ---- where things are ----


def test_cublaslt_is_found_in_the_wheels_of_either_age(tmp_path: Path) -> None:
    for place in ("nvidia/cublas/lib/libcublasLt.so.12", "nvidia/cu13/lib/libcublasLt.so.13"):
        site = tmp_path / place.split("/")[1]
        library = site / place
        library.parent.mkdir(parents=True)
        library.touch()
        assert places.find_cublaslt([str(site)], "", "/nowhere") == library
        assert places.find_cublaslt(["", "/nowhere", str(site)], "", "/nowhere") == library


def test_cublaslt_is_found_beside_another_python(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    library = venv / "lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    (venv / "bin").mkdir()
    (venv / "bin" / "python3").symlink_to(sys.executable)
    assert places.find_cublaslt([], f"/nowhere:{venv / 'bin'}", "/nowhere") == library


def test_cublaslt_is_found_in_a_toolkit(tmp_path: Path) -> None:
    library = tmp_path / "cuda-13.0" / "lib64" / "libcublasLt.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    assert places.find_cublaslt([], "", f"{tmp_path}/cuda*") == library


def test_without_cublaslt_the_first_lines_say_so() -> None:
    assert visit.of_cublaslt({"cublaslt": 130101}, {"SK_CUBLASLT": "/p"}) == "cuBLASLt 130101, /p"
    absent = {"cublaslt": 0, "cublaslt_absent": "no such file"}
    assert "NO cuBLASLt, so no product has a peer: no such file" in visit.of_cublaslt(absent, {})


# ---- the steps themselves ----


def test_steps_go_by_worth() -> None:
    names = [step.name for step in STEPS]
    assert len(set(names)) == len(names)
    order = (
        "smoke-cooperative", "bare-128x256x64", "bare-128x256x256", "bare-128x256x4096",
        "bare-4096x4096x256", "bare_pairs-256x256x64", "versus-4096x4096x4096", "moves", "products",
        "moves-2-ranks", "products-2-ranks", "golden", "gemm-8192x8192x8192", "endurance-1",
        "memcheck-1",
    )  # fmt: skip
    assert [name for name in names if name in order] == list(order)
    # Within the first minute although each of these took five seconds.
    assert names.index("versus-4096x4096x4096") <= 11


def test_no_step_may_take_long_and_each_check_comes_before_what_it_is_for() -> None:
    names = [step.name for step in STEPS]
    checks = {step.name for step in STEPS if step.is_check}
    for step in STEPS:
        assert step.limit_s <= 20
        assert set(step.after) <= checks
        assert all(names.index(each) < names.index(step.name) for each in step.after)
        assert step.is_check or step.after


# ---- the whole program, on the fake GPU and its faults ----

RUN = "import sys\nfrom gpu.visit import main\nsys.exit(main(sys.argv[1:]))\n"
BUILT = Path(os.environ.get("SK_BUILD_DIR", BENCH.parent / "build" / "release"))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """As ./dev gpu --bundle lays it out."""
    programs = [BUILT / "bench/gpu/gpu_bench", BUILT / "tests/gpu/gpu_silicon_test"]
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

    def __init__(self, home: Path, fault: str = "", *more: str) -> None:
        self.out = home / "out"  # As it is where nothing else is said.
        command = [sys.executable, "-B", str(home / "run"), "--fake", *more]
        env = {**os.environ, "SK_FAKE_FAULT": fault}
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
    assert "hang, fail, poison or kill" in told.visit["steps"]["smoke-cluster"]["why"]


def test_a_step_that_there_is_not_is_named(bundle: Path) -> None:
    told = Told(bundle, "", "--only", "nothing")
    output = told.process.communicate(timeout=60)[0]
    assert told.process.returncode == 2 and "no step is like nothing; --list says all" in output
