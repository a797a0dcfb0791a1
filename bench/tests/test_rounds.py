"""Rounds: order, discard, resuming, candidates that fail. Probes and programs are stood in for."""

import json
from pathlib import Path
from typing import Any

import pytest
from measure import machine, placement, rounds
from measure.launch import LaunchError, json_lines

NEAR, FAR = [60.0, 0.5, 3.0], [120.0, 1.0, 3.0]


class Machine:
    """A machine whose clock, foreign load and cores follow a script, one entry per round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, script: list[dict[str, Any]]) -> None:
        self.script = script
        self.probes = 0
        self.seconds = 0.0
        monkeypatch.setattr(machine, "probe", self.probe)
        monkeypatch.setattr(machine, "place", self.place)
        monkeypatch.setattr(machine, "cpu_times", self.cpu_times)
        monkeypatch.setattr(machine, "foreign_cores", self.foreign_cores)
        monkeypatch.setattr(machine, "stolen_cores", lambda before, after: 0.0)

    def entry(self) -> dict[str, Any]:
        return self.script[min(self.probes // 2, len(self.script) - 1)]

    def probe(self, _program: Path) -> machine.Probe:
        entry, after = self.entry(), self.probes % 2
        place = self.place(_program)
        self.probes += 1
        clock = entry.get("clock_after", 1.0) if after else 1.0
        return machine.Probe([{"core": 0, "fma_ns": clock}], place)

    def place(self, _program: Path) -> list[float]:
        """The next of the round's looks: before it, after each visit, after it."""
        looks = self.entry().setdefault("looks", [FAR])
        return looks.pop(0) if len(looks) > 1 else looks[0]

    def cpu_times(self) -> machine.CpuTimes:
        self.seconds += self.entry().get("seconds", 0.0)
        return machine.CpuTimes(0.0, 0.0, 0.0, self.seconds)

    def foreign_cores(self, _before: machine.CpuTimes, _after: machine.CpuTimes) -> float:
        """That of the next visit, then of the round, whose last probe has been read by then."""
        entry = self.script[min((self.probes - 1) // 2, len(self.script) - 1)]
        takes = entry.setdefault("foreign", [0.0])
        return takes.pop(0) if len(takes) > 1 else takes[0]


def make_bench(tmp_path: Path, wanted: int = 2, tried: int = 6) -> rounds.Bench:
    lines: list[str] = []
    return rounds.Bench(
        build=tmp_path,
        scratch=tmp_path,
        results=tmp_path,
        say=lines.append,
        quick=False,
        rounds=wanted,
        rounds_max=tried,
        mpis=[],
        fresh=False,
        options={"lines": None},
    )


def candidate(name: str, order: list[str]) -> rounds.Candidate:
    def visit() -> list[dict[str, Any]]:
        order.append(name)
        return [{"case": name, "us": [1.0, 2.0]}]

    return rounds.Candidate(name, visit)


def test_a_round_visits_in_abba_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, [{}])
    order: list[str] = []
    done = rounds.run_rounds(
        make_bench(tmp_path, wanted=1), "t", [candidate("a", order), candidate("b", order)], {}
    )
    assert order == ["a", "b", "b", "a"]
    assert done[0]["valid"]
    assert len(done[0]["visits"]["a"]) == 2


def test_discarded_rounds_are_kept_and_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{"clock_after": 1.1}, {"foreign": [0.4]}, {}, {}])
    judge = rounds.Judge.ROUNDS
    done = rounds.run_rounds(make_bench(tmp_path), "t", [candidate("a", [])], {}, judge=judge)
    assert [entry["valid"] for entry in done] == [False, False, True, True]
    assert "clock" in done[0]["why"]
    assert "other processes" in done[1]["why"]


def test_a_visit_beside_others_is_left_out_and_the_round_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{"foreign": [0.0, 0.4, 0.0]}, {"foreign": [0.4]}, {}])
    bench = make_bench(tmp_path)
    done = rounds.run_rounds(bench, "t", [candidate("a", []), candidate("b", [])], {})
    assert [entry["valid"] for entry in done] == [True, False, True]
    assert "other processes" in done[0]["left_out"]["b"][0]
    assert done[1]["why"] == done[1]["left_out"]["a"][0]
    found = rounds.samples(rounds.usable(done, bench), "b", lambda line: True, "us")
    assert found == [([], [1.0, 2.0]), ([1.0, 2.0], [1.0, 2.0])]


