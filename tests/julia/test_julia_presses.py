"""The stop button and what a cell of Julia does about it: a press is one exception, wherever that
is caught and whatever it is wrapped in, and none is lost."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import pytest
from conftest import Cell, Kernel, Kernels, wait_until

BUSY = """
busy(s) = (t = time(); while time() - t < s; sin(1.0); rand(3); end)
told = Any[]
"""


def begin(kernel: Kernel, code: str) -> str:
    """Starts a cell that says when it is where a press is to meet it."""
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    return sent


def pressed(kernel: Kernel, code: str) -> Cell:
    """How a cell ends with one press."""
    sent = begin(kernel, code)
    kernel.manager.interrupt_kernel()
    return kernel.finish(sent)


@pytest.fixture
def busy(kernels: Kernels) -> Kernel:
    """One rank: several that compute may get no processor for so long that a signal comes late."""
    kernel = kernels(1)
    kernel.run(BUSY)
    return kernel


WRAPPED = {
    "LoadError": 'include("computes.jl")',
    "CompositeException": "@sync @async busy(60)",
    "TaskFailedException": "wait(@async busy(60))",
    "CapturedException": """
        try busy(60) catch error throw(CapturedException(error, catch_backtrace())) end""",
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_an_interrupt_that_is_wrapped_is_one(busy: Kernel, tmp_path: Path, kind: str) -> None:
    (tmp_path / "computes.jl").write_text("busy(60)")
    work = WRAPPED[kind].replace("computes.jl", str(tmp_path / "computes.jl"))
    code = f'try; println("on"); {work}; catch e; sleep(0.4); print(nameof(typeof(e))); end'
    for _ in range(3):
        cell = pressed(busy, code)
        assert (cell.text(), cell.reply["status"]) == (f"on\n{kind}", "ok"), cell.reply


def test_an_interrupt_that_is_wrapped_is_told_as_one(busy: Kernel) -> None:
    cell = pressed(busy, 'println("on"); @sync @async busy(60)')
    assert cell.reply["ename"] == "CompositeException"


KEEPS = "goes_on = true; task = @async while goes_on; try busy(0.45) catch; end; sleep(0.01); end"


@pytest.mark.parametrize("waits", ["sleep(60)", "busy(60)"])
@pytest.mark.parametrize("saves", ["sleep(20)", "readline()"])
def test_a_press_that_another_task_swallows_is_not_lost(
    busy: Kernel, waits: str, saves: str
) -> None:
    """The `catch` of the one before still runs, and what it caught is no answer to this one."""
    code = f"""
        {KEEPS}
        try
            println("on"); {waits}
        catch
            try; println("saves"); {saves}; push!(told, "lost"); catch e; push!(told, e); end
        finally
            goes_on = false
        end
        wait(task)"""
    for _ in range(3):
        busy.run("empty!(told);")
        sent = busy.start(code, allow_stdin=True)
        busy.wait_for_stream(sent)
        busy.manager.interrupt_kernel()
        busy.wait_for_stream(sent)
        if saves == "readline()":
            busy.prompt(sent)
        busy.manager.interrupt_kernel()
        cell = busy.finish(sent)
        assert cell.reply["status"] == "ok", cell.reply
        assert busy.run("print(told)").text() == "Any[InterruptException()]"


def test_presses_in_a_loop_are_one_exception_each(busy: Kernel) -> None:
    work = 'try; println("on"); busy(60); catch e; push!(told, e); sleep(0.4); end'
    code = f"for i in 1:2; {work}; end"
    for _ in range(3):
        busy.run("empty!(told)")
        sent = busy.start(code)
        for _ in range(2):
            busy.wait_for_stream(sent)
            busy.manager.interrupt_kernel()
        assert busy.finish(sent).reply["status"] == "ok"
        assert busy.run("print(length(told))").text() == "2"


@pytest.mark.parametrize("ranks", [1, 4])
def test_what_a_cell_does_about_an_interrupt_may_print_in_a_flood(
    kernels: Kernels, ranks: int
) -> None:
    kernel = kernels(ranks)
    kernel.run("using LibSK; told = Any[]; barrier(comm)")
    code = """
        try
            barrier(comm); println("on")
            while true; println("x"^200); end
        catch e
            push!(told, e); println("one"); sleep(0.1); println("two")
        end
        print("saved")"""
    for _ in range(4):
        kernel.run("empty!(told);")
        sent = begin(kernel, code)
        sleep(0.3)
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(sent)
        assert cell.reply["status"] == "ok", cell.reply
        assert cell.text().endswith("saved")
        assert kernel.run("print(told)").text() == "Any[InterruptException()]"


LOOP = "for i in 1:10^12; sin(i); end"


@pytest.mark.parametrize(
    "code",
    [
        f"rank == 0 && {LOOP}",
        f"rank == 1 || {LOOP}",
        f"@on 0 {LOOP}",
        f"identity({LOOP})",
        f"kept = (1, {LOOP})",
        f"told .= [begin; {LOOP}; end]",
        f"@views {LOOP}",
        f"wait(@async begin; {LOOP}; end)",
    ],
)
def test_a_loop_of_the_cell_ends_wherever_it_stands(busy: Kernel, code: str) -> None:
    cell = pressed(busy, f'println("on"); {code}')
    assert "Interrupt" in cell.reply["ename"] + cell.reply["evalue"], cell.reply
    assert "did not stop" not in cell.reply["evalue"]


CAUGHT = "begin; try; busy(60); catch; end; end"


@pytest.mark.parametrize(
    "work",
    [f"@on 0 {CAUGHT}", f"@eval {CAUGHT}", f'@testset "t" {CAUGHT}', 'include("catches.jl")'],
)
def test_what_was_caught_below_a_macro_or_in_a_file_is_over(
    busy: Kernel, tmp_path: Path, work: str
) -> None:
    (tmp_path / "catches.jl").write_text(CAUGHT)
    work = work.replace("catches.jl", str(tmp_path / "catches.jl"))
    busy.run("using Test")
    for _ in range(3):
        cell = pressed(busy, f'println("on"); {work}; sleep(0.5); print("saved")')
        assert cell.text().startswith("on\n") and cell.text().endswith("saved"), cell.reply


@pytest.mark.parametrize("waits", ["sleep(60)", "busy(60)"])
def test_a_text_of_an_error_that_takes_long_is_interrupted(busy: Kernel, waits: str) -> None:
    kind = f"Slow{waits[:4].title()}"
    busy.run(f"struct {kind} <: Exception end; said = 0")
    show = f'println("on"); global said += 1; {waits}; print(io, "never")'
    busy.run(f"Base.showerror(io::IO, ::{kind}) = ({show})")
    cell = pressed(busy, f"throw({kind}())")
    assert cell.reply["ename"] == kind
    assert cell.reply["evalue"] == "<its showerror raised InterruptException>"
    assert busy.run("print(said)").text() == "1"


def test_a_task_that_just_ends_takes_an_interrupt(busy: Kernel) -> None:
    busy.run("edge(s) = (t = time(); while time() - t < s; sin(1.0); rand(3); end)")
    (process,) = busy.ranks()
    for _ in range(25):
        pressed(busy, 'println("on"); wait(@async edge(0.298 + 0.004rand())); sleep(0.2)')
        assert wait_until(lambda: busy.run("print(rank)").text() == "0")
    assert busy.ranks() == [process]
