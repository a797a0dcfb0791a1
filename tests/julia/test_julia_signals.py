"""Where Julia throws the SIGINT of an interrupt, and that the cell is interrupted by it once: libsk
sends one where no task lets another run, and it meets whichever runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Kernel, Kernels, wait_until

BUSY = "busy(s) = (t = time(); while time() - t < s; sin(1.0); rand(3); end)"


def press(kernel: Kernel, code: str) -> tuple[str | None, str]:
    """The name of the error with which the interrupted cell ends, and what it has printed."""
    sent = kernel.start(code)
    kernel.wait_for_stream(sent)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(sent)
    return cell.reply.get("ename"), cell.text()


@pytest.fixture
def busy(kernels: Kernels) -> Kernel:
    """One rank: several that compute may get no processor for so long that a signal comes late."""
    kernel = kernels(1)
    kernel.run(BUSY)
    return kernel


@pytest.mark.parametrize(
    "work",
    ["busy(0.45)", "try; busy(0.45); catch; end", "try; busy(0.45); catch; busy(0.1); end"],
)
def test_a_task_that_was_left_behind_keeps_no_interrupt_from_the_cell(
    busy: Kernel, work: str
) -> None:
    busy.run(f"goes_on = true; task = @async while goes_on; {work}; sleep(0.01); end")
    for waits in ("sleep(60)", "try; sleep(60); finally; print(1); end", "run(`sleep 60`)"):
        name, _ = press(busy, f'println("on"); {waits}')
        assert name == "InterruptException", waits
    done = busy.run("goes_on = false; try; wait(task); catch; end; print(rank)")
    assert done.text() == "0"


def test_what_a_cell_does_about_it_is_interrupted_once_beside_such_a_task(busy: Kernel) -> None:
    busy.run("goes_on = true; task = @async while goes_on; busy(0.45); sleep(0.01); end")
    code = 'println("on"); try; sleep(60); catch; sleep(0.7); print("saved"); end'
    assert press(busy, code) == (None, "on\nsaved")
    busy.run("goes_on = false; try; wait(task); catch; end")


AFTER = {
    "in the catch": "try; busy(60); catch; sleep(0.9); end",
    "behind it": "try; busy(60); catch; end; sleep(0.9)",
    "behind that of a function": "f() = try; busy(60); catch; 7; end; f() == 7 && sleep(0.9)",
    "in the finally": "try; try; busy(60); finally; sleep(0.5); end; catch; sleep(0.4); end",
    "in a child": "try; busy(60); catch; run(`sleep 0.9`); end",
    "in what is included": 'include("saves.jl"); saves()',
    "in a macro's": "@eval try; busy(60); catch; sleep(0.9); end",
}


@pytest.mark.parametrize("code", AFTER.values(), ids=list(AFTER))
def test_a_signal_is_one_exception(busy: Kernel, tmp_path: Path, code: str) -> None:
    file = tmp_path / "saves.jl"
    file.write_text("saves() = try; busy(60); catch; sleep(0.9); end")
    code = code.replace("saves.jl", str(file))
    assert press(busy, f'println("on"); {code}; print("saved")') == (None, "on\nsaved")
    # Nothing of it is left for another cell.
    assert wait_until(lambda: busy.run("sleep(0.1); print(rank)").text() == "0")


def test_another_press_is_another_interrupt(busy: Kernel) -> None:
    code = 'println("on"); try; busy(60); catch; end; println("more"); sleep(60)'
    sent = busy.start(code)
    for _ in range(2):
        busy.wait_for_stream(sent)
        busy.manager.interrupt_kernel()
    assert busy.finish(sent).reply.get("ename") == "InterruptException"
