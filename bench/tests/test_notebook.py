"""The notebook stage: rows and picture from made-up figures, its client with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from measure import goals, machine, rounds
from measure.launch import LaunchError
from measure.rounds import Bench, Candidate, run_rounds

pytest.importorskip("jupyter_client")

from notebook import kernels, processes, visits
from notebook.client import Cell, Kernel, environment
from stages import notebook as stage

NAMES = ("ipykernel", "libsk-4", "stub-256")


def entry(start: dict[str, float], print_ms: dict[str, float]) -> dict[str, Any]:
    """A round in which both visits of a kernel gave the same."""

    def lines(name: str) -> list[dict[str, Any]]:
        samples = [print_ms[name] * share for share in (0.9, 1.0, 1.1)]
        line = {"start_s": [start[name]], "print_ms": samples, "pss_mb_per_rank": [11.0]}
        connected = [value / 2 for value in samples] if name.startswith("libsk") else []
        return [{"case": "cells", **line, "connected_ms": connected}]

    visits_ = {name: [lines(name), lines(name)] for name in NAMES}
    return {"valid": True, "why": "", "visits": visits_, "failed": {}}


def rows_of(found: list[goals.Row]) -> dict[tuple[str, str], goals.Row]:
    return {(row.area, row.case): row for row in found}


def test_a_ratio_is_of_medians_over_ipykernels() -> None:
    start = {"ipykernel": 0.6, "libsk-4": 0.3, "stub-256": 1.0}
    print_ms = {"ipykernel": 6.0, "libsk-4": 9.0, "stub-256": 40.0}
    done = [entry(start, print_ms), entry(start, print_ms)]
    rows = rows_of(stage._ratios(done, NAMES))
    started = rows["notebook, start to first finished cell", "libsk-4"]
    assert started.measured == pytest.approx(0.5) and started.verdict == goals.MET
    printed = rows["notebook, print(1) p50", "libsk-4"]
    assert printed.measured == pytest.approx(1.5) and printed.verdict == goals.MISSED
    connected = rows["notebook, print(1) p50 of connected ranks", "libsk-4"]
    assert connected.measured == pytest.approx(0.75) and connected.verdict == goals.MET
    assert all("stub" not in case for _, case in rows)
    alone = rows_of(stage._ranks_alone(done))
    assert alone["notebook, print p50", "256 stub ranks"].measured == pytest.approx(40.0)
    assert alone["notebook, PSS per rank", "4 ranks"].verdict == goals.MET


def test_a_kernel_that_failed_in_one_round_has_no_ratio() -> None:
    start = dict.fromkeys(NAMES, 1.0)
    done = [entry(start, start), entry(start, start)]
    del done[1]["visits"]["libsk-4"]
    rows = rows_of(stage._ratios(done, NAMES))
    assert rows["notebook, print(1) p50", "libsk-4"].verdict == goals.ABSENT


def alone(**changes: Any) -> dict[str, Any]:
    def output(case: str, **about: Any) -> dict[str, Any]:
        figures = {"seconds": [0.5], "messages_per_s": [7.0], "wire_over_shown": [1.2]}
        return {"case": case, **figures, **about}

    volume = [output(f"{mb} MB", mb=mb) | {"seconds": [0.1 * mb]} for mb in stage.VOLUME_MB]
    found = {
        "controller": [{"case": "controller", "rss_mb": [90.0]}],
        "flood": [output("lines alike"), output("lines apart")],
        "volume": volume,
        "interrupt": [{"case": "interrupt", "ms": [30.0] * 19 + [99.0]}],
        "death": [{"case": "death", "ms": [50.0] * 20}],
    }
    return found | changes


def test_twenty_of_twenty_is_about_the_slowest() -> None:
    area = "notebook, 4 ranks"
    case = "20 interrupts of time.sleep, slowest"
    row = rows_of(stage._loads(alone()))[area, case]
    assert (row.measured, row.verdict, row.why) == (99.0, goals.MET, "20 of 20 within")
    late = [{"case": "interrupt", "ms": [30.0] * 19 + [101.0]}]
    row = rows_of(stage._loads(alone(interrupt=late)))[area, case]
    assert (row.measured, row.verdict, row.why) == (101.0, goals.MISSED, "19 of 20 within")


def test_time_that_grows_faster_than_the_output_is_missed() -> None:
    key = ("notebook, 4 ranks, long output", "4 MB per rank")
    assert rows_of(stage._loads(alone()))[key].verdict == goals.MET
    square = alone()
    for line in square["volume"]:
        line["seconds"] = [0.1 * line["mb"] ** 2]
    row = rows_of(stage._loads(square))[key]
    assert row.measured == pytest.approx(4.0) and row.verdict == goals.MISSED


def test_a_group_that_failed_leaves_its_reason() -> None:
    rows = stage._loads(dict.fromkeys(alone(), "the kernel ended with 1"))
    assert {row.verdict for row in rows} == {goals.ABSENT}
    assert all("the kernel ended with 1" in row.why for row in rows)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    plots = pytest.importorskip("plots", exc_type=ImportError)
    start = {"ipykernel": 0.6, "libsk-4": 0.3, "stub-256": 1.0}
    done = [entry(start, start), entry(start, start)]
    rows = [*stage._ratios(done, NAMES), *stage._ranks_alone(done), *stage._loads(alone())]
    document = {
        "stage": "notebook", "quick": False, "date": "2026-01-01", "commit": "abc",
        "machine": machine.describe(), "rounds": [{"valid": True}] * 2,
        "figures": stage._figures(done, NAMES), "goals": [row.as_dict() for row in rows],
    }  # fmt: skip
    (tmp_path / "notebook-x.json").write_text(json.dumps(document))
    drawn, failed = plots.draw_all(tmp_path)
    assert failed == [] and drawn[0].stat().st_size > 10_000


def test_rounds_that_are_not_judged_need_no_probe(tmp_path: Path) -> None:
    said: list[str] = []
    bench = Bench(tmp_path, tmp_path, tmp_path, said.append, False, 2, 6, [], False, {})
    order: list[str] = []

    def visit(name: str) -> Any:
        return lambda: order.append(name) or [{"case": name, "ms": [1.0]}]

    candidates = [Candidate("a", visit("a")), Candidate("b", visit("b"))]
    done = run_rounds(bench, "label", candidates, {}, judge=rounds.Judge.NOTHING)
    assert order == ["a", "b", "b", "a"] * 2 and all(each["valid"] for each in done)
    assert rounds.samples(done, "a", lambda line: True, "ms") == [([1.0], [1.0])] * 2


def test_a_cells_text_is_what_stays_after_a_clear() -> None:
    def message(kind: str, text: str = "") -> dict[str, Any]:
        return {"msg_type": kind, "content": {"text": text}}

    cell = Cell(messages=[message("stream", "live"), message("clear_output")])
    cell.messages.append(message("stream", "kept"))
    assert cell.text == "kept"


def test_kernels_get_a_users_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.setenv("KEPT", "yes")
    given = environment({"SK_PROGRAM": "sk"})
    assert not {"PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"} & given.keys()
    assert (given["KEPT"], given["SK_PROGRAM"]) == ("yes", "sk")


def test_a_kernel_that_ends_is_told_at_once(tmp_path: Path) -> None:
    with (
        Kernel(["/bin/false"], tmp_path) as kernel,
        pytest.raises(LaunchError, match="ended with 1"),
    ):
        kernel.first("print(1)")


def test_a_kernel_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with Kernel(["/bin/sleep", "3600"], tmp_path) as kernel:
        with pytest.raises(LaunchError, match="did not answer within 0 s"):
            kernel.first("print(1)", limit_s=0.2)
        kernel.process.kill()


def test_memory_and_children_are_read() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.descendants(os.getpid())
        for _ in range(1000):  # The system gives the new program its arguments a moment later.
            if command := processes.command(child.pid):
                break
            time.sleep(0.01)
        assert "input()" in command
        assert 0 < processes.pss_mb(child.pid) <= processes.rss_mb(child.pid)
    finally:
        child.communicate(b"\n")
    assert child.pid not in processes.descendants(os.getpid())
    assert processes.command(child.pid) == ""


def test_a_kernel_of_ours_is_measured(tmp_path: Path) -> None:
    if not (kernels.build() / "tests/support/sk-stub-rank").exists():
        pytest.skip("there is no Release build: ./dev test makes it")
    [line] = visits.start_and_print(kernels.stub(2), tmp_path, 3)
    assert line["start_s"][0] > 0 and len(line["print_ms"]) == 3
    assert 0 < line["pss_mb_per_rank"][0] < 100
    assert line["case"] == "cells"
