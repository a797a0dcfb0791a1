"""Sessions that several callers share: each ends what is its own."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator

import libsk as sk
import pytest
from session_tools import open_session, until_text

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")


@pytest.fixture(scope="module", params=[1, 2])
def session(request: pytest.FixtureRequest) -> Iterator[sk.Session]:
    with open_session(request.param) as made:
        yield made


def test_an_interrupt_is_for_what_was_there(session: sk.Session) -> None:
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    behind = session.start("1")
    until_text(cell, "begun")
    session.interrupt()
    assert session.run("'since'").value == "'since'"
    assert [each.result(check=False).status for each in (cell, behind)] == ["error", "aborted"]


def test_a_cell_that_takes_too_long_is_nobody_elses(session: sk.Session) -> None:
    first = session.start("print('begun'); input(); 'first'", input=True)
    until_text(first, "begun")
    with pytest.raises(sk.TimeoutError, match="has not begun within 0.2 s, so it was dropped"):
        session.run("late = 1", timeout=0.2)
    behind = session.start("'late' in globals()")
    first.answer("")
    assert first.result().value == "'first'"
    assert behind.result().value == "False"


def test_one_cell_is_interrupted(session: sk.Session) -> None:
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    dropped, behind = session.start("1"), session.start("'behind'")
    until_text(cell, "begun")
    dropped.interrupt()
    cell.interrupt()
    with pytest.raises(sk.CellError, match="^KeyboardInterrupt"):
        cell.result()
    with pytest.raises(sk.CellError, match=f"cell {dropped.number} was not run"):
        dropped.result()
    assert behind.result().value == "'behind'"
    cell.interrupt()  # It has ended.
    assert session.run("1").ok


def test_cells_behind_one_that_goes_on(session: sk.Session) -> None:
    failing = session.start("input(); 1 / 0", input=True, go_on=True)
    behind = session.start("'behind'")
    for event in failing:
        if event.kind == "input":
            failing.answer("")
    assert failing.result(check=False).status == "error"
    assert behind.result().value == "'behind'"


def test_a_session_is_not_copied() -> None:
    with open_session(1) as session:
        cell = session.start("1")
        for copied in (lambda: copy.copy(session), lambda: pickle.dumps(session)):
            with pytest.raises(TypeError, match="a Session cannot be copied or pickled"):
                copied()
        with pytest.raises(TypeError, match="a Cell cannot be copied"):
            copy.copy(cell)
        result = cell.result()
        assert pickle.loads(pickle.dumps(result)) == result
        gc.collect()
        assert session.run("2").value == "2"
