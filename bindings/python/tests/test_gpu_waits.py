"""Waits for a GPU: bounded, without Python's lock, and ended by Ctrl-C.

The GPU is a fake (fake_gpu.py).
"""

from __future__ import annotations

import faulthandler
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest
from fake_gpu import FakeGpus
from libsk import _gpu

Ranks = Callable[..., list[Any]]
_PATIENT_S = 30.0
_ALONE = {"bootstrap": "threads", "rank": 0, "world_size": 1, "device": "cuda:0"}


@pytest.fixture
def given_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What could not be given back."""
    monkeypatch.setattr(_gpu, "_left_behind", batches := [])
    return batches


def test_free_may_be_tried_again(gpu_ranks: Ranks, gpus: FakeGpus, given_up: list[Any]) -> None:
    def body(comm: sk.Comm) -> None:
        handle = gpus.stream(0)
        hold = gpus.hold(handle) if comm.rank == 0 else None
        x = gpus.array(np.ones(5, np.float32))
        comm.allreduce(x, out=x, stream=handle, timeout=_PATIENT_S)
        if hold is None:
            gate.wait(_PATIENT_S)
            with pytest.raises(sk.PeerLostError):
                comm.barrier(timeout=_PATIENT_S)
            return
        with pytest.raises(sk.TimeoutError, match="had not ended after"):
            comm.free()
        assert comm.info()["over"] == 0 and x.released == 0
        gpus.open(hold)
        comm.synchronize(stream=handle, timeout=_PATIENT_S)
        comm.free()
        assert x.released == 2 and np.all(x.memory == 2)
        with pytest.raises(sk.BadHandleError, match="was freed"):
            comm.barrier()
        gate.wait(_PATIENT_S)

    gate = threading.Barrier(2)
    gpu_ranks(2, body, timeout=4.0)
    assert not given_up


def test_an_end_that_failed_unheard_is_told(
    gpus: FakeGpus, given_up: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told_of: told.append(told_of.exc_value))
    comm = sk.Comm(name="unheard", timeout=0.2, **_ALONE)
    handle = gpus.stream(0)
    hold = gpus.hold(handle)
    x = gpus.array(np.ones(5, np.float32))
    comm.allreduce(x, out=x, stream=handle)
    del comm
    gc.collect()
    gpus.open(hold)
    (error,) = told
    assert isinstance(error, sk.TimeoutError) and "had not ended after" in str(error)
    assert len(given_up) == 1 and x.released == 0


# ---- Python's lock ----


@pytest.fixture
def opener(gpus: FakeGpus) -> Iterator[Callable[[int], None]]:
    """Opens a hold as soon as the caller gives up Python's lock, which it must do by itself.

    Where a call waits with the lock the process ends, for nothing in Python could end it.
    """
    threads: list[threading.Thread] = []
    before = sys.getswitchinterval()
    faulthandler.dump_traceback_later(4 * _PATIENT_S, exit=True)

    def open_soon(hold: int) -> None:
        go = threading.Event()
        threads.append(threading.Thread(target=lambda: (go.wait(_PATIENT_S), gpus.open(hold))))
        threads[-1].start()
        sys.setswitchinterval(1000.0)
        go.set()

    yield open_soon
    sys.setswitchinterval(before)
    for thread in threads:
        thread.join()
    faulthandler.cancel_dump_traceback_later()


def test_traces_wait_without_the_lock(gpus: FakeGpus, opener: Callable[[int], None]) -> None:
    with sk.Comm(name="traced", timeout=_PATIENT_S, **_ALONE) as comm:
        x, handle = gpus.array(np.ones(4097, np.float32)), gpus.stream(0)
        out = gpus.array(np.zeros(4097, np.float32))  # A rank alone does nothing in place.
        trace = comm.trace()
        hold = gpus.hold(handle)
        comm.allreduce(x, out=out, stream=handle)
        opener(hold)
        with trace:  # Waits, and when it ends, too.
            hold = gpus.hold(handle)
            comm.allreduce(x, out=out, stream=handle)
            opener(hold)
        assert trace.events


def test_packed_weights_wait_without_the_lock(
    gpus: FakeGpus, opener: Callable[[int], None]
) -> None:
    with sk.Comm(name="packing", timeout=_PATIENT_S, **_ALONE) as comm:
        packed = comm.pack(gpus.array(np.ones((8, 8), np.float32)))
        opener(gpus.hold(gpus.stream(0)))
        del packed  # The driver gives nothing back while anything runs.


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal's foreground; shells start what runs behind them without SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_a_trace_is_waited_for(gpus: FakeGpus, interruptible: None) -> None:
    """It aborts the communicator, and the peer that learns of it lets the stream go on."""
    config = {"bootstrap": "threads", "world_size": 2, "name": "Ctrl-C", "device": "cuda:0"}
    handle = gpus.stream(0)
    waiting = threading.Event()
    seen: list[BaseException] = []

    def peer() -> None:
        with sk.Comm(rank=1, timeout=_PATIENT_S, **config) as comm:
            x = gpus.array(np.ones(5, np.float32))
            comm.allreduce(x, out=x)
            waiting.wait(_PATIENT_S)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            try:
                comm.barrier()
            except sk.Error as error:
                seen.append(error)
            gpus.open_all()

    thread = threading.Thread(target=peer)
    thread.start()
    before = sys.getswitchinterval()
    try:
        with sk.Comm(rank=0, timeout=_PATIENT_S, **config) as comm:
            x = gpus.array(np.ones(5, np.float32))
            trace = comm.trace().__enter__()
            gpus.hold(handle)
            comm.allreduce(x, out=x, stream=handle)
            sys.setswitchinterval(1000.0)  # The peer goes on when the call gives up the lock.
            with pytest.raises(KeyboardInterrupt):
                waiting.set()
                trace.__exit__(None, None, None)
    finally:
        sys.setswitchinterval(before)
        thread.join(2 * _PATIENT_S)
    assert len(seen) == 1 and isinstance(seen[0], sk.AbortedError) and seen[0].rank == 0
