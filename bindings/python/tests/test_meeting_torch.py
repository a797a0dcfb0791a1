"""The start of PyTorch's process groups in ranks, with a double in the place of PyTorch."""

from __future__ import annotations

import itertools
import os
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from libsk.kernel import torch_distributed

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "support"))
import stranger

LIMIT_S = 60
_runs = itertools.count()


class Store:
    """What TCPStore says of itself: a server takes the descriptor as its own, and its port must be
    the one that was named."""

    def __init__(
        self,
        host: str,
        port: int,
        world_size: int,
        is_master: bool,
        timeout: timedelta,
        wait_for_workers: bool,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        self.port = port
        self.by_libuv = use_libuv
        self.server = socket.socket(fileno=master_listen_fd) if is_master else None
        if self.server is None:
            socket.create_connection((host, port), LIMIT_S).close()
            return
        assert self.server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert self.server.getsockname() == ("127.0.0.1", port)


class OldStore(Store):
    """That of before 2.8."""

    def __init__(self, *arguments: Any, use_libuv: bool = True, **options: Any) -> None:
        if use_libuv and options.get("master_listen_fd") is not None:
            os.close(options["master_listen_fd"])
            raise RuntimeError("the libuv backend takes no descriptor")
        super().__init__(*arguments, use_libuv=use_libuv, **options)


@pytest.fixture
def rendezvous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """torch's two modules, patched as when a cell has imported them; in the second, the port that
    the controller would hold."""
    module = ModuleType("torch.distributed.rendezvous")
    module.TCPStore = Store
    module._rendezvous_handlers = {
        "env": lambda url, **_: iter([("torch's own", url)]),
        "tcp": lambda url, **_: iter([("torch's own", url)]),
    }
    monkeypatch.setitem(sys.modules, "torch.distributed.rendezvous", module)
    c10d = ModuleType("torch.distributed.distributed_c10d")
    c10d.Work = type("Work", (), {"wait": lambda self: True})
    c10d.init_process_group = lambda: None
    torch_distributed.patch(c10d)
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(held.getsockname()[1]))
        monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", f"{os.getpid()}-{next(_runs)}")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        yield module


def meet(rendezvous: ModuleType, world_size: int, url: str = "env://") -> list[Store]:
    """All ranks' stores. Ranks are threads, so the address says who each is."""

    def rank_main(rank: int) -> Store:
        handler = rendezvous._rendezvous_handlers[url.partition(":")[0]]
        who = f"?rank={rank}&world_size={world_size}"
        store, said_rank, said_size = next(handler(url + who, timeout=timedelta(seconds=LIMIT_S)))
        assert (said_rank, said_size) == (rank, world_size)
        return store

    with ThreadPoolExecutor(world_size) as threads:
        return list(threads.map(rank_main, range(world_size)))


def test_the_store_listens_before_its_port_is_told(rendezvous: ModuleType) -> None:
    stores = meet(rendezvous, 4)
    assert len({store.port for store in stores}) == 1
    assert stores[0].server is not None and stores[0].by_libuv


def test_a_torch_of_before(rendezvous: ModuleType) -> None:
    rendezvous.TCPStore = OldStore
    stores = meet(rendezvous, 2)
    assert stores[0].server is not None and not stores[0].by_libuv


def test_one_after_another(rendezvous: ModuleType) -> None:
    kept = [meet(rendezvous, 3) for _ in range(5)]
    assert len({stores[0].port for stores in kept}) == 5


def test_tcp_at_the_ranks_own_place_is_the_same(rendezvous: ModuleType) -> None:
    stores = meet(rendezvous, 2, f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}")
    assert stores[0].server is not None


def test_all_are_told_that_rank_0_failed(rendezvous: ModuleType) -> None:
    class Failing(Store):
        def __init__(self, host: str, port: int, size: int, is_master: bool, *_: Any, **__: Any):
            raise OSError("no more descriptors")

    rendezvous.TCPStore = Failing

    def start(rank: int) -> str:
        url = f"env://?rank={rank}&world_size=3"
        with pytest.raises((OSError, RuntimeError)) as raised:
            next(rendezvous._rendezvous_handlers["env"](url, timeout=timedelta(seconds=LIMIT_S)))
        return str(raised.value)

    with ThreadPoolExecutor(3) as threads:
        first, *others = threads.map(start, range(3))
    assert first == "no more descriptors"
    assert others == ["init_process_group(): rank 0 failed: OSError: no more descriptors"] * 2


@pytest.mark.parametrize(
    ("who", "sentence"),
    [
        ("rank=3&world_size=3", "the rank is 3 where the world size is 3: it must be from 0 to 2"),
        ("rank=-1&world_size=3", "the rank is -1"),
        ("rank=0&world_size=0", "the world size is 0: there are no ranks"),
        ("rank=a&world_size=3", "rank and world size: "),
    ],
)
def test_who_is_no_rank_of_the_world_is_told(
    rendezvous: ModuleType, who: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        next(rendezvous._rendezvous_handlers["env"](f"env://?{who}"))


@pytest.mark.parametrize("address", ["192.0.2.7", "no.such.host.invalid", ""])
def test_what_is_beyond_this_host_is_torchs_own(
    rendezvous: ModuleType, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("MASTER_ADDR", address)
    assert next(rendezvous._rendezvous_handlers["env"]("env://")) == ("torch's own", "env://")


def test_another_place_is_torchs_own(rendezvous: ModuleType) -> None:
    url = "tcp://127.0.0.1:1"
    assert next(rendezvous._rendezvous_handlers["tcp"](url)) == ("torch's own", url)


STEAL = """
import socket, sys
port = int(sys.argv[1])
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    thief = socket.socket()
    thief.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        thief.bind(("127.0.0.1", port))
        thief.listen()
        print("stolen")
    except OSError as error:
        print("kept")
"""


def test_a_stranger_takes_no_port(rendezvous: ModuleType) -> None:
    """Neither that of the store, nor the one that is held for other servers of the job."""
    store = meet(rendezvous, 2)[0]
    for port in (store.port, os.environ["MASTER_PORT"]):
        assert stranger.run(STEAL, port) == "kept\nkept\n"


SERVE = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("serves", flush=True)
while True:
    peer, _ = listener.accept()
    print(peer.recv(100), flush=True)
    peer.sendall(b"1\\n")
"""


def test_a_stranger_at_the_port_is_nobody(
    rendezvous: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cell chose MASTER_PORT by itself, a stranger may have it. Nobody goes there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = stranger.start(SERVE, port)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        monkeypatch.setenv("MASTER_PORT", str(port))
        heard: list[str] = []
        listening = threading.Thread(target=lambda: heard.extend(process.stdout or ()))
        listening.start()
        stores = meet(rendezvous, 3)
        assert stores[0].server is not None
    finally:
        process.kill()
        process.wait()
    listening.join(LIMIT_S)
    assert heard == []
