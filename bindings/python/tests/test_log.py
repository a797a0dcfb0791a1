"""Context(log=...): lines from any thread, and functions that do not behave."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import libsk as sk
import numpy as np
import pytest

Line = tuple[int, str, str]


def in_two_ranks(context: sk.Context, body: Callable[[sk.Comm], None], name: str = "log") -> None:
    failures: list[BaseException] = []

    def be(rank: int) -> None:
        try:
            with sk.Comm(
                bootstrap="threads", name=name, rank=rank, world_size=2, timeout=60, context=context
            ) as comm:
                body(comm)
        except BaseException as error:  # noqa: BLE001 - handed to the test.
            failures.append(error)

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_lines_come_from_every_rank_s_thread() -> None:
    lines: list[Line] = []
    context = sk.Context(log_level="debug", log=lambda *line: lines.append(line))
    in_two_ranks(context, lambda comm: (comm.allreduce(np.ones(64, np.float32)), None)[1])
    for rank in range(2):
        mine = [text for _, _, text in lines if text.startswith(f"rank {rank} of 2: ")]
        for word in ("met through threads", "target: ", "transport shm: ", "plan of allreduce("):
            assert any(word in text for text in mine), (word, mine)
    assert {level for level, _, _ in lines} <= {0, 1}
    assert {component for _, component, _ in lines} == {"context", "comm"}


def test_a_function_that_raises_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: seen.append(report.exc_value))

    def fails(level: int, component: str, text: str) -> None:
        raise KeyboardInterrupt if "target" in text else ValueError(text)

    context = sk.Context(log_level="info", log=fails)

    def body(comm: sk.Comm) -> None:
        assert comm.allreduce(np.ones(3))[2] == 2.0

    in_two_ranks(context, body, "raises")
    assert any(isinstance(error, ValueError) for error in seen)
    assert any(isinstance(error, KeyboardInterrupt) for error in seen)


def test_the_log_may_use_libsk_itself() -> None:
    inner = sk.Comm(bootstrap="threads", name="inner", rank=0, world_size=1)
    sums: list[float] = []
    context = sk.Context(
        log_level="info", log=lambda *_: sums.append(float(inner.allreduce(np.ones(2))[0]))
    )
    outer = sk.Comm(bootstrap="threads", name="outer", rank=0, world_size=1, context=context)
    outer.free()
    inner.free()
    assert sums
    assert set(sums) == {1.0}


@pytest.mark.parametrize(
    ("make", "environment", "wanted"),
    [
        ("sk.Context()", {}, []),
        ('sk.Context(log_level="info")', {}, ["info context", "info comm"]),
        ("sk.Context()", {"SK_LOG": "info"}, ["info context", "info comm"]),
        ("sk.Context()", {"SK_LOG": "error"}, []),
    ],
)
def test_stderr_has_what_was_asked_for(
    make: str, environment: dict[str, str], wanted: list[str]
) -> None:
    code = f"import libsk as sk; sk.Comm(context={make}).free()"
    env = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for word in wanted:
        assert f" {word}: " in done.stderr
    if not wanted:
        assert done.stderr == ""


def test_a_level_in_the_environment_that_there_is_not() -> None:
    code = "import libsk as sk; sk.Comm()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SK_LOG": "loud"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert 'SK_LOG is "loud", it must be debug, info, warn or error' in done.stderr
