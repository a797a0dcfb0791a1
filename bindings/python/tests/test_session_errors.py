"""Sessions: whose error is whose, and what sentences of the library say to a reader of Python."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import libsk as sk
import pytest
from session_tools import open_session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")


@pytest.fixture(scope="module")
def session() -> Iterator[sk.Session]:
    with open_session(3) as session:
        yield session


def test_each_rank_has_its_own(session: sk.Session) -> None:
    code = "if rank == 1: {}['k']\nif rank == 2: raise ValueError('from 2')"
    result = session.run(code, check=False)
    (joined,) = result.errors
    assert (joined.name, joined.ranks) == ("MultiRankError", (1, 2))
    own = result.rank_errors
    assert list(own) == [1, 2]
    assert (own[1].rank, own[1].name, own[1].value) == (1, "KeyError", "'k'")
    assert (own[2].name, own[2].value) == ("ValueError", "from 2")
    for rank, name in ((1, "KeyError"), (2, "ValueError")):
        assert name in own[rank].traceback.splitlines()[-1]
    assert not own[1].is_consequence and not own[2].is_consequence


def test_equal_errors_are_told_once_and_are_each_rank_s(session: sk.Session) -> None:
    with pytest.raises(sk.CellError) as raised:
        session.run("1 / 0")
    result = raised.value.result
    assert result is not None
    assert str(raised.value).count("division by zero") == 1
    assert [(own.rank, own.value) for own in result.errors[0].each] == [
        (rank, "division by zero") for rank in range(3)
    ]
    copy = pickle.loads(pickle.dumps(raised.value))
    assert copy.result.rank_errors == result.rank_errors


def test_what_followed_is_said_to_have(session: sk.Session) -> None:
    result = session.run("assert rank, 'root'\ncomm.barrier()", check=False)
    assert [own.is_consequence for own in result.rank_errors.values()] == [False, True, True]
    assert result.rank_errors[0].value == "root"


def test_the_event_has_them(session: sk.Session) -> None:
    cell = session.start("if rank != 1: raise OSError(rank)")
    (error,) = [event.error for event in cell if event.kind == "error" and event.error]
    assert [(own.rank, own.name, own.value) for own in error.each] == [
        (0, "OSError", "0"),
        (2, "OSError", "2"),
    ]


def test_a_cell_without_an_error_has_none(session: sk.Session) -> None:
    assert session.run("1").rank_errors == {}


def test_a_death_and_a_cell_that_is_not_run() -> None:
    with open_session(2) as session:
        result = session.run("import os\nif rank: os._exit(3)\ncomm.barrier()", check=False)
        assert result.rank_errors[1].name == "RankDied"
        assert result.rank_errors[0].is_consequence
        refused = session.run("1", check=False)
        assert refused.errors[0].name == "RankUnavailable" and refused.rank_errors == {}
        assert 'The call "revive" starts again what is lost' in refused.errors[0].value


def test_sentences_name_no_call_of_c(session: sk.Session) -> None:
    too_few = "shown_lines is 3; 16 to 1000000 are allowed"
    calls = {
        "ranks is 0; 1 to 4096": lambda: sk.Session(0),
        "the rank program (argv) is empty": lambda: sk.Session(1, command=[]),
        'name is "No Name"': lambda: sk.Session(1, name="No Name"),
        "a token of 5 bytes": lambda: sk.Session(1, name="n", token="short"),
        "sk-is-not-here": lambda: sk.Session(1, program="/nowhere/sk-is-not-here"),
        too_few: lambda: session.configure(shown_lines=3),
        "cell 9999 is not kept": lambda: session.log(9999),
        "rank 3 asked for": lambda: session.log(ranks=3),
        "is no rank and no range": lambda: session.run("1", ranks="x"),
        "the name of a text that is kept has 0 bytes": lambda: session.keep("", "x"),
        "a tag of 1048577 bytes": lambda: session.start("1", tag="x" * (2**20 + 1)),
    }
    for words, call in calls.items():
        with pytest.raises(sk.Error) as raised:
            call()
        assert words in str(raised.value)
        assert "sk_" not in str(raised.value).replace("SK_PROGRAM", "")
    shown = session.run("for i in range(99_999): print(i)").displays
    assert any("elided, in the log of cell " in each.data["text/plain"] for each in shown)
