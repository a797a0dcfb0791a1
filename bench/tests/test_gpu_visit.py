"""A visit to a GPU whose programs are shell scripts: what is run, what is told, what is left."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from gpu import package, places, process, steps
from gpu.attempt import NoGpuError, Place
from gpu.book import Book
from gpu.package import Package
from gpu.steps import Step
from gpu.visit import Visit

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

    def run(
        self, *wanted: Step, commit: str = "abc", driver: str = "1.2", step_s: float = 0.0,
        **more: Any,
    ) -> int:  # fmt: skip
        def clock() -> float:  # Every program takes so long.
            path = self.home / "ran"
            return step_s * len(path.read_text().split()) if path.exists() else 0.0

        machine = {**MACHINE, "driver": driver}
        head = {"date": "2026-01-01", "commit": commit, "machine": machine, "mark": ""}
        self.book = Book((self.out / "visit.json",), head)
        self.resumed = list(self.book.resume([self.out / "visit.json"]))
        self.book.begin_call()
        return Visit(
            self.book, Place(self.out / "visit.log", fake=False, home=self.home), clock=clock,
            steps=wanted, **more,
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


HUNG = "a launch on G1 hung and was ended; who waited longest first: "


def test_a_step_that_hangs_is_run_again_watched_and_says_who_waits_where(bed: Bed) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    bed.program("hangs_watched", f"""echo 'Which is: "cuX: {HUNG}load at a; work at b"'; exit 1""")
    bed.program("sums", PASSES)
    assert bed.run(check("hangs"), check("sums"), limit_s=0.5) == 1
    assert bed.ran() == ["hangs", "bench", "hangs_watched", "sums"]
    step = bed.told()["steps"]["hangs"]
    assert step["outcome"] == "killed" and step["watched"]["waits"] == ["load at a", "work at b"]
    assert "hangs, watched: who waited longest first: load at a; work at b" in bed.log()


def test_what_the_watched_form_of_a_step_does_is_told_in_any_case(bed: Bed) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    assert bed.run(check("hangs"), limit_s=0.5) == 1
    watched = bed.told()["steps"]["hangs"]["watched"]
    assert watched == {"why": "there is no watched form of its program"}
    bed.program("hangs_watched", PASSES)
    assert bed.run(check("hangs"), limit_s=0.5) == 1
    assert bed.told()["steps"]["hangs"]["watched"]["why"] == "its watched form did not hang"
    bed.program("hangs_watched", "echo waits; exec tail -f /dev/null")
    assert bed.run(check("hangs"), limit_s=0.5) == 1
    watched = bed.told()["steps"]["hangs"]["watched"]
    assert watched["outcome"] == "killed" and "it said: waits" in watched["why"]
    assert "no warp told of a wait" in watched["why"]
    assert bed.run(check("hangs"), limit_s=0.5, step_s=100, budget_s=50) == 1
    assert "no time was left" in bed.told()["steps"]["hangs"]["watched"]["why"]


def proof() -> Step:
    return Step(steps.PROOF, ("gpu_proof_watched",))


# A launch that its watchman has ended proves as much as one that did not hang.
@pytest.mark.parametrize("shown", [PASSES, f"echo '{HUNG}load at a'; exit 1"])
def test_watched_kernels_are_proven_before_they_are_relied_on(bed: Bed, shown: str) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    bed.program("hangs_watched", f"echo '{HUNG}load at b'; exit 1")
    bed.program("proof_watched", shown)
    assert bed.run(check("hangs"), proof(), limit_s=0.5) == 1
    tries = 1 if shown == PASSES else 2
    assert bed.ran() == ["hangs", "bench", *["proof_watched"] * tries, "hangs_watched"]
    assert bed.told()["steps"]["hangs"]["watched"]["waits"] == ["load at b"]


@pytest.mark.parametrize("hung", ["exec tail -f /dev/null", "echo 'row 1 is wrong'; exit 1"])
def test_watched_kernels_that_do_not_end_hold_back_what_relies_on_them(bed: Bed, hung: str) -> None:
    bed.program("proof_watched", hung)
    bed.program("hangs", "exec tail -f /dev/null")
    bed.program("hangs_watched", PASSES)
    bed.program("stalls", FIGURES)
    assert bed.run(proof(), check("hangs"), figures("stalls", steps.PROOF), limit_s=0.5) == 1
    assert not {"hangs_watched", "stalls"} & set(bed.ran())
    held = f"{steps.PROOF} has not passed, so watched kernels may hang themselves"
    assert bed.told()["steps"]["hangs"]["watched"] == {"why": held}
    assert bed.outcomes()["stalls"] == "held back"


def test_what_a_step_leaves_running_ends_with_it(bed: Bed) -> None:
    is_asleep = "grep -aq ^sleep /proc/$!/cmdline"  # Else it is still a shell, by its name.
    bed.program(
        "sums", f"sleep 1000 & echo $! >{bed.home}/pid; until {is_asleep}; do :; done; {PASSES}"
    )
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
    assert bed.ran() == ["hangs", "bench", "bench"]


def test_a_gpu_that_answers_at_the_second_question_is_alive(bed: Bed) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    bed.program("bench", f"""rm {bed.home}/once && exit 1; echo '{{"device":"G1"}}'""")
    (bed.home / "once").touch()
    bed.program("sums", PASSES)
    assert bed.run(check("hangs"), check("sums"), limit_s=0.5) == 1
    assert bed.ran() == ["hangs", "bench", "bench", "sums"]


def test_how_long_each_question_and_each_step_may_take(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, float] = {}

    def run(command: list[str], _env: dict[str, str], log: Path, limit_s: float) -> process.Ended:
        asked[command[-1]] = limit_s
        log.write_text('{"device":"G1","part":"order","case":"c"}\n[  PASSED  ] 2 tests.\n')
        return process.Ended(0, 0.0, 0, log.stat().st_size)

    monkeypatch.setattr(process, "run", run)
    place = Place(bed.out / "visit.log", fake=False, home=bed.home)
    assert place.describe()["device"] == "G1"
    place.probe()
    assert (asked["describe"], asked["probe"]) == (120, 30)  # The first one starts the GPU.
    long = check("long", limit_s=90)
    assert bed.run(long) == 0 and asked[str(bed.home / "bin/gpu_long")] == 90
    (bed.out / "visit.json").unlink()
    assert bed.run(long, check("sums"), limit_s=60) == 0  # By --limit, up or down.
    assert [asked[str(bed.home / f"bin/gpu_{name}")] for name in ("long", "sums")] == [60, 60]


def test_only_output_is_bounded(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STEP_BYTES_MAX", 10_000)
    bed.program("sums", f"head -c 100000 /dev/zero >{bed.home}/cache && {PASSES}")
    assert bed.run(check("sums")) == 0
    assert (bed.home / "cache").stat().st_size == 100_000


def test_a_step_that_hangs_ends_where_nothing_tells_whose_child_it_is(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "descendants", lambda _pid: [])
    bed.program("hangs", f"echo $$ >{bed.home}/pid; exec tail -f /dev/null")
    assert bed.run(check("hangs"), limit_s=0.5) == 1
    step = bed.told()["steps"]["hangs"]
    assert step["outcome"] == "killed" and "tail -f" in step["ended_with_it"][0]
    assert not Path(f"/proc/{(bed.home / 'pid').read_text().strip()}").exists()


def test_a_second_try_is_begun_only_where_there_is_time_for_it(bed: Bed) -> None:
    bed.program("sums", "exit 1")
    assert bed.run(check("sums"), step_s=30.0, budget_s=45.0) == 1
    assert bed.ran() == ["sums"]
    assert len(bed.told()["steps"]["sums"]["tries"]) == 1
    assert "no time is left for a second try" in bed.log()


def test_kernels_tell_of_a_wait_before_their_step_is_ended(bed: Bed) -> None:
    bed.program("sums", f"echo wait $SK_GPU_WAIT_S; {PASSES}")
    assert bed.run(check("sums")) == 0
    (bed.out / "visit.json").unlink()
    assert bed.run(check("sums"), limit_s=90) == 0
    assert "wait 5\n" in bed.log() and "wait 22.5\n" in bed.log()


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


def test_another_driver_goes_on_and_each_call_notes_its_own(bed: Bed) -> None:
    bed.program("one", PASSES)
    bed.program("two", PASSES)
    assert bed.run(check("one"), driver="580.1") == 0
    assert bed.run(check("one"), check("two"), driver="580.2") == 0
    assert bed.ran() == ["one", "two"]
    assert bed.resumed == [f"resumed: 1 steps of 1 calls, driver 580.1, from {bed.book.paths[0]}"]
    told = bed.told()
    assert [each["driver"] for each in told["calls"]] == ["580.1", "580.2"]
    assert [told["steps"][name]["call"] for name in ("one", "two")] == [1, 2]


def test_what_is_not_resumed_is_said_with_its_reason(bed: Bed) -> None:
    bed.program("one", PASSES)
    assert bed.run(check("one")) == 0
    assert bed.run(check("one"), commit="def") == 0
    path = bed.out / "visit.json"
    assert bed.resumed == [
        f"NOT resumed: {path} is of G1, commit abc; this is G1, commit def",
    ]
    path.write_text("{")
    assert bed.run(check("one")) == 0
    assert bed.resumed[0].startswith(f"NOT resumed: {path}: JSONDecodeError: ")


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


@pytest.mark.parametrize("there", [True, False])
def test_the_packages_tests_are_run_by_a_python_that_has_torch(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Else the step says why not; a test of theirs that fails is the step's failure."""
    python = bed.home / "python3"
    python.write_text('#!/bin/sh\necho $PYTHONPATH ${7##*/}\necho "$SAID"\nexit $STATUS\n')
    python.chmod(0o755)
    found = Package(bed.home / "site", str(python)) if there else Package(why="no torch here")
    monkeypatch.setattr(package, "find", lambda *_: found)
    passes = Step(
        "good", (steps.PYTEST, "test_a.py"), env=(("SAID", "3 passed in 1s"), ("STATUS", "0"))
    )
    fails = Step(
        "bad", (steps.PYTEST, "test_b.py"), env=(("SAID", "1 failed, 2 passed"), ("STATUS", "1"))
    )
    assert bed.run(passes, fails) == (1 if there else 0)
    told = bed.told()["steps"]
    if there:
        assert bed.outcomes() == {"good": "passed", "bad": "failed"}
        assert told["good"]["passed"] == 3
    else:
        assert bed.outcomes() == {"good": "absent", "bad": "absent"}
        assert told["good"]["why"] == "no torch here"


