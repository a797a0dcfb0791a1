"""`comm` comes about, and comes back, whichever ranks a cell names it on: nobody waits for a rank
that has no reason to come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from conftest import Cell, Kernel, Kernels, start

RANKS = 4
ROUND_S = 2.0
"""How long ranks wait for one another before they try again."""


@pytest.fixture(scope="module")
def fresh(spec: Path) -> Iterator[Kernel]:
    """Whose cells have not named it yet."""
    kernel = start(spec, RANKS)
    yield kernel
    kernel.stop()


def total(kernel: Kernel, code: str = "allreduce(comm, 1)") -> str:
    """What the ranks' sum shows; a later cell finds `comm` where this one met its end."""
    for _ in range(3):
        cell: Cell = kernel.run(f"using LibSK; {code}")
        if cell.reply["status"] == "ok":
            return str(cell.of("execute_result")[0]["data"]["text/plain"])
        assert "PEER_LOST" in cell.reply["evalue"], cell.reply
    raise AssertionError(cell.reply)


def test_a_cell_of_one_rank_names_it_first(fresh: Kernel) -> None:
    (shown,) = fresh.run("%%on 1\ncomm").of("execute_result")
    assert shown["data"]["text/plain"] == "Comm(rank 1 of 4)"
    assert total(fresh) == str(RANKS)


def test_it_comes_back_after_one_rank_has_aborted_it(kernels: Kernels) -> None:
    kernel = kernels(RANKS)
    assert total(kernel) == str(RANKS)
    for _ in range(3):
        cell = kernel.run('rank == 2 && abort(comm, "only 2"); allreduce(comm, 3)')
        assert "only 2" in cell.reply["evalue"]
        assert total(kernel) == str(RANKS)


def test_it_comes_back_after_some_have_closed_it(kernels: Kernels) -> None:
    kernel = kernels(RANKS)
    assert total(kernel) == str(RANKS)
    for some in ("0", "1-2", "0-3"):
        assert kernel.run(f"%%on {some}\nclose(comm)").reply["status"] == "ok"
        assert kernel.run("%%on 1-2\ncomm").reply["status"] == "ok"
        assert total(kernel) == str(RANKS)


def test_an_interrupt_while_it_comes_about_ends_nothing_else(kernels: Kernels) -> None:
    kernel = kernels(RANKS)
    assert total(kernel) == str(RANKS)
    # Rank 3 cannot come: a task keeps it from its loop.
    kernel.run("%%on 3\nuntil = time() + 8; @async (while time() < until; end); nothing")
    assert kernel.run("%%on 0-2\nclose(comm)").reply["status"] == "ok"
    sent = kernel.start("%%on 0-2\nbarrier(comm)")
    kernel.manager.interrupt_kernel()
    assert kernel.finish(sent).reply["status"] == "error"
    assert kernel.run("%%on 0-2\nprint(1)").text() == "1"
    assert total(kernel) == str(RANKS)


@pytest.mark.parametrize("when", ["in a cell", "between cells"])
def test_ranks_that_wait_for_another_hear_of_cells(
    fresh: Kernel, tmp_path: Path, when: str
) -> None:
    """Also where descriptor 0 is closed: in a communicator's configuration that one is none, and
    ranks whose way to hear was 0 were deaf until rank 3 came, or 300 s had passed."""
    assert total(fresh) == str(RANKS)
    gate = tmp_path / "gate"
    # A task runs when the rank is back in its loop, as a rule before it hears of the next epoch.
    close = f"{'' if when == 'in a cell' else '@async '}ccall(:close, Cint, (Cint,), 0)"
    # Rank 3 cannot come: a task keeps it from its loop.
    fresh.run(f"%%on 3\n@async (while !ispath({json.dumps(str(gate))}); end); nothing")
    try:
        assert fresh.run(f"%%on 0-2\nclose(comm); {close}; nothing").reply["status"] == "ok"
        for _ in range(3):
            sleep(0.3)  # They meet meanwhile; what ends that is the cell.
            assert fresh.run(f"%%on 0-2\n{close}; print(1)").text() == "1"
    finally:
        gate.touch()
    assert total(fresh) == str(RANKS)


