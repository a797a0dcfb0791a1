"""Commands that run at once: what they return, and that none is left when one fails."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import shell


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "LOGS", tmp_path / "log")


def test_each_returns_its_own_and_they_run_at_once(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)  # Opening either end waits for the other: one after the other never ends.
    works = [
        lambda: shell.run(["sh", "-c", f"echo x > {fifo}; exit 3"], "writing", may_fail=True),
        lambda: shell.run(["sh", "-c", f"read x < {fifo}; exit 4"], "reading", may_fail=True),
    ]
    assert shell.side_by_side(*works) == [3, 4]


def test_one_that_fails_ends_the_others(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    waits = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"

    def fails() -> int:
        while not pid_file.exists():
            assert threading.active_count() > 1
            os.sched_yield()
        return shell.run(["false"], "failing")

    with pytest.raises(shell.DevError, match="failing failed with exit status 1"):
        shell.side_by_side(lambda: shell.run(["sh", "-c", waits], "waiting", may_fail=True), fails)
    pid = int(pid_file.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
