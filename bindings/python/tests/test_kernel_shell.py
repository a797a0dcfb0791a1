"""The shell of a rank, with a recording worker in the place of the C side."""

from __future__ import annotations

import base64
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RecordingWorker, end_shell

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk.kernel import answers, mime
from libsk.kernel.shell import RankShell


class Cells:
    """Runs cells the way the rank's loop does."""

    def __init__(self, shell: RankShell, worker: RecordingWorker) -> None:
        self.shell = shell
        self.worker = worker

    def run(self, code: str, **fields: Any) -> BaseException | None:
        request = {"code": code, "execution_count": 0, "silent": False, "store_history": True}
        return self.shell.run({**request, **fields})


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    worker = RecordingWorker()
    shell = RankShell.make()
    shell.attach(worker, {"rank": 3})  # type: ignore[arg-type]
    yield Cells(shell, worker)
    end_shell()


def test_the_last_expression_is_the_result(cells: Cells) -> None:
    assert cells.run("x = rank + 4\nx") is None
    assert cells.worker.displays == [(mime.DISPLAY_RESULT, {"text/plain": b"7"}, None)]
    assert cells.run("Out[1] + _") is None
    assert cells.worker.displays[-1][1] == {"text/plain": b"14"}


def test_a_silent_cell_shows_nothing_and_counts_nothing(cells: Cells) -> None:
    before = cells.shell.execution_count
    assert cells.run("6 * 7", silent=True, store_history=False) is None
    assert cells.worker.displays == []
    assert cells.shell.execution_count == before


def test_the_front_end_gives_the_number(cells: Cells) -> None:
    cells.run("41", execution_count=17)
    assert cells.shell.user_ns["Out"] == {17: 41}


def test_rich_results_keep_every_type(cells: Cells) -> None:
    cells.run("class R:\n def _repr_html_(self): return '<b>é</b>'\nR()")
    kind, bundle, _ = cells.worker.displays[-1]
    assert kind == mime.DISPLAY_RESULT
    assert bundle["text/html"] == "<b>é</b>".encode()
    assert set(bundle) == {"text/plain", "text/html"}


def test_display_update_and_clear(cells: Cells) -> None:
    cells.run(
        "from IPython.display import display, clear_output\n"
        "h = display(1, display_id='d')\nh.update(2)\nclear_output(wait=True)\nclear_output()"
    )
    assert cells.worker.displays == [
        (mime.DISPLAY_DATA, {"text/plain": b"1"}, "d"),
        (mime.DISPLAY_UPDATE, {"text/plain": b"2"}, "d"),
        (mime.DISPLAY_CLEAR_WAIT, {}, None),
        (mime.DISPLAY_CLEAR, {}, None),
    ]


def test_an_exception_has_the_line_of_the_cell_and_no_frame_of_ours(cells: Cells) -> None:
    error = cells.run(
        "import libsk as sk\n"
        "comm = sk.Comm(rank=0, world_size=1, bootstrap='threads', name='shell')\n"
        "def reduce(x):\n"
        "    return comm.allreduce(x)\n"
        "reduce('not an array')"
    )
    assert type(error).__name__ == "InvalidArgumentError"
    text = "\n".join(cells.shell.last_traceback)
    assert "reduce" in text and "not an array" in text
    assert "_comm.py" not in text and "_arrays.py" not in text and "shell.py" not in text


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("1 +", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("%nosuchmagic", "UsageError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise SystemExit(3)", "SystemExit"),
        ("exec('1/0')", "ZeroDivisionError"),
    ],
)
def test_what_fails_is_reported_by_name(cells: Cells, code: str, name: str) -> None:
    error = cells.run(code)
    assert type(error).__name__ == name
    assert name in "\n".join(cells.shell.last_traceback)


