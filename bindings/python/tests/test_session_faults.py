"""Sessions: what goes wrong, wrong arguments, and how sessions end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import libsk as sk
import pytest
from session_tools import open_session, until_text, wait_for

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def pids_of(session: sk.Session) -> list[int]:
    status = session.status()
    return [each["pid"] for each in status["ranks"]] + [status["host"]["controller_pid"]]


def test_errors_of_one_rank() -> None:
    with open_session(4) as session:
        with pytest.raises(sk.CellError, match=r"ValueError: no data \[rank 2\]") as raised:
            session.run("if rank == 2: raise ValueError('no data')\nprint('done')")
        assert (raised.value.ranks, raised.value.rank) == ((2,), 2)
        assert raised.value.result.text == "[0,1,3] done\n"
        with pytest.raises(sk.CellError) as raised:
            session.run("if rank < 2: [][rank]\nif rank == 3: {}[1]")
        assert raised.value.ranks == (0, 1, 3)
        assert session.run("1").ok


def test_a_rank_that_dies() -> None:
    with open_session(2) as session:
        session.run("kept = rank")
        with pytest.raises(sk.CellError, match="RankDied: rank 1: .*signal 9"):
            session.run("import os\nif rank == 1: os.kill(os.getpid(), 9)\ncomm.barrier()")
        wait_for(lambda: session.state == "degraded")
        assert list(session.lost) == [1] and "SIGKILL" in session.lost[1]
        with pytest.raises(sk.CellError, match="RankUnavailable: .*rank 1 is dead"):
            session.run("kept")
        with pytest.raises(sk.PeerLostError, match="rank 1: .*SIGKILL"):
            session.wait_ready()
        assert session.run("kept", ranks="alive").value.endswith("0")
        assert session.revive() == (1,)
        session.run("sum = comm.allreduce(1)")
        session.wait_ready(timeout=60)
        assert session.lost == {}
        assert session.run("'kept' in globals()", ranks=[1]).value.endswith("False")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["/no/such/program"], "No such file"),
        (["sh", "-c", "echo words of the program >&2; exit 3"], "words of the program"),
    ],
)
def test_a_rank_program_that_cannot_start(command: list[str], why: str) -> None:
    with open_session(2, command=command, start_timeout=20) as session:
        with pytest.raises(sk.PeerLostError, match=why):
            session.wait_ready()
        with pytest.raises(sk.CellError, match=f"(?s)RankUnavailable.*{why}"):
            session.run("1")
        assert session.state == "degraded"


def test_a_controller_that_is_killed() -> None:
    session = open_session(2)
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    until_text(cell, "begun")
    pids = pids_of(session)
    os.kill(pids[-1], signal.SIGKILL)
    with pytest.raises(sk.PeerLostError, match="this session is over"):
        cell.result()
    with pytest.raises(sk.PeerLostError, match=r"session.run\(\): this session is over"):
        session.run("1")
    assert session.state == "over"
    session.close()
    wait_for(lambda: all(map(is_gone, pids)))


def test_use_after_close() -> None:
    session = open_session(1)
    pids = pids_of(session)
    cell = session.start("1")
    cell.result()
    session.close()
    session.close()
    assert session.state == "closed" and "closed" in repr(session)
    assert all(map(is_gone, pids))
    assert cell.result().value == "1"
    calls = {
        "run": lambda: session.run("1"),
        "start": lambda: session.start("1"),
        "interrupt": session.interrupt,
        "status": session.status,
        "log": session.log,
        "revive": session.revive,
        "complete": lambda: session.complete("x"),
        "configure": session.configure,
        "keep": lambda: session.keep("a", "b"),
    }
    for name, call in calls.items():
        with pytest.raises(
            sk.BadHandleError, match=rf"session.{name}\(\): this session was closed"
        ):
            call()
    with pytest.raises(sk.BadHandleError), session:
        pass
    with open_session(1) as other:
        unread = other.start("1")
    for name, call in {"result": unread.result, "__iter__": lambda: list(unread)}.items():
        with pytest.raises(sk.BadHandleError, match=rf"^cell.{name}\(\): this session"):
            call()


def test_close_ends_whoever_waits() -> None:
    session = open_session(2)
    cell = session.start("from time import sleep\nprint('begun')\nsleep(600)")
    until_text(cell, "begun")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            cell.result()
        except sk.Error as error:
            raised.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    closers = [threading.Thread(target=session.close) for _ in range(3)]
    for thread in closers:
        thread.start()
    for thread in threads + closers:
        thread.join(60)
        assert not thread.is_alive()
    assert [type(each) for each in raised] == [sk.BadHandleError] * 3


def test_a_session_that_nobody_keeps_is_closed() -> None:
    session = open_session(1)
    pids = pids_of(session)
    with pytest.warns(ResourceWarning, match="was not closed"):
        del session
    wait_for(lambda: all(map(is_gone, pids)))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"ranks": 0}, "ranks is 0; 1 to 4096 are allowed"),
    ({"ranks": 4097}, "ranks is 4097"),
    ({"ranks": "two"}, "ranks is 'two'; give a number of ranks"),
    ({"ranks": 1.5}, "ranks is 1.5"),
    ({"command": "python"}, "command is 'python'; give a program and its arguments"),
    ({"command": []}, "the rank program .argv. is empty"),
    ({"command": ["a", 1]}, r"command\[1\] is 1"),
    ({"env": ["A=b"]}, "env is .*; give a dict"),
    ({"env": {"A=": "b"}}, "env has 'A='; a name has no ="),
    ({"env": {"": "b"}}, "not NAME=value"),
    ({"env": {"A": None}}, r"env\['A'\] is None"),
    ({"cwd": 3}, "cwd is 3; give a path"),
    ({"program": b"sk\0"}, "program is"),
    ({"name": "Upper", "lease": 1}, 'name is "Upper"; 1 to 64 lower-case letters'),
    ({"name": "fine", "token": "short"}, "token of 5 bytes; 16 to 256"),
    ({"token": "t" * 20}, 'name is ""'),
    ({"lease": -1}, "lease is -1; give seconds above 0"),
    ({"start_timeout": 0}, "start_timeout is 0"),
    (
        {"start_timeout": 2**30},
        r"start_timeout is 1073741824; give seconds above 0 and below 2\*\*30",
    ),
    ({"lease": 5}, "lease is 5 without a name"),
    ({"interrupt_timeout": "x"}, "interrupt_timeout is 'x'"),
    ({"fork": 2}, "fork is 2; give True or False"),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG)
def test_wrong_arguments_of_a_session(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sk.InvalidArgumentError, match=sentence):
        sk.Session(**{"ranks": 1, **given})


def test_a_controller_program_that_is_none() -> None:
    with pytest.raises(sk.SystemCallError, match="controller.s program"):
        sk.Session(1, program="/no/such/sk")
    with pytest.raises(sk.SystemCallError, match="ended before it answered"):
        sk.Session(1, program="/bin/true")


def test_wrong_arguments_of_calls() -> None:
    with open_session(2) as session:
        wrong = {
            "code is 3; give source text": lambda: session.run(3),
            "code is 'a.*without NUL": lambda: session.run("a\0b"),
            "code is .*surrogates": lambda: session.start("'\udc80'"),
            r"ranks is \[\]; give a set": lambda: session.run("1", ranks=[]),
            r"ranks is \['a'\]; give a set": lambda: session.run("1", ranks=["a"]),
            "ranks is 1.5; give a set": lambda: session.start("1", ranks=1.5),
            "ranks is ''; give a set": lambda: session.run("1", ranks=""),
            "rank 2 asked for, but there are ranks 0 to 1": lambda: session.run("1", ranks=2),
            "rank set: 79999 bytes": lambda: session.run("1", ranks=[0] * 40_000),
            'rank set: "x"': lambda: session.run("1", ranks="x"),
            "timeout is 0; give seconds": lambda: session.run("1", timeout=0),
            "input is an int; give a function": lambda: session.run("1", input=1),
            "input is 'yes'; give True or False": lambda: session.start("1", input="yes"),
            "silent is 5": lambda: session.run("1", silent=5),
            "cell is 0; give a cell": lambda: session.log(0),
            "cell is 'x'; give a cell": lambda: session.log("x"),
            "rank is -1; give the number of a rank": lambda: session.log_displays(-1),
            'rank set: "x y"': lambda: session.revive("x y"),
            "cursor is 5; give a position in 2 characters": lambda: session.complete("ab", 5),
            "detail is 2; give 0 or 1": lambda: session.inspect("ab", detail=2),
            "tag is 'x'; allowed is \"set\"": lambda: session.configure(tag="x"),
            "shown_lines is 3; 16 to": lambda: session.configure(shown_lines=3),
        }
        for sentence, call in wrong.items():
            with pytest.raises((sk.InvalidArgumentError, sk.OutOfRangeError), match=sentence):
                call()
        assert session.run("1").ok


def test_two_sessions_at_once() -> None:
    with open_session(2) as one, open_session(1) as other:
        one.run("x = 'one'")
        other.run("x = 'other'")
        first, second = one.start("x, world_size"), other.start("x, world_size")
        assert second.result().value == "('other', 1)"
        assert first.result().value == "('one', 2)"
        one.close()
        assert other.run("x").value == "'other'"


def test_threads_share_a_session() -> None:
    with open_session(2) as session:
        values: dict[int, list[str | None]] = {}

        def ask(number: int) -> None:
            values[number] = [session.run(f"{number}, {i}").value for i in range(5)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert values == {n: [f"({n}, {i})" for i in range(5)] for n in range(4)}


def test_a_forked_child_leaves_the_session_alone() -> None:
    with open_session(1) as session:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                session.run("1")
            except sk.ForkedError as error:
                session.close()
                with open_session(1) as own:
                    code = 0 if own.run("1").ok and "forked" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert session.run("2").value == "2"


PRELUDE = """
import os, signal, sys, threading, time
sys.path.insert(0, {tests!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # Who runs in the background ignores it.
import libsk as sk
from session_tools import open_session, until_text, wait_for
"""


def command_of(body: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE.format(tests=str(Path(__file__).parent)) + body]


def run_program(body: str, *, interrupted: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end; with SIGINT once it has printed a line."""
    process = subprocess.Popen(
        command_of(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = ""
    if interrupted:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, first + out, err)


def test_ctrl_c_interrupts_the_ranks() -> None:
    done = run_program(
        """
with open_session(2) as session:
    session.run("kept = 1; from time import sleep")
    def tell():
        wait_for(lambda: session.status()["running_cell"] == 2)
        wait_for(lambda: "sleep" in session.stack() or "line" in session.stack())
        print("now", flush=True)
    threading.Thread(target=tell).start()
    begun = time.monotonic()
    try:
        session.run("sleep(600)")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - begun < 60)
    print(session.run("kept").value, [each["state"] for each in session.status()["ranks"]])
""",
        interrupted=True,
    )
    assert done.stdout == "now\ninterrupted True\n1 ['idle', 'idle']\n", done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["pass", "raise SystemExit", "session.start('while 1: pass')"])
def test_the_interpreters_end_closes_it(how: str) -> None:
    done = run_program(
        f"""
session = open_session(2)
session.run("1")
print(*[each["pid"] for each in session.status()["ranks"]])
{how}
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(map(is_gone, map(int, done.stdout.split())))


def test_a_killed_process_ends_its_ranks_though_it_has_a_child() -> None:
    done = run_program(
        """
session = open_session(1)
print(session.run("import os; os.getpid()").value, flush=True)
child = os.fork()
if child == 0:
    os.close(1), os.close(2)
    signal.pause()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), 9)
"""
    )
    rank, child = map(int, done.stdout.split())
    try:
        wait_for(lambda: is_gone(rank))
        assert not is_gone(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_session_goes_on_in_another_process(tmp_path: Path) -> None:
    name, token, gate = f"test-{os.getpid()}", "0123456789abcdef", tmp_path / "gate"
    body = f"""
session = open_session(2, name={name!r}, token={token!r}, lease=120)
session.run("kept = 'from before'")
session.keep("note", "left ☃")
code = "import os\\nprint('begun')\\nwhile not os.path.exists({str(gate)!r}): pass\\n'late'"
cell = session.start(code, tag="mine")
session.start("kept + ' again'", tag="behind")
until_text(cell, "begun")
"""
    # The ranks go on, and with them whatever the process has written to.
    done = subprocess.run(command_of(body), stderr=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0
    with sk.Session.attach(name, token) as session:
        assert session.world_size == 2 and session.notes["note"] == "left ☃"
        cell, behind = session.cells  # It waits for the first; nobody would ask for it else.
        assert not cell.is_done() and (behind.number, behind.tag) == (cell.number + 1, "behind")
        gate.touch()
        assert cell.tag == "mine" and cell.result(timeout=60).value == "'late'"
        assert behind.result(timeout=60).value == "'from before again'"
        assert session.run("kept").value == "'from before'"
    with pytest.raises(sk.PeerLostError):
        sk.Session.attach(name, token)


def test_an_attach_that_fails_leaves_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    name, token = f"failed-{os.getpid()}", "0123456789abcdef"
    body = f"""
session = open_session(1, name={name!r}, token={token!r}, lease=120)
session.run("kept = 7")
"""
    done = subprocess.run(command_of(body), stderr=subprocess.DEVNULL, timeout=120)
    assert done.returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr("libsk._session._TOLD_S", 0.2)
        patch.setattr("libsk._session_book.Book.catches_up", lambda _: True)
        with pytest.raises(sk.TimeoutError, match="told nothing of itself"):
            sk.Session.attach(name, token)

    def attached() -> sk.Session | None:
        """The controller hears a moment later that nobody is there."""
        try:
            return sk.Session.attach(name, token)
        except sk.BusyError:
            return None

    session = wait_for(attached)
    with session:
        assert session.run("kept").value == "7"


def test_a_token_is_made_up() -> None:
    with open_session(1, name=f"token-{os.getpid()}", lease=60) as session:
        assert session.token is not None and len(session.token) >= 16
        with pytest.raises(sk.BusyError):
            sk.Session.attach(f"token-{os.getpid()}", session.token)
    with open_session(1) as session:
        assert session.token is None
