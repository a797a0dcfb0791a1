"""How ranks wait for each other before PyTorch's groups, and what another user can do about it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from libsk.kernel import meeting

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))
import stranger

LIMIT_S = 60.0
Visit = Callable[..., Future[str]]
_jobs = itertools.count()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> meeting.Place:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return meeting.Place(f"job {next(_jobs)}")


@pytest.fixture
def visit(place: meeting.Place) -> Iterator[Visit]:
    """Lets a rank attend in a thread; its future."""
    with ThreadPoolExecutor(8) as threads:

        def start(rank: int, limit_s: float = LIMIT_S) -> Future[str]:
            return threads.submit(meeting.attend, place, rank, time.monotonic() + limit_s)

        yield start


def connect(place: meeting.Place) -> socket.socket:
    with place.open() as path:
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(LIMIT_S)
        until_s = time.monotonic() + LIMIT_S
        while (code := peer.connect_ex(str(path))) == errno.EAGAIN:  # The queue is full.
            assert time.monotonic() < until_s
        assert code == 0, os.strerror(code)
    return peer


def gathers(host: meeting.Host) -> threading.Thread:
    thread = threading.Thread(target=host.gather, args=(time.monotonic() + LIMIT_S,))
    thread.start()
    return thread


def test_all_get_the_word(place: meeting.Place, visit: Visit) -> None:
    words = [visit(rank) for rank in (1, 2, 3)]  # Before rank 0 listens.
    with meeting.Host(place, 4) as host:
        host.gather(time.monotonic() + LIMIT_S)
        host.tell("4711")
    assert [word.result(LIMIT_S) for word in words] == ["4711"] * 3
    assert list(place.folder.iterdir()) == []


def test_again_at_once_at_the_same_place(place: meeting.Place, visit: Visit) -> None:
    for turn in range(20):
        word = visit(1)
        with meeting.Host(place, 2) as host:
            host.gather(time.monotonic() + LIMIT_S)
            host.tell(str(turn))
        assert word.result(LIMIT_S) == str(turn)


def test_after_a_rank_0_that_was_killed(place: meeting.Place, visit: Visit) -> None:
    listener = meeting._listen(place, 1)
    listener.close()  # Its name stays.
    assert [each.name for each in place.folder.iterdir()] == [place.name]
    word = visit(1)
    with meeting.Host(place, 2) as host:
        host.gather(time.monotonic() + LIMIT_S)
        host.tell("go")
    assert word.result(LIMIT_S) == "go"


def test_not_where_others_are_meeting(place: meeting.Place, visit: Visit) -> None:
    with meeting.Host(place, 2) as host:
        with pytest.raises(OSError, match="other ranks of this job are meeting"):
            meeting.Host(place, 2)
        word = visit(1)
        host.gather(time.monotonic() + LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"


def test_in_a_folder_with_a_long_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visit: Visit
) -> None:
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    place = meeting.Place("job")
    with meeting.Host(place, 1), connect(place):
        pass


@pytest.mark.parametrize("named", ["/no/such/folder", "/dev/null", "not/absolute", ""])
def test_where_the_variable_names_no_folder(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", named)
    place = meeting.Place(f"job {os.getpid()} {next(_jobs)}")
    assert str(place.folder) == f"/tmp/superkernel-{os.geteuid()}"
    with ThreadPoolExecutor(1) as threads, meeting.Host(place, 2) as host:
        word = threads.submit(meeting.attend, place, 1, time.monotonic() + LIMIT_S)
        host.gather(time.monotonic() + LIMIT_S)
        host.tell("4711")
        assert word.result(LIMIT_S) == "4711"


def test_all_are_told_why_nothing_comes_of_it(place: meeting.Place, visit: Visit) -> None:
    words = [visit(rank) for rank in (1, 2)]
    with meeting.Host(place, 3) as host:
        host.gather(time.monotonic() + LIMIT_S)
        host.refuse("rank 0 failed:\nno \u2603 " + "x" * 9000)
    for word in words:
        with pytest.raises(meeting.RefusedError, match=r"^rank 0 failed: no \? x+$"):
            word.result(LIMIT_S)


def test_one_that_is_no_rank_of_the_world_is_told(place: meeting.Place, visit: Visit) -> None:
    with meeting.Host(place, 2) as host:
        thread = gathers(host)
        with pytest.raises(meeting.RefusedError, match="rank 5 is none of the 2 ranks"):
            visit(5).result(LIMIT_S)
        assert thread.is_alive()
        word = visit(1)
        thread.join(LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"


def test_who_lacks_is_named_on_both_sides(place: meeting.Place, visit: Visit) -> None:
    word = visit(2)
    with meeting.Host(place, 5) as host, pytest.raises(meeting.LackingError) as here:
        host.gather(time.monotonic() + 0.5)
    assert here.value.ranks == [1, 3, 4]
    with pytest.raises(meeting.LackingError) as there:
        word.result(LIMIT_S)
    assert there.value.ranks == [1, 3, 4]


def test_without_rank_0(visit: Visit) -> None:
    with pytest.raises(meeting.LackingError) as error:
        visit(1, 0.3).result(LIMIT_S)
    assert error.value.ranks == [0]


def test_one_that_gives_up_is_not_counted(place: meeting.Place) -> None:
    with meeting.Host(place, 3) as host:
        with connect(place) as peer:
            peer.sendall(b"1\n")
        with pytest.raises(meeting.LackingError) as error:
            host.gather(time.monotonic() + 0.5)
    assert error.value.ranks == [1, 2]


@pytest.mark.parametrize(
    "text", [b"\xff" * 5000, b"0\n", b"-1\n", b"\xb2\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_rank(place: meeting.Place, visit: Visit, text: bytes) -> None:
    with meeting.Host(place, 2) as host, connect(place) as other:
        other.sendall(text)
        gathered = gathers(host)
        with contextlib.suppress(ConnectionResetError):  # With some of it unread.
            assert other.recv(1) == b""  # Sent away.
        word = visit(1)
        gathered.join(LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"


def test_one_that_says_nothing_is_sent_away(
    place: meeting.Place, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "_SILENCE_S", 0.2)
    with meeting.Host(place, 2) as host, connect(place) as silent:
        gathered = gathers(host)
        assert silent.recv(1) == b""
        word = visit(1)
        gathered.join(LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"


def test_many_that_say_nothing_are_bounded(place: meeting.Place, visit: Visit) -> None:
    with contextlib.ExitStack() as open_ones, meeting.Host(place, 2) as host:
        gathered = gathers(host)
        silent = [open_ones.enter_context(connect(place)) for _ in range(meeting._SILENT_MAX + 20)]
        assert silent[0].recv(1) == b""  # The oldest went for a newer one.
        word = visit(1)
        gathered.join(LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"


# ---- another user --------------------------------------------------------------------------------

KNOCK = """
import os, socket, sys
folder, name = sys.argv[1:]
for path in (f"{folder}/{name}", folder):
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            print("connected")
    except PermissionError:
        print("refused")