@pytest.mark.parametrize("said", ["4 passed, 1 skipped in 3.1s", "4 passed, 1 deselected in 3s"])
def test_a_test_that_was_left_out_is_none_that_passed(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    python = bed.home / "python3"
    python.write_text(f"#!/bin/sh\necho '{said}'\n")
    python.chmod(0o755)
    monkeypatch.setattr(package, "find", lambda *_: Package(bed.home / "site", str(python)))
    assert bed.run(Step("some", (steps.PYTEST, "test_a.py"))) == 1
    assert bed.outcomes() == {"some": "failed"}


def test_cupys_tests_are_absent_where_it_is_not(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    python = bed.home / "python3"
    python.write_text("#!/bin/sh\necho '1 passed in 1s'\n")
    python.chmod(0o755)
    found = Package(bed.home / "site", str(python), lacks={steps.CUPY: "no CuPy here"})
    monkeypatch.setattr(package, "find", lambda *_: found)
    others = Step("python-memory", (steps.PYTEST, "test_memory.py"))
    assert bed.run(Step(steps.CUPY, (steps.PYTEST, "test_cupy.py")), others) == 0
    assert bed.outcomes() == {steps.CUPY: "absent", "python-memory": "passed"}
    assert bed.told()["steps"][steps.CUPY]["why"] == "no CuPy here"


def test_a_bundle_without_a_wheel_says_how_to_make_one_that_has_it(tmp_path: Path) -> None:
    assert "--bundle --python" in package.find(tmp_path, tmp_path).why


def test_a_wheel_is_unpacked_and_a_python_without_torch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dist").mkdir()
    with zipfile.ZipFile(tmp_path / "dist" / "libsk-1.whl", "w") as file:
        file.writestr("libsk/__init__.py", "")
    for module in ("torch", "pytest"):  # Which are not there, whatever this Python has.
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / f"{module}.py").write_text(f"raise ImportError('no {module}')")
    found = package.find(tmp_path, tmp_path)
    assert found.program(tmp_path, "gpu_api_test")[1] == f"LD_LIBRARY_PATH={tmp_path}/site/libsk"
    assert not found.python and found.why.endswith(": ImportError: no pytest")
    torch = "class cuda:\n    is_available = staticmethod(lambda: True)\n"
    (tmp_path / "site" / "torch.py").write_text(torch)
    (tmp_path / "site" / "pytest.py").write_text("")
    (tmp_path / "site" / "cupy.py").write_text("raise ImportError('no cupy')")
    found = package.find(tmp_path, tmp_path)
    assert found.python and found.lacks[steps.CUPY].endswith(": ImportError: no cupy")
    (tmp_path / "site" / "cupy.py").write_text("")
    assert package.find(tmp_path, tmp_path).lacks == {}