def test_a_reset_gives_it_back(kernels: Kernels) -> None:
    kernel = kernels(RANKS)
    kernel.run("comm = 3")
    assert kernel.run("print(comm)").text() == "3"
    kernel.run("%reset")
    assert total(kernel) == str(RANKS)
    kernel.run("rank == 1 && (comm = nothing); nothing")
    assert total(kernel) == str(RANKS)


@pytest.mark.parametrize("end", ["close(comm)", "try rank == 0 || barrier(comm) catch end"])
def test_the_cell_right_behind_its_end_finds_another(kernels: Kernels, end: str) -> None:
    """Some ranks met for it between the cells, others in the next one: they left each other waiting
    for all of a round, or one was given what another dropped."""
    kernel = kernels(RANKS)
    assert total(kernel) == str(RANKS)
    took = []
    for _ in range(25):
        assert kernel.run(end).reply["status"] == "ok"
        begin = monotonic()
        cell = kernel.run("allreduce(comm, 1)")
        took.append(monotonic() - begin)
        assert cell.reply["status"] == "ok", cell.reply
    # A busy machine may keep one waiting; what is wrong here kept every sixth.
    assert sorted(took)[-2] < ROUND_S, took


@pytest.mark.parametrize("end", ["close(comm)", "%%on 1-2\nclose(comm)"])
def test_functions_of_earlier_cells_find_it_too(kernels: Kernels, end: str) -> None:
    kernel = kernels(RANKS)
    assert total(kernel, "sum_of_all() = allreduce(comm, 1); sum_of_all()") == str(RANKS)
    for _ in range(10):
        assert kernel.run(end).reply["status"] == "ok"
        cell = kernel.run("sum_of_all()")
        assert cell.reply["status"] == "ok", cell.reply
        assert cell.of("execute_result")[0]["data"]["text/plain"] == str(RANKS)


def test_who_waits_for_it_in_vain_is_not_kept_by_every_cell(
    kernels: Kernels, tmp_path: Path
) -> None:
    kernel = kernels(RANKS)
    assert total(kernel) == str(RANKS)
    gate = tmp_path / "gate"
    kernel.run(f"%%on 3\n@async (while !ispath({json.dumps(str(gate))}); end); nothing")
    try:
        assert kernel.run("%%on 0-2\nclose(comm)").reply["status"] == "ok"
        took = []
        for _ in range(8):
            begin = monotonic()
            assert kernel.run("%%on 0-2\nprint(1)").text() == "1"
            took.append(monotonic() - begin)
        assert min(took[1:]) < 1, took  # The first waits a second, at most.
    finally:
        gate.touch()
    assert total(kernel) == str(RANKS)


@pytest.mark.parametrize("name", ["Main.comm", "eval(:(comm))", "getfield(Main, :comm)"])
def test_whatever_names_it_makes_it(spec: Path, name: str) -> None:
    kernel = start(spec, 2)
    try:
        assert total(kernel, f"{name}.world_size") == "2"
    finally:
        kernel.stop()


def test_who_names_it_elsewhere_is_told_how(spec: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.jl"
    script.write_text("trained = allreduce(comm, 1)\n")
    load = f"include({json.dumps(str(script))})"
    kernel = start(spec, 2)
    try:
        cell = kernel.run(f"using LibSK; {load}")
        assert "before a cell that names it: write `comm;`" in cell.reply["evalue"], cell.reply
        assert total(kernel, f"comm; {load}") == "2"
        cell = kernel.run("close(comm); allreduce(comm, 1)")
        assert "`comm` is another in the next cell" in cell.reply["evalue"], cell.reply
        assert total(kernel, load) == "2"
    finally:
        kernel.stop()
