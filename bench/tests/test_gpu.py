"""Benchmarks on a GPU: figures and goals from made-up lines, the parts with made-up programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpu import parts, summary
from gpu.parts import Part, PartError, Runner, Session
from measure import goals

MACHINE = {"device": "G1", "driver": "1.2", "driver_cuda": "13.0", "kernels_cuda": "13.0"}


def line(part: str, case: str, candidate: str, us: float) -> dict[str, Any]:
    """Three rounds, a slow and a fast sample beside the usual one in every visit."""
    visit = [us * 0.9, us, us * 1.1]
    return {
        "part": part, "case": case, "candidate": candidate, "note": f"by {candidate}", "runs": 3,
        "rounds": [[visit, visit]] * 3,
    }  # fmt: skip


def gemm_lines(case: str = "8192x8192x8192", **us: float) -> list[dict[str, Any]]:
    return [line("gemm", case, name, value) for name, value in us.items()]


def verdicts(rows: list[goals.Row]) -> list[str]:
    return [row.verdict for row in rows]


def test_a_product_is_judged_by_the_bare_kernel_and_by_the_peer() -> None:
    cost, peer = summary.gemm_rows(gemm_lines(plan=101.0, bare=100.0, cublaslt=102.0))
    assert cost.measured == pytest.approx(1.01) and cost.verdict == goals.MET
    assert peer.measured == pytest.approx(102 / 101) and peer.verdict == goals.MET
    slow = summary.gemm_rows(gemm_lines(plan=103.0, bare=100.0, cublaslt=102.0))
    assert verdicts(slow) == [goals.MISSED, goals.MISSED]


def test_every_shape_has_its_own_goal() -> None:
    by_shape = {}
    for case in (*summary.GEMM_GOALS, "5x5x5"):
        by_shape[case] = summary.gemm_rows(gemm_lines(case, plan=100.0, cublaslt=96.0))[1].verdict
    assert [case for case, verdict in by_shape.items() if verdict == goals.MISSED] == [
        "8192x8192x8192", "4096x4096x4096", "8192x28672x8192",
    ]  # fmt: skip
    assert by_shape["5x5x5"] == goals.NO_GOAL


def test_pairs_of_blocks_stand_beside_single_ones_without_a_goal() -> None:
    us = {"plan": 103.0, "bare": 100.0, "plan_pairs": 100.0, "bare_pairs": 125.0}
    lines = [line("pairs", "8192x8192x8192", name, value) for name, value in us.items()]
    planned, bare = summary.pairs_rows(lines)
    assert planned.measured == pytest.approx(1.03) and bare.measured == pytest.approx(0.8)
    assert verdicts([planned, bare]) == [goals.NO_GOAL, goals.NO_GOAL]


def test_a_peer_that_is_absent_or_forgotten_is_no_win() -> None:
    lines = gemm_lines(plan=1.0)
    lines.append({"part": "gemm", "case": lines[0]["case"], "candidate": "bare", "absent": "odd"})
    cost, peer = summary.gemm_rows(lines)
    assert cost.verdict == peer.verdict == goals.ABSENT
    assert cost.why == "bare: odd"
    assert peer.why == "cublaslt was not measured"


def test_a_round_without_both_visits_is_refused() -> None:
    broken = gemm_lines(plan=1.0, bare=1.0)
    broken[1]["rounds"] = [[[1.0]]] * 3
    with pytest.raises(ValueError, match="not two visits"):
        summary.gemm_rows(broken)
    broken[1]["rounds"] = broken[0]["rounds"][:2]
    with pytest.raises(ValueError, match="3 rounds of one candidate and 2|2 rounds"):
        summary.gemm_rows(broken)


def fused_lines(share: float = 0.5, **us: float) -> list[dict[str, Any]]:
    lines = [line("fused", "1x1x1 2 ranks", name, value) for name, value in us.items()]
    overlap = {"part": "fused", "case": "1x1x1 2 ranks", "candidate": "overlap", "share": [share]}
    return [*lines, overlap]


@pytest.mark.parametrize(
    ("us", "share", "wanted"),
    [
        ({"plan": 109, "gemm": 100, "comm": 50, "pair": 150}, 0.5, [goals.MET] * 3),
        ({"plan": 109, "gemm": 50, "comm": 100, "pair": 150}, 0.5, [goals.MET] * 3),
        (
            {"plan": 120, "gemm": 100, "comm": 50, "pair": 119},
            0.0,
            [goals.MISSED] * 3,
        ),
    ],
)
def test_a_fused_call_is_judged_by_its_longer_half(
    us: dict[str, float], share: float, wanted: list[str]
) -> None:
    assert verdicts(summary.fused_rows(fused_lines(share, **us))) == wanted


def test_a_collective_is_judged_by_a_copy() -> None:
    lines = [
        line("collectives", "allreduce 2 ranks 4 bytes", "plan", 100.0),
        line("collectives", "allreduce 2 ranks 4 bytes", "copy", 91.0),
    ]
    (row,) = summary.collective_rows(lines)
    assert row.measured == pytest.approx(0.91) and row.verdict == goals.MET
    lines[0], lines[1] = ({**lines[1], "candidate": "plan"}, {**lines[0], "candidate": "copy"})
    (row,) = summary.collective_rows(lines)
    assert row.measured == pytest.approx(100 / 91)


def test_of_a_thousand_aborts_the_slowest_counts() -> None:
    aborts = {"part": "latency", "case": "abort", "candidate": "plan", "us": [50.0] * 999}
    replay = line("latency", "replayed run", "plan", 4.0)
    assert verdicts(summary.latency_rows([aborts, replay])) == [goals.MET, goals.MET]
    aborts["us"].append(10_001.0)
    assert verdicts(summary.latency_rows([aborts, replay])) == [goals.MET, goals.MISSED]
    assert verdicts(summary.latency_rows([])) == [goals.ABSENT, goals.ABSENT]


PASSES = "echo '[  PASSED  ] 2 tests.'"
GEMM_PART = Part("gemm", ("gpu_bench", "gemm"), 10)
CHECK_PARTS = (
    Part("first", ("gpu_first",), 10, is_check=True),
    Part("second", ("gpu_second",), 10, is_check=True),
)


class Bed:
    """Programs that are shell scripts, and what running the parts says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.said: list[str] = []
        self.now = 0.0
        (home / "bin").mkdir()
        lines = gemm_lines(plan=1.0, bare=1.0)
        text = "\n".join(json.dumps(each) for each in lines)
        (home / "lines").write_text(text + "\n")
        self.program("gpu_first", PASSES)
        self.program("gpu_second", PASSES)
        self.program("gpu_bench", f"cat {home / 'lines'}")

    def program(self, name: str, script: str) -> None:
        path = self.home / "bin" / name
        path.write_text(f"#!/bin/sh\necho {name} >>{self.home / 'ran'}\n{script}\n")
        path.chmod(0o755)

    def ran(self) -> list[str]:
        names = (self.home / "ran").read_text().split()
        (self.home / "ran").write_text("")
        return names

    def run(
        self, *, key: str = "k", step_s: float = 0.0, fake: bool = False,
        extra: tuple[Part, ...] = (),
    ) -> int:  # fmt: skip
        def clock() -> float:
            self.now += step_s
            return self.now

        self.said.clear()
        session = Session.read(self.home / "state.json", key)
        runner = Runner(
            MACHINE, "abc", session, self.home / "results", fake, self.said.append, clock,
            parts=(*CHECK_PARTS, GEMM_PART, *extra), home=self.home,
        )  # fmt: skip
        return runner.run()

    def document(self) -> dict[str, Any]:
        (path,) = (self.home / "results").glob("gpu-gemm-*.json")
        return json.loads(path.read_text())


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_checks_come_first_and_the_file_names_them(bed: Bed) -> None:
    assert bed.run() == 0
    assert bed.ran() == ["gpu_first", "gpu_second", "gpu_bench"]
    document = bed.document()
    assert document["checks"]["second"]["passed"] == 2
    assert document["machine"] == MACHINE and document["commit"] == "abc"
    assert document["figures"] == {"gemm 8192x8192x8192": {"plan": 1.0, "bare": 1.0}}
    assert document["goals"][0]["verdict"] == goals.MET
    assert document["lines"] == gemm_lines(plan=1.0, bare=1.0)


