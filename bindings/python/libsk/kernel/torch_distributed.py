"""PyTorch's process groups in cells: an interrupt ends their waits, and their start says who lacks.

``torch.distributed`` waits in C++, where Python's signal handlers do not run: for a rank that never
comes, 30 minutes. When a cell imports it, two of its waits are replaced: the rendezvous of
``env://``, by which all ranks of ``init_process_group()`` find each other, and ``Work.wait()``. The
second is left as it is where there is a GPU, for there a wait is an entry in a stream's queue.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlparse

from libsk.kernel import meeting

_SLICE = timedelta(milliseconds=100)
_NO_LIMIT = timedelta(0)


def patch(c10d: ModuleType) -> None:
    """Called when ``torch.distributed.distributed_c10d`` has just been imported."""
    rendezvous = sys.modules["torch.distributed.rendezvous"]
    # A torch without gloo has nothing to wait for; one that changed these names keeps its own ways.
    if not hasattr(c10d, "Work") or "env" not in getattr(rendezvous, "_rendezvous_handlers", {}):
        return
    rendezvous._rendezvous_handlers["env"] = functools.partial(_meet, rendezvous)
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


def _meet(
    rendezvous: ModuleType, url: str, timeout: timedelta = timedelta(minutes=30), **_: Any
) -> Iterator[tuple[Any, int, int]]:
    """torch's ``env://``, except that Ctrl-C ends it, and that it names the ranks that lack.

    ``MASTER_PORT`` is where the ranks meet; the store is made when all are there, at a port that
    rank 0 then tells. So a rank that starts its next group early never finds the store of the last.
    """
    given = dict(parse_qsl(urlparse(url).query))
    rank = int(given.get("rank") or _variable("RANK"))
    world_size = int(given.get("world_size") or _variable("WORLD_SIZE"))
    place = (_variable("MASTER_ADDR"), int(_variable("MASTER_PORT")))
    until_s = time.monotonic() + timeout.total_seconds()

    def store(port: int) -> Any:
        return rendezvous.TCPStore(
            place[0], port, world_size, rank == 0, timeout, wait_for_workers=False
        )

    try:
        if rank == 0:
            with meeting.Host(place, world_size) as host:
                host.gather(until_s)
                served = store(0)
                host.tell(str(served.port))
        else:
            served = store(int(meeting.attend(place, rank, until_s)))
    except meeting.LackingError as error:
        raise TimeoutError(_who_lacks(error.ranks, timeout)) from None
    yield served, rank, world_size
    raise RuntimeError("env:// cannot repeat its rendezvous")


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
        try:
            while not work.is_completed():
                _wait_a_slice(work, wait)
        except KeyboardInterrupt:
            broken[:] = [group]
            raise
        return wait(work, timeout)

    return interruptible


def _wait_a_slice(work: Any, wait: Callable[..., bool]) -> None:
    # Not completed in the slice, or failed; then wait() without a limit says how.
    with contextlib.suppress(RuntimeError):
        wait(work, _SLICE)
