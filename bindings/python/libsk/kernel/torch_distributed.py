"""PyTorch's process groups in cells: an interrupt ends their waits, and their start says who lacks.

``torch.distributed`` waits in C++, where Python's signal handlers do not run: for a rank that never
comes, 30 minutes. When a cell imports it, two of its waits are replaced: the rendezvous of
``env://``, by which all ranks of ``init_process_group()`` find each other, and ``Work.wait()``. The
second is left as it is where there is a GPU, for there a wait is an entry in a stream's queue.

The rendezvous also proves who comes (:mod:`libsk.kernel.meeting`): torch's own takes a port's word.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlparse

from libsk._checks import about_value
from libsk.kernel import meeting

_SLICE = timedelta(milliseconds=100)
_NO_LIMIT = timedelta(0)


def patch(c10d: ModuleType) -> None:
    """Called when ``torch.distributed.distributed_c10d`` has just been imported."""
    rendezvous = sys.modules["torch.distributed.rendezvous"]
    # A torch without gloo has nothing to wait for; one that changed these names keeps its own ways.
    handlers = getattr(rendezvous, "_rendezvous_handlers", {})
    if not hasattr(c10d, "Work") or "env" not in handlers:
        return
    for scheme in {"env", "tcp"} & handlers.keys():
        handlers[scheme] = functools.partial(_rendezvous, rendezvous, handlers[scheme])
    c10d.init_process_group = _counting_from_zero(c10d, c10d.init_process_group)
    c10d.Work.wait = _interruptible(c10d, c10d.Work.wait)


# ---- the start -----------------------------------------------------------------------------------


def _counting_from_zero(c10d: ModuleType, init: Callable[..., None]) -> Callable[..., None]:
    """Groups are named by a count. A start that failed on some ranks only leaves their counts
    apart, and ranks that look for each other under different names wait in vain."""

    @functools.wraps(init)
    def init_process_group(*arguments: Any, **options: Any) -> None:
        if c10d.GroupMember.WORLD is None:
            c10d._world.group_count = 0
        init(*arguments, **options)

    return init_process_group


def _rendezvous(
    rendezvous: ModuleType,
    original: Callable[..., Iterator[tuple[Any, int, int]]],
    url: str,
    timeout: timedelta = timedelta(minutes=30),
    **options: Any,
) -> Iterator[tuple[Any, int, int]]:
    """``env://``, and ``tcp://`` where it names the same place, if that place is on this host: the
    ranks of a notebook. Whatever else is asked for is torch's own."""
    parts = urlparse(url)
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    named = parts.scheme == "env" or (parts.hostname == address and str(parts.port) == port)
    if named and _is_loopback(address):
        return _meet(rendezvous, dict(parse_qsl(parts.query)), timeout)
    return original(url, timeout=timeout, **options)


def _is_loopback(address: str) -> bool:
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM) if address else []
    except OSError:
        return False
    return bool(found) and all(
        ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found
    )


def _meet(
    rendezvous: ModuleType, given: dict[str, str], timeout: timedelta
) -> Iterator[tuple[Any, int, int]]:
    """torch's ``env://``, except that Ctrl-C ends it, and that it names the ranks that lack.

    ``MASTER_PORT`` is but a part of the meeting's name; the store is made when all are there, at a
    port that rank 0 then tells. So a rank that starts its next group early never finds the store of
    the last.
    """
    rank, world_size = _who(given)
    address = _variable("MASTER_ADDR")
    run = os.environ.get("TORCHELASTIC_RUN_ID", "")
    place = meeting.Place(f"{run}\n{address}\n{_variable('MASTER_PORT')}")
    until_s = time.monotonic() + timeout.total_seconds()
    try:
        if rank == 0:
            with meeting.Host(place, world_size) as host:
                host.gather(until_s)
                try:
                    served = _serve(rendezvous, address, world_size, timeout)
                except BaseException as error:
                    host.refuse(f"rank 0 failed: {_shown(error)}")
                    raise
                host.tell(str(served.port))
        else:
            port = int(meeting.attend(place, rank, until_s))
            served = rendezvous.TCPStore(
                address, port, world_size, False, timeout, wait_for_workers=False
            )
    except meeting.LackingError as error:
        raise TimeoutError(_who_lacks(error.ranks, timeout)) from None
    except meeting.RefusedError as error:
        raise RuntimeError(f"init_process_group(): {error}") from None
    yield served, rank, world_size
    raise RuntimeError("the ranks of a notebook cannot repeat a rendezvous")