def test_behind_a_check_that_failed_no_benchmark_is_run(bed: Bed) -> None:
    bed.program("gpu_first", "echo 'rank 1 differs'; exit 1")
    assert bed.run() == 1
    assert bed.ran() == ["gpu_first", "gpu_second"]  # The other check says more.
    assert "first: FAILED: rank 1 differs" in bed.said
    bed.program("gpu_first", PASSES)
    assert bed.run() == 0
    assert bed.ran() == ["gpu_first", "gpu_bench"]


def test_behind_a_benchmark_that_failed_the_others_are_run(bed: Bed) -> None:
    bed.program("gpu_bench", "echo 'too little memory' >&2; exit 1")
    bed.program("gpu_other", f"cat {bed.home / 'lines'}")
    assert bed.run(extra=(Part("collectives", ("gpu_other",), 10),)) == 1
    assert bed.ran() == ["gpu_first", "gpu_second", "gpu_bench", "gpu_other"]
    assert "gemm: FAILED: too little memory" in bed.said


@pytest.mark.parametrize("output", ["[  PASSED  ] 0 tests.", "", "[  SKIPPED ] 2 tests."])
def test_a_check_in_which_nothing_ran_has_failed(bed: Bed, output: str) -> None:
    bed.program("gpu_first", f"echo '{output}'")
    assert bed.run() == 1
    assert "first: FAILED: first: not every test ran" in bed.said


def test_what_is_done_is_not_done_again_for_the_same_machine(bed: Bed) -> None:
    assert bed.run() == 0
    bed.ran()
    assert bed.run() == 0
    assert bed.ran() == []
    assert bed.run(key="another driver") == 0
    assert bed.ran() == ["gpu_first", "gpu_second", "gpu_bench"]