try:
    os.listdir(folder)
    print("listed")
except PermissionError:
    print("refused")
"""


def test_a_stranger_reaches_no_meeting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In /tmp itself: nothing above it keeps a stranger out."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    place = meeting.Place(f"job {os.getpid()}")
    with meeting.Host(place, 2):
        assert stranger.run(KNOCK, place.folder, place.name) == "refused\n" * 3


SQUAT = """
import os, socket, sys
folder, name = sys.argv[1:]
os.umask(0)
os.mkdir(folder, 0o777)
listener = socket.socket(socket.AF_UNIX)
listener.bind(f"{folder}/{name}")
listener.listen()
print("squats", flush=True)
while True:
    peer, _ = listener.accept()
    peer.recv(100)
    peer.sendall(b"31337\\n")
"""


def test_a_stranger_that_was_there_first_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    common = Path(tempfile.mkdtemp(dir="/tmp"))
    common.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(common))
    place = meeting.Place("job")
    process = stranger.start(SQUAT, place.folder, place.name)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "squats\n"
        with pytest.raises(PermissionError, match="must be a folder of user 0 with mode 0700"):
            meeting.attend(place, 1, time.monotonic() + LIMIT_S)
        with pytest.raises(PermissionError, match="one of user 65534"):
            meeting.Host(place, 2)
        # Also where the folder was looked at before the stranger took its place.
        monkeypatch.setattr(
            meeting.Place,
            "open",
            lambda self: contextlib.nullcontext(self.folder / self.name),
        )
        with pytest.raises(meeting.LackingError):
            meeting.attend(place, 1, time.monotonic() + 0.5)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(common)
