"""What changes the host is done by one rank for all, and what a notebook's libraries find."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

RANKS = 4


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(RANKS) as session:
        yield session


def test_a_file_is_written_once(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    assert session.run(f"%%writefile {path}\none\n").out == f"Writing {path}\n"
    assert session.run(f"%%writefile -a {path}\ntwo\n").out == f"Appending to {path}\n"
    assert path.read_text() == "one\ntwo\n"


def test_the_same_again_in_a_later_cell_is_done_again(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    for _ in range(3):
        session.run(f"%%writefile -a {path}\nline\n")
    magic = f"get_ipython().run_cell_magic('writefile', '-a {path}', 'line\\n')"
    assert session.run(f"{magic}\n{magic}").out == f"Appending to {path}\n" * 2
    assert path.read_text() == "line\n" * 5


def test_each_rank_writes_a_file_of_its_own(session: Session, tmp_path: Path) -> None:
    cell = session.run(f"%%writefile {tmp_path}/{{rank}}.txt\none\n")
    assert cell.status == 1, cell
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{r}.txt" for r in range(RANKS)]


def test_a_file_that_cannot_be_written_is_every_ranks_error(session: Session) -> None:
    cell = session.run("%%writefile /nowhere/at/all\none\n")
    assert cell.ename == "FileNotFoundError"
    assert cell.evalue.endswith("[ranks 0-3]")


def test_packages_are_installed_once(session: Session, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho called >>{tmp_path}/calls\necho installed $3\nexit 3\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    cell = session.run(
        f"import sys\nkept, sys.executable = sys.executable, '{python}'\n"
        "%pip install\nsys.executable = kept\nprint(_exit_code)"
    )
    assert (tmp_path / "calls").read_text() == "called\n"
    assert cell.out.startswith("installed install\n"), cell
    assert cell.out.endswith("3\n")
    assert not re.search(r"^\[", cell.out, re.MULTILINE)  # All ranks show the same.


def test_ranks_look_like_a_notebook(session: Session) -> None:
    """As Rich, pandas and tqdm look."""
    cell = session.run(
        "import os, shutil\n"
        "shell = get_ipython()\n"
        "print(shell.__class__.__name__, 'zmq' in str(type(shell)).lower())\n"
        "print(hasattr(shell, 'kernel'), 'IPKernelApp' in shell.config)\n"
        "print(shutil.get_terminal_size().columns)\n"
        "print(os.environ['FORCE_COLOR'], os.environ['PAGER'])"
    )
    assert cell.out == "ZMQInteractiveShell True\nTrue False\n80\n1 cat\n", cell


def test_stacks_are_the_users(session: Session) -> None:
    number = session.start(
        "print('up', flush=True)\nif rank:\n    comm.barrier()\nwhile not rank:\n    pass"
    )
    session.wait_started(number)
    text = ""
    until = time.monotonic() + 60
    while "[ranks 1-3]" not in text or "sk_barrier" not in text:
        assert time.monotonic() < until, text
        text = session.ask("stack")[1]
    session.interrupt()
    session.collect(number)
    assert "(python3" not in text, text
    assert "libpython" not in text
    assert "/libsk/kernel/" not in text
    assert "/IPython/" not in text
    assert "_start" not in text
    # Steps of libsk and of its binding tell no reader anything, and differ from moment to moment.
    assert "_core" not in text
    assert "+0x" not in text
    assert text.endswith("  native:\n    sk_barrier (libsk.so.0)\n")


def test_an_interrupt_is_one_however_often_it_comes(session: Session) -> None:
    """As a wait in C that ends with one, while what cleans up after it ends with another."""
    cell = session.run(
        "import signal\n"
        "class Work:\n"
        "    def wait(self):\n"
        "        try:\n            signal.raise_signal(signal.SIGINT)\n"
        "        finally:\n            signal.raise_signal(signal.SIGINT)\n"
        "Work().wait()"
    )
    assert cell.ename == "KeyboardInterrupt"
    assert cell.traceback.count("Traceback (most recent call last)") == 1, cell.traceback
    assert "During handling" not in cell.traceback