def test_a_state_file_cut_off_is_no_state(bed: Bed) -> None:
    assert bed.run() == 0
    bed.ran()
    state = bed.home / "state.json"
    state.write_text(state.read_text()[:-5])
    assert bed.run() == 0
    assert len(bed.ran()) == 3


def test_when_time_is_over_the_next_call_goes_on(bed: Bed) -> None:
    # The clock moves by so much at every look: after the first part, too little is left.
    assert bed.run(step_s=120) == 2
    first = bed.ran()
    assert first[0] == "gpu_first" and "gpu_bench" not in first
    assert "goes on from here" in bed.said[-1]
    assert bed.run() == 0
    assert [*first, *bed.ran()] == ["gpu_first", "gpu_second", "gpu_bench"]


def test_a_program_that_does_not_end_is_named(bed: Bed) -> None:
    bed.program("hangs", "exec tail -f /dev/null")
    with pytest.raises(PartError, match="hangs did not end within 0 s"):
        parts.call([str(bed.home / "bin" / "hangs")], {}, 0.2)


def test_samples_that_cannot_be_summed_up_are_kept(bed: Bed) -> None:
    lines = gemm_lines(plan=1.0, bare=1.0)
    lines[0]["rounds"] = [[[1.0]]]
    (bed.home / "lines").write_text("\n".join(json.dumps(each) for each in lines))
    assert bed.run() == 0
    assert bed.document()["lines"] == lines
    assert any("no summary" in text for text in bed.said)


def test_a_fake_gpus_figures_meet_no_goal_and_say_so(bed: Bed) -> None:
    assert bed.run(fake=True) == 0
    document = bed.document()
    assert document["mark"] == parts.FAKE_MARK
    assert {row["verdict"] for row in document["goals"]} <= {goals.NO_GOAL, goals.ABSENT}


def test_a_part_may_set_the_environment(bed: Bed) -> None:
    bed.program("gpu_third", f'[ "$JIT" = 1 ] && {PASSES}')
    third = Part("third", ("gpu_third",), 10, is_check=True, env=(("JIT", "1"),))
    assert bed.run(extra=(third,)) == 0
    assert bed.ran()[-1] == "gpu_third"


@pytest.mark.parametrize(("status", "wanted"), [(0, 0), (9, 1)])
def test_nvidias_checker_is_given_our_program(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, status: int, wanted: int
) -> None:
    memcheck = Part("memcheck", (parts.SANITIZER, *parts.SANITIZED), 10, is_check=True)
    bed.program(parts.SANITIZER, f"echo $2 >>{bed.home / 'ran'}; {PASSES}; exit {status}")
    monkeypatch.setenv("PATH", f"{bed.home / 'bin'}:/usr/bin:/bin")
    assert bed.run(extra=(memcheck,)) == wanted
    assert bed.ran()[-2:] == [parts.SANITIZER, str(bed.home / "bin" / "gpu_silicon_test")]


def test_without_nvidias_checker_its_parts_are_left_out(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    memcheck = Part("memcheck", (parts.SANITIZER, *parts.SANITIZED), 10, is_check=True)
    monkeypatch.setattr(parts, "TOOLKIT", bed.home)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if shutil.which(parts.SANITIZER):
        pytest.skip("it is installed among the system's programs")
    assert bed.run(extra=(memcheck,)) == 0
    assert "memcheck: left out: there is no compute-sanitizer for a GPU here" in bed.said


def test_every_part_of_the_benchmarks_has_a_summary() -> None:
    names = [part.name for part in parts.PARTS if not part.is_check]
    assert names == list(summary.ROWS)
    first_benchmark = min(i for i, part in enumerate(parts.PARTS) if not part.is_check)
    assert [part.name for part in parts.PARTS[:first_benchmark]] == ["results", "endurance"]


def test_pictures_are_drawn_beside_the_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    import plots

    collective = [
        line("collectives", f"allreduce 2 ranks {size} bytes", name, size * 0.1)
        for size in (4096, 65536)
        for name in ("plan", "copy")
    ]
    stages = {
        "gemm": gemm_lines(plan=1.0, bare=1.0),
        "fused": fused_lines(plan=1.0, gemm=0.8, comm=0.4, pair=1.2),
        "collectives": collective,
    }
    for name, lines in stages.items():
        document = {
            "stage": f"gpu-{name}", "date": "2026-01-01", "commit": "abc", "machine": MACHINE,
            "mark": "", "figures": summary.figures(lines), "lines": lines,
        }  # fmt: skip
        (tmp_path / f"gpu-{name}-2026-01-01.json").write_text(json.dumps(document))
    drawn, failed = plots.draw_all(tmp_path)
    assert failed == []
    assert sorted(path.name for path in drawn) == [
        f"gpu-{name}-2026-01-01.png" for name in sorted(stages)
    ]
