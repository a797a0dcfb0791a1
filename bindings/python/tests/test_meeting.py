"""How ranks wait for each other before PyTorch's groups, without PyTorch."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from libsk.kernel import meeting

LIMIT_S = 60.0
Place = tuple[str, int]


@pytest.fixture
def place() -> Iterator[Place]:
    """A port that is held as the controller holds it: bound, and not listening."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()


@pytest.fixture
def visit(place: Place) -> Iterator[Callable[..., object]]:
    """Lets a rank attend in a thread; its future."""
    with ThreadPoolExecutor(8) as threads:

        def start(rank: int, limit_s: float = LIMIT_S) -> object:
            return threads.submit(meeting.attend, place, rank, time.monotonic() + limit_s)

        yield start


def test_all_get_the_word(place: Place, visit: Callable[..., object]) -> None:
    words = [visit(rank) for rank in (1, 2, 3)]  # Before rank 0 listens.
    with meeting.Host(place, 4) as host:
        host.gather(time.monotonic() + LIMIT_S)
        host.tell("4711")
    assert [word.result(LIMIT_S) for word in words] == ["4711"] * 3


def test_again_at_once_on_the_same_port(place: Place, visit: Callable[..., object]) -> None:
    for turn in range(20):
        word = visit(1)
        with meeting.Host(place, 2) as host:
            host.gather(time.monotonic() + LIMIT_S)
            host.tell(str(turn))
        assert word.result(LIMIT_S) == str(turn)


def test_who_lacks_is_named_on_both_sides(place: Place, visit: Callable[..., object]) -> None:
    word = visit(2)
    with meeting.Host(place, 5) as host, pytest.raises(meeting.LackingError) as here:
        host.gather(time.monotonic() + 0.5)
    assert here.value.ranks == [1, 3, 4]
    with pytest.raises(meeting.LackingError) as there:
        word.result(LIMIT_S)
    assert there.value.ranks == [1, 3, 4]


def test_without_rank_0(visit: Callable[..., object]) -> None:
    with pytest.raises(meeting.LackingError) as error:
        visit(1, 0.3).result(LIMIT_S)
    assert error.value.ranks == [0]


def test_one_that_gives_up_is_not_counted(place: Place) -> None:
    with meeting.Host(place, 3) as host:
        with socket.create_connection(place) as peer:
            peer.sendall(b"1\n")
        with pytest.raises(meeting.LackingError) as error:
            host.gather(time.monotonic() + 0.5)
    assert error.value.ranks == [1, 2]


@pytest.mark.parametrize(
    "text", [b"\xff" * 5000, b"0\n", b"2\n", b"-1\n", b"GET / HTTP/1.1\r\n\r\n"]
)
def test_strangers(place: Place, visit: Callable[..., object], text: bytes) -> None:
    with meeting.Host(place, 2) as host, socket.create_connection(place) as stranger:
        stranger.sendall(text)
        gathered = threading.Thread(target=host.gather, args=(time.monotonic() + LIMIT_S,))
        gathered.start()
        with contextlib.suppress(ConnectionResetError):  # With some of it unread.
            assert stranger.recv(1) == b""  # Sent away.
        word = visit(1)
        gathered.join(LIMIT_S)
        host.tell("go")
        assert word.result(LIMIT_S) == "go"
