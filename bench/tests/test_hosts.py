"""The stage of hosts: what its rows say, and a quick run of all of it where hosts can be had."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from measure.in_hosts import Hosts, json_lines_of, why_not
from measure.launch import LaunchError
from measure.rounds import Bench
from stages import hosts as stage
from stages import hosts_programs as programs

REPO = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SK_BUILD_DIR", REPO / "build" / "release")) / "bench"


def rounds(us: dict[str, float], allreduce: dict[str, float], count: int = 3) -> list[Any]:
    """Rounds in which every case takes what is said, an all-reduce of 4 KB too."""
    link = [{"case": case, "us": [time] * 4} for case, time in us.items()]
    visits = {"link": [link, link]}
    for who, time in allreduce.items():
        lines = [{"case": who, "bytes": 4096, "us": [time] * 4}]
        visits[who] = [lines, lines]
    return [{"visits": visits}] * count


LINK = {
    "trip, plain": 10.0,
    "trip, tcp": 12.0,
    "stream of 1024 KiB, plain": 300.0,
    "stream of 1024 KiB, tcp": 400.0,
    "stream of 1024 KiB, tls": 500.0,
    "gcm, sealed": 200.0,
}
AMOUNTS = programs.Amounts(
    link_batches=4, trips=50, mib=8, batches=2, sizes=(4096,), budget_ms=20, shapes=("8x8x8",)
)


def rows_of(found: list[Any], absent: dict[str, str]) -> dict[tuple[str, str], Any]:
    all_rows = stage.Timed(found, 3, AMOUNTS, absent).rows()
    return {(row.area.partition(",")[0], f"{row.case} {row.unit}"): row for row in all_rows}


def test_ratios_are_of_what_is_measured_in_the_same_rounds() -> None:
    rows = rows_of(rounds(LINK, {"libsk": 20.0, "libsk tls": 30.0, "gloo": 60.0, "ompi": 15.0}), {})
    trip = rows["round trip by tcp", "8 B x plain socket"]
    assert (trip.measured, trip.verdict) == (pytest.approx(1.2), "MISSED")
    stream = rows["stream of puts by tcp", "1 MB x plain socket"]
    assert (stream.measured, stream.verdict) == (pytest.approx(0.75), "MISSED")
    # What both take for a MiB, added: 1 / (1 / tcp + 1 / gcm) is so many MiB a second.
    tls = rows["stream of puts by tls", "1 MB x plain socket and AES-GCM in turn"]
    assert (tls.measured, tls.verdict) == (pytest.approx(1.0), "met")
    gloo = rows["all-reduce f32", "4 KB x gloo, neither encrypted"]
    assert (gloo.measured, gloo.verdict) == (pytest.approx(3.0), "met")
    within = rows["all-reduce f32 within TLS", "4 KB x gloo, which does not encrypt"]
    assert (within.measured, within.verdict) == (pytest.approx(2.0), "no goal")
    ompi = rows["all-reduce f32", "4 KB x Open MPI over TCP, neither encrypted"]
    assert (ompi.measured, ompi.verdict) == (pytest.approx(0.75), "MISSED")


def test_what_is_no_more_than_the_noise_meets_no_goal() -> None:
    found = rounds(LINK, {"libsk": 20.0, "gloo": 60.0})
    slow, slower = ([{"case": "gloo", "bytes": 4096, "us": [time] * 4}] for time in (40.0, 400.0))
    found[0]["visits"]["gloo"] = [slow, slower]  # The same program, once and again.
    row = rows_of(found, {})["all-reduce f32", "4 KB x gloo, neither encrypted"]
    assert row.measured is not None and row.measured > 2
    assert row.verdict == "within the noise"


def test_a_fused_product_is_held_to_its_two_calls() -> None:
    lines = [
        {"case": f"f32 8x8x8 {how}", "us": [time] * 4}
        for how, time in (("fused", 4.0), ("pair", 5.0))
    ]
    rows = rows_of([{"visits": {"fused": [lines, lines]}}] * 3, {})
    row = rows["product with all-reduce", "f32 8x8x8 x product, then all-reduce"]
    assert (row.measured, row.verdict) == (pytest.approx(1.25), "met")
    row = rows["product with all-reduce", "bf16 8x8x8 x product, then all-reduce"]
    assert row.verdict == "not measured"


def test_what_disturbs_both_moves_no_ratio_of_a_link() -> None:
    ours, plain = [12.0, 1200.0, 24.0], [10.0, 1000.0, 20.0]
    lines = [{"case": "trip, tcp", "us": ours}, {"case": "trip, plain", "us": plain}]
    found = [{"visits": {"link": [lines, lines]}}] * 3
    row = rows_of(found, {})["round trip by tcp", "8 B x plain socket"]
    assert row.measured == pytest.approx(1.2)
    assert rows_of(found[:2], {})["round trip by tcp", "8 B x plain socket"].measured is None


def test_a_peer_that_is_absent_is_named() -> None:
    rows = rows_of(rounds(LINK, {"libsk": 20.0}), {"gloo": "torch is not here"})
    gloo = rows["all-reduce f32", "4 KB x gloo, neither encrypted"]
    assert (gloo.verdict, gloo.why) == ("not measured", "torch is not here")
    assert (
        rows["all-reduce f32", "4 KB x Open MPI over TCP, neither encrypted"].why
        == "too few rounds of both"
    )


def test_messages_are_counted_between_hosts_and_not_within_them() -> None:
    apart = [
        {
            "rank": rank,
            "segments": {f"10.77.0.{other + 1}": 3 for other in range(4) if other != rank},
        }
        for rank in range(4)
    ]
    assert stage.crossing(apart, 1) == 4 * 3 * 3
    assert stage.crossing(apart, 2) == 4 * 2 * 3  # As if two of them shared a host each.


def test_times_of_ranks_are_averaged_call_by_call() -> None:
    lines = [
        {"case": "gloo", "bytes": 4096, "batch": batch, "rank": rank, "us": [1.0 + rank, 5.0]}
        for rank in range(2)
        for batch in range(2)
    ]
    merged = programs.mean_over_ranks(lines)
    assert merged == [{"case": "gloo", "bytes": 4096, "us": [1.5, 5.0]}] * 2


def test_a_rank_that_fails_is_named_with_its_last_words() -> None:
    with Hosts(2) as hosts:
        with pytest.raises(LaunchError, match=r"sh: rank 1 ended with 3: gone"):
            json_lines_of(
                list(hosts),
                lambda rank: ["sh", "-c", "echo gone >&2; exit 3" if rank else "echo '{}'"],
                lambda _: {},
                30,
            )
        with pytest.raises(LaunchError, match=r"sleep: rank 0 did not end within 1 s"):
            json_lines_of([hosts[0]], lambda _: ["sleep", "60"], lambda _: {}, 1)


def test_a_quick_run_has_every_row_or_says_why_not() -> None:
    if reason := why_not():
        pytest.skip(reason)
    if not (BUILD / "net" / "hosts_link_bench").exists():
        pytest.skip(f"{BUILD / 'net'} has no programs: ./dev build builds them")
    scratch = REPO / "build" / "bench-scratch" / "tests"
    scratch.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        build=BUILD,
        scratch=scratch,
        results=scratch,
        say=print,
        quick=True,
        rounds=1,
        rounds_max=1,
        mpis=["ompi"],
        fresh=True,
    )
    rows = stage.run(bench)
    (path,) = (scratch / "quick").glob("hosts-*.json")
    document = json.loads(path.read_text())
    path.unlink()
    absent = {name for name, about in document["peers"].items() if about.startswith("not here: ")}
    for row in rows:
        if absent_name(row.unit) in absent:
            assert row.why == document["peers"][absent_name(row.unit)].removeprefix("not here: ")
        else:
            assert row.measured is not None, row
            assert row.measured > 0
    assert len(rows) == len(document["goals"]) == 22
    assert {"trip, plain", "stream of 64 KiB, tls", "gcm, opened"} <= set(document["figures_us"])
    of_bytes = next(row for row in rows if row.case == "4 MB")
    assert 0.95 <= of_bytes.measured <= stage.BYTES_GOAL  # Counted, so no load moves it.
    of_messages = next(row for row in rows if row.unit == "x messages of flat")
    assert of_messages.verdict == "met"


def absent_name(unit: str) -> str:
    """The peer that a row is about; "" for none."""
    return next((peer for peer, _, name in stage.PEERS if f"x {name}," in unit), "")