def test_a_host_that_moves_the_cores_sorts_visits_and_discards_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Looks: before the round, after its four visits, after the round.
    Machine(monkeypatch, [{"looks": [FAR, FAR, NEAR, NEAR, FAR, FAR]} for _ in range(2)])
    bench = make_bench(tmp_path)
    done = rounds.run_rounds(bench, "t", [candidate("a", []), candidate("b", [])], {})
    assert [entry["valid"] for entry in done] == [True, True]
    lines = rounds.all_lines(done)
    places = placement.placement_of(lines)
    found = placement.tally(lines, places)
    assert found["moved"] == 4  # b's first and a's second visit of each round.
    assert {name: about["batches"] for name, about in found["classes"].items()} == {
        "far": 2,
        "near": 2,
    }
    near = rounds.of_class(done, places, "near")
    assert rounds.samples(near, "a", lambda line: True, "us") == []
    assert rounds.samples(near, "b", lambda line: True, "us") == [([], [1.0, 2.0])] * 2


def test_what_a_program_saw_itself_goes_before_the_looks_around_its_visit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{"looks": [FAR]}])
    line = {"case": "a", "us": [1.0], "place": [NEAR, NEAR]}
    bench = make_bench(tmp_path, wanted=1)
    done = rounds.run_rounds(bench, "t", [rounds.Candidate("a", lambda: [line])], {})
    lines = rounds.all_lines(done)
    assert set(placement.tally(lines, placement.placement_of(lines))["classes"]) == {"near"}


def test_after_its_time_a_stage_ends_with_the_rounds_that_it_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{"seconds": 10.0}])  # Four readings of the clock: 30 s a round.
    bench = make_bench(tmp_path, wanted=7, tried=21)
    done = rounds.run_rounds(bench, "t", [candidate("a", [])], {}, seconds_max=100.0)
    assert len(done) == 3
    done = rounds.run_rounds(bench, "u", [candidate("a", [])], {}, seconds_max=10.0)
    assert len(done) == 3  # Fewer prove nothing.


def test_a_machine_that_never_rests_ends_after_the_most_rounds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{"foreign": [0.9]}])
    bench = make_bench(tmp_path, wanted=2, tried=5)
    done = rounds.run_rounds(bench, "t", [candidate("a", [])], {})
    assert len(done) == 5
    assert rounds.usable(done, bench) == []


def test_a_cut_off_run_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{}])
    order: list[str] = []
    first = make_bench(tmp_path, wanted=1)
    rounds.run_rounds(first, "t", [candidate("a", order)], {"size": 1})
    progress = next((tmp_path / "progress").iterdir())
    progress.write_text(progress.read_text() + '{"valid": tr')  # Cut off within a line.
    done = rounds.run_rounds(
        make_bench(tmp_path, wanted=3), "t", [candidate("a", order)], {"size": 1}
    )
    assert len(done) == 3
    assert len(order) == 6
    lines = progress.read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 3


def test_other_settings_start_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, [{}])
    order: list[str] = []
    for size in (1, 2):
        bench = make_bench(tmp_path, wanted=1)
        rounds.run_rounds(bench, "t", [candidate("a", order)], {"size": size})
    assert len(order) == 4


def test_a_failing_candidate_is_left_out_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Machine(monkeypatch, [{}])

    def broken() -> list[dict[str, Any]]:
        raise LaunchError("b ended with 3: no such device")

    bench = make_bench(tmp_path)
    done = rounds.run_rounds(bench, "t", [candidate("a", []), rounds.Candidate("b", broken)], {})
    assert len(done) == 2
    assert done[0]["failed"] == {"b": "b ended with 3: no such device"}
    assert rounds.samples(done, "b", lambda line: True, "us") == []
    assert len(rounds.samples(done, "a", lambda line: True, "us")) == 2


def test_samples_are_those_of_the_lines_that_match() -> None:
    visits = [[{"case": "x", "us": [1.0]}], [{"case": "y", "us": [2.0]}]]
    entry = {"visits": {"a": visits}}
    assert rounds.samples([entry], "a", lambda line: line["case"] == "x", "us") == [([1.0], [])]
    assert rounds.samples([entry], "a", lambda line: line["case"] == "z", "us") == []
    assert rounds.samples([entry], "a", lambda line: True, "us") == [([1.0], [2.0])]


def test_a_program_that_fails_says_what_it_printed() -> None:
    with pytest.raises(LaunchError, match="ended with 3: .*no device"):
        json_lines(["/bin/sh", "-c", "echo no device >&2; exit 3"])


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(LaunchError, match="did not end within"):
        json_lines(["/bin/sh", "-c", "while :; do :; done"], timeout_s=0.3)


def test_lines_that_are_no_results_are_passed_over_and_broken_ones_are_not() -> None:
    assert json_lines(["/bin/echo", 'hello\n{"a": 1}']) == [{"a": 1}]
    with pytest.raises(LaunchError, match="broken line"):
        json_lines(["/bin/echo", '{"a": '])
    with pytest.raises(LaunchError, match="no result"):
        json_lines(["/bin/echo", "nothing"])


def test_the_callers_own_settings_of_a_peer_do_not_reach_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    shown = json_lines(["/bin/sh", "-c", 'echo "{\\"n\\": \\"$OMP_NUM_THREADS\\"}"'])
    assert shown == [{"n": ""}]
