"""Cells that are hostile to whatever looks at them, on ranks: none ends, and later cells are right.

Each alone here; all in one notebook, at 4 and at 16 ranks, in tests/kernel.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))

from hostile_cells import CELLS, Case

RANKS = 4


def expect_as_ever(session: Session) -> None:
    """A cell like any other, on all ranks."""
    later = session.run("print(6 * 7)\n[world_size]")
    assert (later.out, later.err, later.ename) == ("42\n", "", ""), later
    assert [bundle["text/plain"] for _, bundle in later.displays] == [f"[{RANKS}]".encode()]
    assert {rank["state"] for rank in session.states()} == {"idle"}


@pytest.mark.parametrize("case", CELLS.values(), ids=CELLS.keys())
def test_alone(case: Case) -> None:
    with Session(RANKS) as session:
        cell = session.run(case.code)
        assert cell.ename == (case.ename or ""), cell
        if case.undo:
            session.run(case.undo)
        expect_as_ever(session)


@pytest.mark.parametrize("which", [1, 2])
def test_a_descriptor_that_leads_elsewhere(tmp_path: Path, which: int) -> None:
    """What was written for the other place is there, also the line that has no end."""
    cell = (
        "import os, sys\n"
        f"to = os.open({str(tmp_path)!r} + f'/{{rank}}', os.O_CREAT | os.O_WRONLY)\n"
        f"_ = os.dup2(to, {which}), os.close(to)\n"
        f"_ = sys.std{'out' if which == 1 else 'err'}.write('for the file')"
    )
    with Session(RANKS) as session:
        said = session.run(cell)
        assert (said.out, said.ename) == ("", "")
        line = f"what the cell has put in place of descriptor {which} holds for the cell alone\n"
        assert said.err == line
        assert [(tmp_path / str(rank)).read_text() for rank in range(RANKS)] == [
            "for the file"
        ] * RANKS
        later = session.run("print('out')\nprint('err', file=sys.stderr)\n!echo child")
        # On busy cores lines may come rank by rank, with tags.
        lines = [
            {line.split("] ")[-1].strip() for line in text.splitlines()}
            for text in (later.out, later.err)
        ]
        assert lines == [{"out", "child"}, {"err"}]
        expect_as_ever(session)


def test_a_signal_between_cells(tmp_path: Path) -> None:
    """Its handler raises wherever the rank waits."""
    cell = (
        "import os, signal, threading, pathlib\n"
        f"mark = pathlib.Path({str(tmp_path)!r}) / str(rank)\n"
        "def handler(*_):\n    mark.touch()\n    raise ZeroDivisionError\n"
        "signal.signal(signal.SIGUSR1, handler)\n"
        "ended = threading.Event()\n"
        "get_ipython().events.register('post_execute', ended.set)\n"
        "def send():\n    ended.wait()\n    while not mark.exists():\n"
        "        os.kill(os.getpid(), signal.SIGUSR1); threading.Event().wait(0.05)\n"
        "threading.Thread(target=send).start()"
    )
    with Session(RANKS) as session:
        session.run(cell)
        deadline = time.monotonic() + 60
        while len(list(tmp_path.iterdir())) < RANKS and time.monotonic() < deadline:
            assert session.states()  # Ranks answer meanwhile.
        assert len(list(tmp_path.iterdir())) == RANKS
        session.run("get_ipython().events.unregister('post_execute', ended.set)")
        expect_as_ever(session)


def test_an_interrupt_after_a_cell_took_its_handler_away() -> None:
    with Session(RANKS) as session:
        session.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)")
        waiting = session.start("print('waits')\nwhile True: pass")
        session.wait_started(waiting)
        session.interrupt()
        assert session.collect(waiting).ename == "KeyboardInterrupt"
        expect_as_ever(session)


def test_a_question_about_what_cannot_be_asked() -> None:
    """Completion and inspection run the object's code; there is an answer whatever it does."""
    code = (
        "class Q:\n    def __dir__(self): raise SystemExit\n"
        "    def __getattribute__(self, name): raise GeneratorExit\nquestion = Q()"
    )
    with Session(RANKS) as session:
        session.run(code)
        for kind in (2, 3, 4):
            session.question(kind, "question.x", len("question."))
        expect_as_ever(session)


def test_the_first_error_is_on_top_however_long_it_takes_to_write(tmp_path: Path) -> None:
    """Rank 1 fails first, and its text comes when that of rank 0 is written already."""
    cell = (
        f"import os, pathlib, time\nhere = pathlib.Path({str(tmp_path)!r})\n"
        "def wait(name):\n    while not (here / name).exists(): os.sched_yield()\n"
        "class First(Exception):\n    def __str__(self):\n        wait('told'); return 'a'\n"
        "class Second(Exception):\n    def __str__(self):\n"
        "        (here / 'told').touch(); return 'b'\n"
        "if rank == 1:\n    (here / 'failed').touch()\n    raise First\n"
        "wait('failed')\nuntil = time.monotonic() + 0.02\n"
        "while time.monotonic() < until: pass\nraise Second"
    )
    with Session(2) as session:
        ended = session.run(cell)
    assert ended.evalue == "First: a [rank 1]; Second: b [rank 0]"
    assert "root cause" not in ended.traceback  # Neither failed because the other did.
