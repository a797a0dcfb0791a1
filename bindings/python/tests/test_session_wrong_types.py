"""Whatever is given for an argument of a session's methods is taken, or refused in a sentence, and
the session goes on. The table has every argument of every method; what is added needs an entry."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from fuzz_wrong import Hostile
from session_tools import open_session

X = np.ones((4, 4), np.float32)
ODD: list[Any] = [1j, object(), object, len, ..., Hostile(), {"a": 1}, X]
NUMBERS: list[Any] = [-1, 2**31, 2**63, 2**80, 1.5, float("nan"), float("inf")]
NO_TEXT: list[Any] = [b"abc", "\0", "\udcff", [], {1}, (), *NUMBERS, *ODD]
TEXT = [*NO_TEXT, None]
RANKS = [b"0", "", "abc", "\0", "\udcff", -1, 2, 2**80, 1.5, float("nan"), [], ["0"], [1.5], *ODD]
FLAG = ["", "abc", b"abc", -1, 2, 1.5, None, [], *ODD]
TIMEOUT = ["", "abc", b"abc", -1, 0, 2**80, float("nan"), float("inf"), [], [1], *ODD]
COUNT = ["", "abc", b"abc", -1, 2**80, 1.5, float("nan"), None, [], [1], *ODD]
CELL = ["", "abc", b"abc", -1, 0, 2**80, 1.5, float("nan"), [], [1], *ODD]
CURSOR = [each for each in COUNT if each is not None]

Call = Callable[..., Any]
# (method, argument): how it is called with it, what is refused, and its name in sentences.
TABLE: dict[tuple[str, str], tuple[Call, list[Any], str]] = {}


def enter(method: str, call: Call, **arguments: list[Any]) -> None:
    for argument, values in arguments.items():
        name = "rank" if argument == "ranks" else argument
        TABLE[method, argument] = (
            lambda session, value, argument=argument: call(session, **{argument: value}),
            values,
            name,
        )


WITH = {"ranks": RANKS, "silent": FLAG, "go_on": FLAG}
enter("Session.run", lambda s, **a: s.run(**{"code": "1", **a}), code=TEXT, timeout=TIMEOUT, **WITH)
enter(
    "Session.run",
    lambda s, **a: s.run(**{"code": "1", **a}),
    input=["", "abc", 1, 1.5, [], X],
)
enter("Session.run", lambda s, **a: s.run(**{"code": "1", **a}), check=FLAG)
enter(
    "Session.start",
    lambda s, **a: s.start(**{"code": "1", **a}),
    **{"code": TEXT, "tag": NO_TEXT, "input": FLAG, **WITH},
)
enter(
    "Session.complete", lambda s, **a: s.complete(**{"code": "ab", **a}), code=TEXT, cursor=CURSOR
)
enter(
    "Session.inspect",
    lambda s, **a: s.inspect(**{"code": "ab", **a}),
    **{"code": TEXT, "cursor": CURSOR, "detail": COUNT},
)
enter("Session.is_complete", lambda s, **a: s.is_complete(**a), code=TEXT)
enter(
    "Session.configure",
    lambda s, **a: s.configure(**a),
    **{"tag": NO_TEXT, "shown_lines": COUNT, "shown_bytes": COUNT, "kept_bytes": COUNT},
)
enter(
    "Session.keep", lambda s, **a: s.keep(**{"name": "n", "text": "", **a}), name=TEXT, text=NO_TEXT
)
enter("Session.log", lambda s, **a: s.log(**a), cell=CELL, ranks=RANKS)
enter(
    "Session.log_displays", lambda s, **a: s.log_displays(**{"rank": 0, **a}), rank=COUNT, cell=CELL
)
enter("Session.revive", lambda s, **a: s.revive(**a), ranks=RANKS)
enter("Session.stack", lambda s, **a: s.stack(**a), ranks=RANKS)
enter("Session.wait_ready", lambda s, **a: s.wait_ready(**a), timeout=TIMEOUT)
enter("Session.attach", lambda s, **a: s.attach(**{"name": "n", "token": "t" * 16, **a}), name=TEXT)
enter("Session.attach", lambda s, **a: s.attach(**{"name": "n", **a}), token=TEXT)
enter("Cell.answer", lambda s, **a: s.start("1").answer(**a), text=NO_TEXT)
enter("Cell.result", lambda s, **a: s.start("1").result(**a), timeout=TIMEOUT, check=FLAG)


def _methods() -> Iterator[tuple[str, Call]]:
    for owner in (sk.Session, sk.Cell):
        for name, found in inspect.getmembers(owner, callable):
            if not name.startswith("_"):
                yield f"{owner.__name__}.{name}", found


def test_the_table_is_whole() -> None:
    missing = [
        (name, argument)
        for name, method in _methods()
        for argument in inspect.signature(method).parameters
        if argument != "self" and (name, argument) not in TABLE
    ]
    assert not missing


@pytest.fixture(scope="module")
def session() -> Iterator[sk.Session]:
    with open_session(2) as made:
        yield made
        assert made.run("1").value == "1"


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: ".".join(entry))
def test_a_wrong_type_gets_a_sentence(session: sk.Session, entry: tuple[str, str]) -> None:
    call, values, name = TABLE[entry]
    wrong = []
    for value in values:
        shown = "Hostile()" if isinstance(value, Hostile) else repr(value)
        try:
            result = call(session, value)
        except sk.Error as error:
            if name not in str(error) or error.code not in (10, 11, 12):
                wrong.append(f"{shown}: {error.code} {error}")
        except Exception as error:  # noqa: BLE001 - all of them are told.
            wrong.append(f"{shown}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{shown} was taken, and gave {type(result)}")
    assert not wrong, "\n".join(wrong)