def test_an_error_that_ends_no_cell_is_seen(
    cells: Cells, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "class Bad:\n    def __repr__(self): raise ValueError('no repr')\n"
    assert cells.run(code + "Bad()") is None
    told = capfd.readouterr().err
    assert told.count("Traceback (most recent call last)") == 1 and "no repr" in told
    error = cells.run(code + "from IPython.display import display\ndisplay(Bad())\n1 / 0")
    assert type(error) is ZeroDivisionError
    assert "no repr" in capfd.readouterr().err
    assert "division by zero" in cells.shell.last_traceback[-1]
    assert cells.run("%tb") is None
    assert "division by zero" in capfd.readouterr().err


def test_an_interrupt_while_an_error_is_written(
    cells: Cells, capfd: pytest.CaptureFixture[str]
) -> None:
    code = """
import os, signal
class Told(Exception):
    interrupts = {interrupts}
    def __str__(self):
        if Told.interrupts:
            Told.interrupts -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return "told"
raise Told
"""
    assert type(cells.run(code.format(interrupts=1))).__name__ == "Told"
    assert "told" in cells.shell.last_traceback[-1]
    assert capfd.readouterr().err == ""
    before = signal.getsignal(signal.SIGINT)
    cells.run(code.format(interrupts=100))  # Not for ever.
    assert signal.getsignal(signal.SIGINT) is before


def test_shell_commands_write_to_the_descriptors(
    cells: Cells, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cells.run("print('first')\n!echo second $rank {rank + 1}\nprint('third')") is None
    cells.run("!exit 5\nassert _exit_code == 5")
    assert capfd.readouterr().out.split("\n")[:3] == ["first", "second 3 4", "third"]


def test_captured_command_output_is_a_list(cells: Cells) -> None:
    assert cells.run("lines = !printf 'a\\nb\\n'\nassert lines == ['a', 'b']") is None


def test_a_figure_is_one_png_after_the_cell(cells: Cells) -> None:
    pytest.importorskip("matplotlib")
    cells.run("%matplotlib inline")  # MPLBACKEND says so only before the first import.
    assert cells.run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3]);") is None
    pictures = [bundle for _, bundle, _ in cells.worker.displays if "image/png" in bundle]
    assert len(pictures) == 1
    assert pictures[0]["image/png"].startswith(b"\x89PNG\r\n")


def test_windows_are_refused_with_a_sentence(
    cells: Cells, caplog: pytest.LogCaptureFixture
) -> None:
    assert cells.run("%matplotlib inline") is None
    assert not caplog.records
    cells.run("%gui qt")
    assert "ranks have no windows" in caplog.text


def test_top_level_await(cells: Cells) -> None:
    assert cells.run("import asyncio\nawait asyncio.sleep(0)\n5") is None
    assert cells.worker.displays[-1][1] == {"text/plain": b"5"}


def test_completion_counts_bytes(cells: Cells) -> None:
    cells.run("grüße = 1\nlonely_name = 2")
    code = "é = lonely_na"
    request = {"kind": answers.COMPLETE, "id": 9, "code": code, "cursor": len(code.encode())}
    answers.answer(cells.worker, cells.shell, {**request, "detail": 0})  # type: ignore[arg-type]
    number, _, start, end, matches, bundle = cells.worker.replies[-1]
    assert (number, matches, bundle) == (9, ["lonely_name"], [])
    assert code.encode()[start:end] == b"lonely_na"


def test_inspection(cells: Cells) -> None:
    def ask(code: str) -> tuple[Any, ...]:
        request = {"kind": answers.INSPECT, "id": 1, "code": code, "cursor": len(code)}
        answers.answer(cells.worker, cells.shell, {**request, "detail": 0})  # type: ignore[arg-type]
        return cells.worker.replies[-1]

    found = ask("len")
    assert found[1] == 1
    assert b"Return the number of items" in dict(found[5])["text/plain"]
    missing = ask("no_such_name")
    assert missing[1] == 0 and missing[5] == []


@pytest.mark.parametrize(
    ("code", "status", "indent"),
    [("1 + 1", 1, []), ("for i in x:", 2, ["    "]), ("a b", 3, [])],
)
def test_is_complete(cells: Cells, code: str, status: int, indent: list[str]) -> None:
    request = {"kind": answers.IS_COMPLETE, "id": 1, "code": code, "cursor": 0, "detail": 0}
    answers.answer(cells.worker, cells.shell, request)  # type: ignore[arg-type]
    assert cells.worker.replies[-1][1] == status
    assert cells.worker.replies[-1][4] == indent


def test_bundles_are_bytes() -> None:
    png = b"\x89PNG"
    data = {"image/png": base64.b64encode(png).decode(), "image/svg+xml": "<svg/>", "a/json": [1]}
    assert dict(mime.bundle_of(data)) == {
        "image/png": png,
        "image/svg+xml": b"<svg/>",
        "a/json": b"[1]",
    }


