"""Communicators: who the ranks are, their memory, and their end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, SupportsIndex

from libsk import _core
from libsk._checks import (
    index_of,
    integer,
    is_given,
    milliseconds,
    shape_of,
    shown,
    text_of,
)
from libsk._collectives import Collectives
from libsk._context import Context, context_of
from libsk._device import CPU, device_of
from libsk._errors import invalid
from libsk._here import Here
from libsk._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np

    from libsk import (
        _device_memory,
        _dtypes,
        _gemm,
        _gpu,
        _place,
        _plan,
        _prepared,
        _symmetric,
        _trace,
    )
    from libsk._device_memory import DeviceArray
else:
    _device_memory = Lazy("libsk._device_memory")
    _dtypes = Lazy("libsk._dtypes")
    _gemm = Lazy("libsk._gemm")
    _gpu = Lazy("libsk._gpu")
    _place = Lazy("libsk._place")
    _plan = Lazy("libsk._plan")
    _prepared = Lazy("libsk._prepared")
    _symmetric = Lazy("libsk._symmetric")
    _trace = Lazy("libsk._trace")

JOB_SECRETS = ("SK_JOB_SECRET_FD", "SK_JOB_SECRET")
"""What libsk takes out of the environment, of which ``os.environ`` is a copy."""

_BOOTSTRAPS = {"auto": 0, "env": 1, "threads": 2}


class Comm(Collectives, Here):
    """A fixed set of ranks that call the same things in the same order.

    Without arguments the ranks are those that ``sk run``, torchrun, mpirun or srun started (see
    docs/env.md); where none of them did this is a world of one. Making it is collective: it returns
    when every rank has done so.

    ``bootstrap``: how ranks meet: "auto" and "env" as their environment says, where "env" refuses
        a process that no launcher started; "threads" are threads of this process
    ``rank``, ``world_size``: with "threads" only, and due there: this one's number, and how many
    ``name``: of the threads that belong together; between processes it tells communicators apart
        that several threads of a process make at one time
    ``device``: "cpu", or "cuda:0", a torch.device, or DLPack's pair (2, 0): see below
    ``timeout``: seconds that a call waits for other ranks at most, 300 by default
    ``workers``: threads of this rank that compute, 1 to 256, the caller's included; by default one
        for each core that falls to it; the least of all ranks holds
    ``put_only``: as if no rank could reach another one's memory, for tests and comparison
    ``symmetric_bytes_max``: bytes of addresses for :meth:`empty`; by default the machine's memory
    ``context``: a :class:`libsk.Context`, else the one that is there by itself

    Every call below waits until its buffers may be used again, without Python's lock, and for at
    most ``timeout`` seconds, its own or the communicator's. Ctrl-C aborts the communicator: this
    rank raises ``KeyboardInterrupt``, its peers ``AbortedError``. Other handlers of signals run
    while a call of the main thread waits (on a GPU: when it returns); one that raises ends it in
    the same way. One thread at a time may use a communicator, else ``BusyError``. An exception
    whose ``code`` is below 20 has changed nothing; behind another one the communicator may be over,
    as ``info()["over"]`` says.

    Inputs are NumPy arrays, anything with ``__dlpack__`` whose memory the CPU can reach (torch,
    JAX), or numbers. Row-major memory is used where it lies; any other layout is copied, and as
    ``out`` filled at the end. An ``out`` that is read-only, or whose elements share memory (a
    broadcast view), is refused.
    Element types are f32, f64, bf16, f16, i32 and i64; bf16 is ml_dtypes' in NumPy, or uint16 with
    ``dtype="bf16"``. Without ``out`` the result is a new array: torch's for torch, else NumPy's.
    ``out=x`` works in place, in whatever layout each rank has it. Symmetric memory is used as such
    where it is row-major, so all ranks give it in the same layout, or all give other memory.

    ``device="cuda:0"`` is a communicator on a GPU, which all ranks share as threads of this process
    (``bootstrap="threads"``). Its calls take arrays there, through DLPack, and enqueue: they return
    once every rank has called, and what comes on ``stream`` later waits for the result. ``stream``
    is torch's, an object with ``__cuda_stream__``, or a handle as a number; by default torch's
    current one for torch tensors, else CUDA's default stream. Nothing is copied there: row-major
    memory is due (rows of matrices may lie apart), and ``out``, except that torch
    tensors get a new one. What goes wrong on the GPU later calls raise, and :meth:`synchronize`.
    A torch tensor may be dropped after the call, as after torch's own operations; what other
    libraries export is held until :meth:`synchronize` or the end. A stream that was given must
    last as long.
    """

    def __init__(
        self,
        *,
        rank: SupportsIndex | None = None,
        world_size: SupportsIndex | None = None,
        bootstrap: str = "auto",
        name: str | None = None,
        device: Any = None,
        timeout: float | None = None,
        workers: SupportsIndex = 0,
        put_only: bool = False,
        symmetric_bytes_max: SupportsIndex = 0,
        context: Context | None = None,
        _cancel: _core.Cancel | None = None,
    ) -> None:
        if not isinstance(bootstrap, str) or bootstrap not in _BOOTSTRAPS:
            raise invalid(f'bootstrap is {shown(bootstrap)}; allowed is "auto", "env" or "threads"')
        if bootstrap == "threads":
            if rank is None or world_size is None:
                raise invalid('bootstrap="threads" needs rank and world_size')
        elif rank is not None or world_size is not None:
            raise invalid(
                f'rank and world_size come from the environment with bootstrap="{bootstrap}";'
                ' give them with bootstrap="threads" only'
            )
        self._device = device_of(device)
        self._context = context_of(context)
        self._handle = _core.create(
            self._context._handle,
            _BOOTSTRAPS[bootstrap],
            0 if rank is None else index_of(rank, "rank"),
            0
            if world_size is None
            else integer(world_size, "world_size", "how many ranks there are"),
            None if name is None else text_of(name, "name", "a text that all ranks share"),
            milliseconds(timeout),
            int(is_given(put_only, "put_only")),  # enum sk_comm_flag
            integer(workers, "workers", "a number of threads, or 0 for the default"),
            integer(
                symmetric_bytes_max, "symmetric_bytes_max", "bytes, or 0 for the default", end=2**63
            ),
            *self._device,
            _cancel,
        )
        self._learn()
        if bootstrap != "threads" and self._world_size > 1:
            for secret in JOB_SECRETS:
                os.environ.pop(secret, None)

    _device = CPU  # Until __init__ says otherwise.

    def _learn(self) -> None:
        info = self._handle.query()
        self._rank: int = info["rank"]
        self._world_size: int = info["world_size"]
        self._local_rank: int = info["local_rank"]

    @cached_property
    def _place(self) -> _place.Place:  # type: ignore[override]
        if not self._device.is_gpu:
            return _place.OnCpu()
        return _gpu.OnGpu(self._handle, self._device, self.world_size)

    @cached_property
    def _memory(self) -> _symmetric.Memory | _device_memory.Memory:
        if not self._device.is_gpu:
            return _symmetric.Memory(self._handle)
        return _device_memory.Memory(self._handle, self._place)  # type: ignore[arg-type]

    # ---- what this rank is ----

    @property
    def rank(self) -> int:
        """This rank's number, 0 to ``world_size - 1``."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._world_size

    @property
    def local_rank(self) -> int:
        """This rank's number among those of its host."""
        return self._local_rank

    @property
    def device(self) -> str:
        """Where calls run and operands lie: ``"cpu"``, or ``"cuda:0"``, as torch takes it too."""
        return str(self._device)

    def info(self) -> dict[str, int]:
        """What this rank is, by ``sk_comm_query()``.

        ``rank``, ``world_size``, ``local_rank``: as the properties
        ``local_size``: ranks on this host
        ``workers``: threads, or a GPU's blocks, that compute for this rank
        ``mapped``: 1 where all ranks reach each other's symmetric memory, else 0
        ``symmetric_bytes``: bytes that :meth:`empty` holds now
        ``calls``: collective calls finished; on a GPU: enqueued
        ``plans``: plans that are kept for calls to come
        ``over``: the status that ended the communicator, or 0
        """
        return self._handle.query()

    def __repr__(self) -> str:
        where = f" on {self.device}" if self._device.is_gpu else ""
        return f"<libsk.Comm: rank {self.rank} of {self.world_size}{where}>"

    def synchronize(self, *, stream: Any = None, timeout: float | None = None) -> None:
        """On a GPU: waits until this rank's calls are done, and raises what has become of them.

        With ``stream`` it waits for all work on that one. On the CPU calls are done when they
        return. Not collective.
        """
        self._place.synchronize(stream, milliseconds(timeout))

    # ---- weights and traces ----

    def pack(self, b: Any, *, transpose: bool = False, dtype: Any = None) -> _gemm.Packed:
        """Lays out weights for this CPU, or GPU, once, for many products. Not collective.

        ``b`` has shape (K, N), or (N, K) with ``transpose``, of f32, f64, bf16 or f16; it may be
        changed afterwards, for what comes of it is a copy. On a GPU that is work of the default
        stream, for which the call waits, and every communicator of that GPU takes it.
        """
        transpose = is_given(transpose, "transpose")
        call = self._place.begin(0 if self._device.is_gpu else None, (b,))
        return _gemm.pack(self._handle, call, b, transpose, dtype)

    def trace(self, *, event_count_max: SupportsIndex = 0) -> _trace.Trace:
        """Records this rank's tasks: ``with comm.trace() as trace: ...``, then ``trace.events``.

        At most ``event_count_max`` events (65,536 by default); later ones are dropped.
        """
        limit = integer(event_count_max, "event_count_max", "a number of events", end=2**63)
        gather = None if self._device.is_gpu else self.allgather
        return _trace.Trace(self._handle, limit, gather)

    # ---- plans and calls that are kept ----

    def parse_plan(self, text: str) -> _plan.Plan:
        """A plan of the text of :meth:`libsk.Plan.dump`, changed or not, for this communicator.

        The text must be valid, as :func:`libsk.check_plan` says, and made for such a world: as many
        ranks, not more workers. All ranks run the same plan, else they get ``DesyncError``. Making
        it needs no other rank. Not on a GPU.
        """
        return _plan.parse_plan(self._handle, self.world_size, self._place, text)

    def prepare(self, operation: str, *arguments: Any, **given: Any) -> _prepared.Prepared:
        """A call of one of the methods above, kept ready for loops that repeat it.

        ``operation`` is the method's name, ``"allreduce"``, and the rest its arguments, but for
        ``stream`` and ``timeout``::

            step = comm.prepare("allreduce", x, out=x)
            while ...:
                step.run()

        Each run takes what the arrays hold by then, in the memory that was theirs when the call was
        prepared. They are used where they lie and kept alive until ``close()``, so they are
        row-major, and none exports a copy of itself; without ``out`` the result is one new array,
        the same for all runs. Making it needs no other rank. Not on a GPU.

        What gives a tensor of torch other memory (``resize_()``, ``share_memory_()``, ``.data =
        ...``) makes later runs ``InvalidArgumentError``: prepare the call anew then.
        """
        return _prepared.prepare(self, operation, arguments, given)

    # ---- symmetric memory ----

    # Any: which of the two follows from the device, which is no part of this type.
    def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: Any = "f32") -> Any:
        """A NumPy array of zeros in symmetric memory, which peers reach without a copy.

        On a GPU a :class:`libsk.DeviceArray`, of which ``torch.from_dlpack()`` makes a tensor.
        ``shape`` is a number or several, with one element at least; ``dtype`` a name ("bf16"), or
        NumPy's or torch's type of that name.

        Collective: the same size on every rank. It lives until :meth:`free` or the communicator's
        end; dropping the array alone gives nothing back, for that would not be collective.
        """
        return self._memory.empty(shape_of(shape), _dtypes.of_any(dtype))

    # ---- the end ----

    def shrink(self, *, timeout: float | None = None) -> Comm:
        """A communicator of those ranks that are left, which go on without the others::

            try:
                total = comm.allreduce(x)
            except libsk.PeerLostError:
                left = comm.shrink()
                comm.free()
                comm = left

        Lost are ranks whose process has ended, who freed this communicator, or whose host fell
        silent; one that is lost by silence alone has some seconds to come all the same. Collective
        over all others, in whatever state this one is: it stays as it is, and is to be freed. Ranks
        are numbered anew in their order; all else is as this one was made. Where nobody is lost it
        is another one of the same ranks. Two of which one comes of the other are shrunk in the same
        order on all ranks, else ``DesyncError``.

        ``timeout``: seconds that the others are waited for at most, by default this communicator's.
            ``TimeoutError`` names those that are alive and did not come.

        Who dies meanwhile is left out, too. Ctrl-C aborts this communicator. Ranks must have been
        started by a launcher: threads, and a GPU's ranks, are refused. On several hosts they meet
        where rank 0 of the job is, without which it is ``UnsupportedError``.
        """
        left = object.__new__(Comm)
        left._device = self._device
        left._context = self._context
        left._handle = self._handle.shrink(self._context._handle, milliseconds(timeout))
        left._learn()
        return left

    def abort(self, reason: str = "") -> None:
        """Ends every rank's current and later calls with ``AbortedError``. Any thread may call.

        ``reason`` stands in the sentence that they get, its first 200 bytes. What is left to do
        with the communicator is :meth:`free`.
        """
        self._handle.abort(text_of(reason, "reason"))

    def free(self, array: np.ndarray | DeviceArray | None = None) -> None:
        """Without an argument: leaves the communicator, as the end of ``with`` does.

        That is not collective: ranks that still wait for this one get ``PeerLostError``.

        With an array of :meth:`empty`: gives its memory back, collectively, and leaves the array
        with no elements. Refused while other arrays look into that memory, or anything else but one
        name refers to the array: tensors and buffers made of it do, and a second name is no less.

        Memory that Python still can reach is never pulled away: while arrays of :meth:`empty` are
        alive, the communicator's end waits for the last of them. Calls are refused at once.

        ``TimeoutError`` says that other threads' calls, or a GPU's, have not ended within the
        communicator's timeout. Then it is as it was, and may be freed later.
        """
        if array is not None:
            held = [array]
            del array  # Else this call would count among those who refer to it.
            self._memory.free(held)
        else:
            self._leave()

    def _leave(self) -> None:
        if self._device.is_gpu:
            self._place.settle()
        self._handle.free()
        if self._device.is_gpu:
            self._place.end()

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *failure: object) -> None:
        self.free()


def comm(**config: Any) -> Comm:
    """Connects all ranks: :class:`Comm`, as a call, with the same arguments."""
    return Comm(**config)
