"""Sessions: cells on real ranks, what they give, and how they fail."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import libsk as sk
import pytest
from session_tools import open_session, until_text

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")


@pytest.fixture(scope="module", params=[1, 2, 4])
def session(request: pytest.FixtureRequest) -> Iterator[sk.Session]:
    with open_session(request.param) as session:
        yield session


def test_a_cell_on_all_ranks(session: sk.Session) -> None:
    result = session.run("print('alike')\nprint('rank', rank)")
    size = session.world_size
    if size == 1:
        assert result.text == "alike\nrank 0\n"
    else:
        each = "".join(f"[{rank}] rank {rank}\n" for rank in range(size))
        assert result.text == f"    alike\n{each}"
    assert (result.status, result.ok, result.errors) == ("ok", True, ())
    assert result.ranks == tuple(range(size)) == tuple(result.seconds)
    assert result.stdout == result.text and result.stderr == ""
    assert session.state == "ready" and session.lost == {}


@pytest.mark.parametrize("ranks", ["0", 0, [0], range(1), "one", (0,)])
def test_a_cell_on_one_rank(session: sk.Session, ranks: object) -> None:
    result = session.run("print(rank)", ranks=ranks)
    assert result.ranks == (0,)
    assert result.text.removeprefix("[0] ") == "0\n"


def test_names_stay(session: sk.Session) -> None:
    session.run("kept = rank * 10")
    assert session.run("kept == rank * 10").value == "True"
    assert session.run("kept == rank * 10", silent=True).value is None


def test_ranks_meet(session: sk.Session) -> None:
    size = session.world_size
    assert session.run("int(comm.allreduce(rank))").value == str(size * (size - 1) // 2)


def test_the_value_and_displays(session: sk.Session) -> None:
    result = session.run(
        "from IPython.display import HTML, JSON, display\n"
        "handle = display(HTML('<b>one</b>'), display_id='mine')\n"
        "handle.update(HTML('<b>two</b>'))\n"
        "display({'application/json': {'a': [1]}, 'image/png': b'\\x89PNG'}, raw=True)\n"
        "'value'"
    )
    assert result.value == "'value'"
    kinds = [each.kind for each in result.displays]
    assert kinds == ["display", "display", "result"], result.displays
    assert result.displays[0].data["text/html"] == "<b>two</b>"
    assert result.displays[1].data["application/json"] == {"a": [1]}
    assert result.displays[1].data["image/png"] == b"\x89PNG"
    assert all(each.ranks == result.ranks for each in result.displays)


def test_both_streams(session: sk.Session) -> None:
    result = session.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nprint('out')")
    assert (result.stdout, result.stderr) == ("out\nout\n", "err\n")
    assert result.text == "out\nerr\nout\n"


@pytest.mark.parametrize("text", ["naïve – ☃ 𝄞 \U0001f600", "\x1b[31mred\x1b[0m", "tab\there"])
def test_text_as_it_is(session: sk.Session, text: str) -> None:
    assert session.run(f"print({text!r})").text == f"{text}\n"
    assert session.run(f"# {text}\n{text!r}").value == repr(text)


def test_a_thousand_lines_in_order(session: sk.Session) -> None:
    result = session.run("for i in range(1000): print('line', i)")
    assert result.text == "".join(f"line {i}\n" for i in range(1000))


def test_more_than_is_shown_is_in_the_log(session: sk.Session) -> None:
    result = session.run("for i in range(20000): print(i)", ranks=0)
    assert len(result.text.splitlines()) <= 10_001
    assert session.log(result, ranks=0) == "".join(f"{i}\n" for i in range(20000))
    assert session.log(result.cell) == session.log() == session.log(ranks="0")


def test_an_error_of_all_ranks(session: sk.Session) -> None:
    with pytest.raises(sk.CellError, match="^ZeroDivisionError: division by zero") as raised:
        session.run("print('before')\n1 / 0")
    error = raised.value
    assert isinstance(error, sk.Error) and error.ranks == tuple(range(session.world_size))
    assert error.result.text == "before\n"
    assert "1 / 0" in str(error.__cause__) and "\x1b" not in str(error.__cause__)
    assert (error.rank is None) == (session.world_size > 1)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.ranks, copy.result) == (str(error), error.ranks, error.result)


def test_an_error_that_is_not_raised(session: sk.Session) -> None:
    result = session.run("undefined", check=False)
    assert (result.status, result.ok) == ("error", False)
    assert [each.name for each in result.errors] == ["NameError"]
    with pytest.raises(sk.CellError, match="name 'undefined' is not defined"):
        result.check()


def test_an_error_in_the_syntax(session: sk.Session) -> None:
    with pytest.raises(sk.CellError, match="SyntaxError"):
        session.run("this is no Python")
    assert session.run("1").ok


def test_cells_behind_an_error_are_not_run(session: sk.Session) -> None:
    cells = [session.start("input(); 1 / 0", input=True), session.start("ran = 1")]
    for event in cells[0]:
        if event.kind == "input":
            cells[0].answer("go on")
    assert [cell.result(check=False).status for cell in cells] == ["error", "aborted"]
    with pytest.raises(sk.CellError, match=f"^cell {cells[1].number} was not run"):
        cells[1].result()
    assert session.run("'ran' in globals()").value == "False"


def test_events_of_a_cell(session: sk.Session) -> None:
    cell = session.start("print('one')\n'two'")
    events = list(cell)
    kinds = [event.kind for event in events if event.kind != "clear"]
    assert kinds[0] == "start" and kinds[-1] == "done"
    assert {"text", "display"} <= set(kinds)
    assert list(cell) == events and cell.is_done()
    assert cell.result().value == "'two'"
    assert events[-1].status == "ok" and len(events[-1].times) == session.world_size


def test_an_interrupt(session: sk.Session) -> None:
    session.run("kept = 1")
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    until_text(cell, "begun")
    with pytest.raises(sk.TimeoutError, match=f"cell {cell.number} has not ended within 0.01 s"):
        cell.result(timeout=0.01)
    session.interrupt()
    with pytest.raises(sk.CellError, match="^KeyboardInterrupt"):
        cell.result()
    assert session.run("kept").value == "1"


def test_a_cell_that_takes_too_long(session: sk.Session) -> None:
    session.run("kept = 1; from time import sleep")
    with pytest.raises(sk.TimeoutError, match=r"within 0.2 s, so it was interrupted"):
        session.run("sleep(600)", timeout=0.2)
    assert session.run("kept").value == "1"


def test_what_there_was_of_a_cell_that_takes_too_long(session: sk.Session) -> None:
    code = "from time import sleep\nprint('begun')\nsleep(600)"
    with pytest.raises(sk.TimeoutError) as raised:
        session.run(code, timeout=3)
    result = raised.value.result
    assert result is not None and result.status == "error" and "begun" in result.text
    assert result.errors[0].name == "KeyboardInterrupt"


def test_questions_of_a_cell(session: sk.Session) -> None:
    asked = []

    def answer(question: sk.CellEvent) -> str:
        asked.append((question.text, question.password))
        return f"Ada {len(asked)} ☃"

    code = "import getpass\nprint(input('name? '), getpass.getpass('word? '))"
    assert session.run(code, input=answer).text.endswith("Ada 1 ☃ Ada 2 ☃\n")
    assert asked == [("name? ", False), ("word? ", True)]
    with pytest.raises(sk.CellError, match="EOFError"):
        session.run("input()", input=lambda question: None)
    with pytest.raises(sk.CellError, match="nobody to ask"):
        session.run("input()")


def test_a_question_of_a_cell_that_was_started(session: sk.Session) -> None:
    cell = session.start("print('got', input('? '))", input=True)
    for event in cell:
        if event.kind == "input":
            assert cell.prompt == event and event.text == "? "
            cell.answer("this")
    assert cell.result().stdout.endswith("got this\n")
    with pytest.raises(sk.InvalidArgumentError, match="asks for nothing"):
        cell.answer("more")


def test_who_answers_may_fail(session: sk.Session) -> None:
    def fail(question: sk.CellEvent) -> str:
        raise LookupError(question.text)

    with pytest.raises(LookupError, match="name"):
        session.run("input('name? ')", input=fail)
    with pytest.raises(sk.InvalidArgumentError, match="what input returned is 5; give a line"):
        session.run("input('name? ')", input=lambda question: 5)
    assert session.run("1").ok


def test_who_answers_cannot_wait_for_a_cell(session: sk.Session) -> None:
    begun = session.start("'begun'")
    started = []

    def answer(question: sk.CellEvent) -> str:
        assert begun.result().value == "'begun'"
        started.append(session.start("'started'"))
        calls = [lambda: session.run("1"), started[0].result, lambda: list(started[0])]
        for call in calls:
            with pytest.raises(sk.BusyError, match="waits for what this function, its input"):
                call()
        return str(session.status()["running_cell"] > 0)

    assert session.run("input('? ')", input=answer).value.endswith("'True'")
    assert started[0].result().value == "'started'"


def test_names_and_help(session: sk.Session) -> None:
    session.run("snowman_count = 3\ndef frobnicate(x):\n    'Frobs it.'")
    before = "'☃'; "
    found = session.complete(f"{before}snowman_c + 1", cursor=len(before) + 9)
    assert "snowman_count" in found.matches
    assert (found.start, found.end) == (len(before), len(before) + 9)
    help = session.inspect("frobnicate", cursor=4)
    assert help is not None and "Frobs it." in help["text/plain"]
    assert session.inspect("nothing_of_this_name") is None
    assert session.is_complete("x = 1").status == "complete"
    assert session.is_complete("for i in x:").status == "incomplete"
    assert session.is_complete("for i in x:").indent == "    "
    assert session.is_complete("a b").status == "invalid"


def test_the_state_of_ranks(session: sk.Session) -> None:
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    until_text(cell, "begun")
    status = session.status()
    assert [each["state"] for each in status["ranks"]] == ["busy"] * session.world_size
    assert status["running_cell"] == cell.number
    assert "sleep(600)" in session.stack() or "line 3" in session.stack()
    session.interrupt()
    assert cell.result(check=False).status == "error"
    with pytest.raises(sk.InvalidArgumentError, match="nothing to revive"):
        session.revive()


def test_displays_of_one_rank(session: sk.Session) -> None:
    result = session.run("rank")
    last = session.world_size - 1
    shown = session.log_displays(last, result)
    assert [each.data["text/plain"] for each in shown] == [str(last)]
    with pytest.raises(sk.OutOfRangeError, match="displayed nothing in that cell"):
        session.log_displays(last, session.run("pass"))


def test_how_lines_are_marked(session: sk.Session) -> None:
    if session.world_size == 1:
        pytest.skip("one rank's lines are not marked")
    session.configure(tag="none", shown_lines=16)
    try:
        assert "[" not in session.run("print(rank)").text
        assert len(session.run("for i in range(100): print(i)").text.splitlines()) <= 17
    finally:
        session.configure(tag="set", shown_lines=10_000)
    assert session.run("print(rank)").text.startswith("[0] 0\n")
