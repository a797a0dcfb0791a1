"""A process that a cell forks and that comes to the cell's end leaves as a Python program does: by
its own error, and with its own exit status."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

OK = 1
RANKS = 2
CELL = """
import os, signal, sys
child = os.fork()
if child == 0:
    {}
else:
    print(os.waitpid(child, 0)[1])
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(RANKS) as session:
        yield session


def forked(session: Session, body: str) -> tuple[int, str]:
    """A child that runs it: the status that its parent sees, and what it wrote to stderr."""
    cell = session.run(CELL.format(body), "0")
    assert (cell.status, cell.ename) == (OK, ""), cell
    assert session.run("print(int(comm.allreduce(1)))").out == f"{RANKS}\n"
    return int(cell.out), re.sub(r"\x1b\[[0-9;]*m", "", cell.err)


@pytest.mark.parametrize(
    ("body", "name", "line"),
    [
        ("x = {}; x['missing']", "KeyError: 'missing'", "x = {}; x['missing']"),
        ("raise ValueError('a child')", "ValueError: a child", "raise ValueError('a child')"),
        ("exec('1 +')", "SyntaxError: invalid syntax", "1 +"),
    ],
)
def test_an_error_is_shown_as_it_is(session: Session, body: str, name: str, line: str) -> None:
    status, text = forked(session, body)
    assert status == 1 << 8
    assert name in text and line in text
    assert "ForkedError" not in text


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("mine = 1", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit(True)", 1, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("os.close(2); {}['missing']", 1, ""),
    ],
)
def test_its_exit_status_is_its_own(session: Session, body: str, code: int, text: str) -> None:
    assert forked(session, body) == (code << 8, text)


def test_an_interrupt_kills_it(session: Session) -> None:
    status, text = forked(session, "os.kill(os.getpid(), signal.SIGINT); signal.pause()")
    assert status == signal.SIGINT
    assert "KeyboardInterrupt" in text and "ForkedError" not in text