def test_the_rank_program_says_how_it_is_started() -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "libsk.kernel"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parent,
        timeout=60,
    )
    assert done.returncode == 2
    assert "SK_WORKER_FD is not set" in done.stderr and "Traceback" not in done.stderr


def test_what_was_printed_is_not_kept_in_memory(cells: Cells) -> None:
    cells.run("for i in range(100): print('a line')")
    kept = getattr(cells.shell.history_manager, "outputs", {})
    kinds = {output.output_type for outputs in kept.values() for output in outputs}
    assert "out_stream" not in kinds


def test_the_last_inputs_have_names(cells: Cells) -> None:
    for number, code in enumerate(["a = 1", "b = %who_ls int\n", "c = 3"], 1):
        cells.run(code, execution_count=number)
    names = cells.shell.user_ns
    assert [names[name] for name in ("_i", "_ii", "_iii")] == ["b = %who_ls int", "a = 1", ""]
    assert names["_i3"] == "c = 3"
    assert names["In"][3] == "c = 3"
    assert "run_line_magic" in names["In"][2]
    assert "_i2" in cells.shell.user_ns_hidden  # So %who does not list it.
    cells.run("exit()", execution_count=4)  # No input to run again.
    assert names["_i"] == "b = %who_ls int"
    assert cells.shell.history_manager.db_input_cache == []  # What nothing ever empties.


def test_the_last_execution_is_known(cells: Cells) -> None:
    cells.run("41 + 1")
    assert cells.shell.last_execution_succeeded
    assert cells.shell.last_execution_result.result == 42
    cells.run("1 / 0")
    assert not cells.shell.last_execution_succeeded
    assert isinstance(cells.shell.last_execution_result.error_in_exec, ZeroDivisionError)


def test_history_counts_as_the_notebook_does(
    cells: Cells, capfd: pytest.CaptureFixture[str]
) -> None:
    cells.run("a = 1", execution_count=1)
    cells.run("b = 2", execution_count=4)  # Cells 2 and 3 ran on other ranks.
    cells.run("%history -n 1-4", execution_count=5)
    lines = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert lines == [["1:", "a", "=", "1"], ["2:"], ["3:"], ["4:", "b", "=", "2"]]
    cells.run("assert In[4] == 'b = 2' and In[3] == ''", execution_count=6)
    assert cells.shell.last_traceback == []
    cells.run("%recall 4", execution_count=7)
    payload = cells.shell.payload_manager.read_payload()
    assert [each["text"] for each in payload] == ["b = 2"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("%on 1", "there is no magic %on; did you mean %%on?"),
        ("%revive", "there is no magic %revive; did you mean %sk revive?"),
        ("%status", "there is no magic %status; did you mean %sk status?"),
        ("%timeti 1", "there is no magic %timeti; did you mean %timeit?"),
        ("%%tmie\n1", "there is no magic %%tmie; did you mean %%time?"),
        ("%nosuchthing", "there is no magic %nosuchthing; %sk and %lsmagic list them all"),
        ("x = 1\n%%on 1", "%%on is for the first lines of a cell, before any code"),
        ("x = 1\n%%time", "%%time is for the first line of a cell"),
        ("%%cd\nx", "there is no magic %%cd; did you mean %cd?"),
        ("%edit", "%edit opens an editor in a terminal, which ranks do not have; edit in a cell"),
    ],
)
def test_a_magic_that_cannot_be_gets_a_sentence(cells: Cells, code: str, told: str) -> None:
    error = cells.run(code)
    assert type(error).__name__ == "UsageError"
    assert cells.shell.last_traceback == [f"UsageError: {told}"]


def test_every_way_out_says_the_same(
    recwarn: pytest.WarningsRecorder, cells: Cells, capfd: pytest.CaptureFixture[str]
) -> None:
    sentence = "A cell does not end its rank."
    assert cells.run("exit()") is None
    assert sentence in capfd.readouterr().err
    for code in ("raise SystemExit(3)", "import sys; sys.exit()"):
        assert type(cells.run(code)) is SystemExit
        assert sentence in cells.shell.last_traceback[-1]
    assert [str(each.message) for each in recwarn if "Ctrl-D" in str(each.message)] == []


def test_comm_shows_what_is_for_users() -> None:
    from libsk import Comm
    from libsk.kernel.comm import RankComm

    assert {name for name in dir(RankComm) if name[0] != "_"} == {
        name for name in dir(Comm) if name[0] != "_"
    }