def _serve(rendezvous: ModuleType, address: str, world_size: int, timeout: timedelta) -> Any:
    """The store at a socket that listens already, on the loopback alone. By itself it would listen
    at every address of the host."""
    family, kind, _, _, where = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind) as listener:
        listener.bind(where)
        listener.listen(world_size)
        port = listener.getsockname()[1]

        def store(**backend: bool) -> Any:
            # The store closes what it is given, also when it fails.
            fd = os.dup(listener.fileno())
            return rendezvous.TCPStore(
                address,
                port,
                world_size,
                True,
                timeout,
                wait_for_workers=False,
                master_listen_fd=fd,
                **backend,
            )

        try:
            return store()
        except (RuntimeError, ValueError):
            return store(use_libuv=False)  # torch before 2.8 takes a descriptor with this only.


def _who(given: dict[str, str]) -> tuple[int, int]:
    """Rank and number of ranks, by the URL or by the environment."""
    try:
        rank = int(given.get("rank") or _variable("RANK"))
        world_size = int(given.get("world_size") or _variable("WORLD_SIZE"))
    except ValueError as error:
        if "init_process_group" in str(error):
            raise
        raise ValueError(f"init_process_group(): rank and world size: {error}") from None
    if not 0 <= rank < world_size:
        allowed = (
            f"it must be from 0 to {world_size - 1}" if world_size > 0 else "there are no ranks"
        )
        raise ValueError(
            f"init_process_group(): the rank is {rank} where the world size is {world_size}:"
            f" {allowed}"
        )
    return rank, world_size


def _shown(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as broken:  # noqa: BLE001 - the error's own.
        about_value(broken)
        return type(error).__name__


def _variable(name: str) -> str:
    text = os.environ.get(name)
    if not text:
        raise ValueError(f"init_process_group(): the environment variable {name} is not set")
    return text


def _who_lacks(ranks: list[int], timeout: timedelta) -> str:
    who = f"rank {ranks[0]} has" if len(ranks) == 1 else f"ranks {_list(ranks)} have"
    return f"init_process_group(): after {timeout.total_seconds():g} s {who} not called it"


def _list(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks))


# ---- the waits -----------------------------------------------------------------------------------


@functools.cache
def _has_accelerator() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _interruptible(c10d: ModuleType, wait: Callable[..., bool]) -> Callable[..., bool]:
    """``Work.wait()`` in slices, between which Python's signal handlers run.

    After an interrupt the operation is still under way, and what comes next on that group would
    meet the wrong calls of the peers: so it is refused until there is a new group.
    """
    broken: list[int] = []

    @functools.wraps(wait, assigned=("__doc__",))
    def interruptible(work: Any, timeout: timedelta = _NO_LIMIT) -> bool:
        on_main = threading.current_thread() is threading.main_thread()
        if timeout != _NO_LIMIT or not on_main or _has_accelerator():
            return wait(work, timeout)
        group = id(c10d.GroupMember.WORLD)
        if group in broken:
            raise RuntimeError(
                "an interrupt ended a wait in this process group, so its ranks are out of step; "
                "run dist.destroy_process_group() and dist.init_process_group() on every rank"
            )
        interrupted = False
        try:
            while not work.is_completed():
                _wait_a_slice(work, wait)
        except KeyboardInterrupt:
            broken[:] = [group]
            interrupted = True
        if interrupted:  # From here, so that neither the slice's end nor a second one is shown.
            raise KeyboardInterrupt
        return wait(work, timeout)

    return interruptible


def _wait_a_slice(work: Any, wait: Callable[..., bool]) -> None:
    # Not completed in the slice, or failed; then wait() without a limit says how.
    with contextlib.suppress(RuntimeError):
        wait(work, _SLICE)
