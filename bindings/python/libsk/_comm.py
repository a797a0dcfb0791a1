"""Communicators: the collectives of ``sk/op.h`` on arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk._checks import index_of, milliseconds, op_code, shape_of
from libsk._context import Context, default_context
from libsk._errors import invalid
from libsk._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np

    from libsk import _arrays, _dtypes, _gemm, _plan, _symmetric, _trace
else:
    _arrays = Lazy("libsk._arrays")
    _dtypes = Lazy("libsk._dtypes")
    _gemm = Lazy("libsk._gemm")
    _plan = Lazy("libsk._plan")
    _symmetric = Lazy("libsk._symmetric")
    _trace = Lazy("libsk._trace")

_BOOTSTRAPS = {"auto": 0, "env": 1, "threads": 2}


class Comm:
    """A fixed set of ranks that call the same things in the same order.

    Without arguments the ranks find each other by the launcher's environment (``RANK``,
    ``WORLD_SIZE``, ``MASTER_ADDR``, ``MASTER_PORT``); where it is not set this is a world of one.
    ``bootstrap="threads"`` connects threads of this process that give the same ``name``.

    Every call below waits until its buffers may be used again, without Python's lock, and for at
    most ``timeout`` seconds (300 by default). Ctrl-C aborts the communicator: this rank raises
    ``KeyboardInterrupt``, its peers ``AbortedError``. One thread at a time may use a communicator.

    Inputs are NumPy arrays, anything with ``__dlpack__`` whose memory the CPU can reach (torch,
    JAX), or numbers. Contiguous memory is used where it lies; what is not contiguous is copied.
    Element types are f32, f64, bf16, f16, i32 and i64; bf16 is ml_dtypes' in NumPy, or uint16 with
    ``dtype="bf16"``. Without ``out`` the result is a new array: torch's for torch, else NumPy's.
    ``out=x`` works in place.
    """

    def __init__(
        self,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        bootstrap: str = "auto",
        name: str | None = None,
        timeout: float | None = None,
        workers: int = 0,
        put_only: bool = False,
        symmetric_bytes_max: int = 0,
        context: Context | None = None,
        _cancel: _core.Cancel | None = None,
    ) -> None:
        if bootstrap not in _BOOTSTRAPS:
            raise invalid(f'bootstrap is {bootstrap!r}; allowed is "auto", "env" or "threads"')
        if bootstrap == "threads":
            if rank is None or world_size is None:
                raise invalid('bootstrap="threads" needs rank and world_size')
        elif rank is not None or world_size is not None:
            raise invalid(
                f'rank and world_size come from the environment with bootstrap="{bootstrap}";'
                ' give them with bootstrap="threads" only'
            )
        self._context = context or default_context()
        self._handle = _core.create(
            self._context._handle,
            _BOOTSTRAPS[bootstrap],
            rank or 0,
            world_size or 0,
            name,
            milliseconds(timeout),
            int(put_only),  # enum sk_comm_flag
            workers,
            symmetric_bytes_max,
            _cancel,
        )
        info = self._handle.query()
        self._rank: int = info["rank"]
        self._world_size: int = info["world_size"]
        self._local_rank: int = info["local_rank"]

    @cached_property
    def _memory(self) -> _symmetric.Memory:
        return _symmetric.Memory(self._handle)

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

    def info(self) -> dict[str, int]:
        """``sk_comm_query()``: rank, world_size, local_rank, local_size, workers, mapped,
        symmetric_bytes, calls, plans, over (the status that ended it, or 0)."""
        return self._handle.query()

    def __repr__(self) -> str:
        return f"<libsk.Comm: rank {self.rank} of {self.world_size}>"

    # ---- collectives ----

    def barrier(self, *, timeout: float | None = None) -> None:
        """Returns once every rank has called it."""
        self._handle.barrier(milliseconds(timeout))

    def allreduce(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """``op`` over all ranks' ``x``, element by element; the same bits on every rank.

        ``x`` may have any shape, the same on every rank; the result has it too. Ranks compare
        counts and types, not shapes: (2, 3) and (3, 2) are added in memory order. ``op`` is "sum",
        "prod", "min", "max" or "avg" (floating types only).
        """
        source = _arrays.operand(x, "x", dtype).contiguous()
        result = _arrays.output(out, x, source.code, source.shape)
        self._handle.allreduce(
            source.address,
            result.operand.address,
            source.count,
            source.code,
            op_code(op),
            milliseconds(timeout),
        )
        return result.finish()

    def allgather(
        self, x: Any, out: Any = None, *, dtype: Any = None, timeout: float | None = None
    ) -> Any:
        """Every rank's ``x``, one behind the other: ``x`` of shape S gives (world_size, *S)."""
        source = _arrays.operand(x, "x", dtype).contiguous()
        result = _arrays.output(out, x, source.code, (self.world_size, *source.shape))
        self._handle.allgather(
            source.address,
            result.operand.address,
            source.count,
            source.code,
            milliseconds(timeout),
        )
        return result.finish()

    def reduce_scatter(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """This rank's share of ``op`` over all ranks' ``x``.

        ``x`` has shape (world_size * n, *S): rank r gets rows r * n to (r + 1) * n, shape (n, *S).
        """
        source = _arrays.operand(x, "x", dtype).contiguous()
        if not source.shape or source.shape[0] % self.world_size:
            raise invalid(
                f"x has shape {source.shape}; its first dimension must be a multiple of the"
                f" {self.world_size} ranks"
            )
        shape = (source.shape[0] // self.world_size, *source.shape[1:])
        result = _arrays.output(out, x, source.code, shape)
        self._handle.reduce_scatter(
            source.address,
            result.operand.address,
            math.prod(shape),
            source.code,
            op_code(op),
            milliseconds(timeout),
        )
        return result.finish()

    def broadcast(
        self,
        x: Any,
        root: int = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """The root's ``x``, on every rank.

        On the other ranks ``x`` only says shape and type; pass ``out=x`` to have it overwritten.
        """
        source = _arrays.operand(x, "x", dtype).contiguous()
        result = _arrays.output(out, x, source.code, source.shape)
        self._handle.broadcast(
            source.address,
            result.operand.address,
            source.count,
            source.code,
            index_of(root, "root"),
            milliseconds(timeout),
        )
        return result.finish()

    def send(self, x: Any, peer: int, *, dtype: Any = None, timeout: float | None = None) -> None:
        """Sends ``x`` to ``peer``, which calls :meth:`recv`; only these two ranks call.

        Waits until ``peer`` receives, for nothing is buffered: two ranks that send to each other
        first wait for ever, so in a ring let even ranks send first and odd ranks receive first.
        Count and type must match on both sides.
        """
        source = _arrays.operand(x, "x", dtype).contiguous()
        self._handle.send(
            source.address,
            source.count,
            source.code,
            index_of(peer, "peer"),
            milliseconds(timeout),
        )

    def recv(
        self,
        out: Any = None,
        peer: int | None = None,
        *,
        shape: int | Sequence[int] | None = None,
        dtype: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """What ``peer`` sends: into ``out``, or into a new NumPy array of ``shape`` and ``dtype``.

        ``comm.recv(buffer, 1)`` or ``comm.recv(peer=1, shape=(3, 4), dtype="f32")``.
        """
        if peer is None:
            raise invalid("peer is missing; say which rank sends")
        if out is None:
            if shape is None or dtype is None:
                raise invalid("give recv() either out, or both shape and dtype")
            result = _arrays.output(None, None, _dtypes.of_any(dtype), shape_of(shape))
        elif shape is not None:
            raise invalid("give recv() either out or shape, not both")
        else:
            target = _arrays.operand(out, "out", dtype)
            result = _arrays.output(out, out, target.code, target.shape)
        memory = result.operand
        self._handle.recv(
            memory.address,
            memory.count,
            memory.code,
            index_of(peer, "peer"),
            milliseconds(timeout),
        )
        return result.finish()

    # ---- GEMM fused with all-reduce ----

    def pack(self, b: Any, *, transpose: bool = False, dtype: Any = None) -> _gemm.Packed:
        """Lays out weights for this CPU once, for many products. Not collective.

        ``b`` has shape (K, N), or (N, K) with ``transpose``; it may be changed afterwards.
        """
        return _gemm.pack(self._handle, b, transpose, dtype)

    def allreduce_gemm(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out_dtype: Any = None,
        dtype: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """``a @ b`` summed over all ranks, on every rank; product and all-reduce overlap.

        ``a`` is (M, K), or (K, M) with ``transpose_a``; ``b`` is (K, N), or (N, K) with
        ``transpose_b``, or what :meth:`pack` made of it. Types are f32, f64, bf16 or f16; the
        result, (M, N), has the same, or f32 with ``out_dtype="f32"``. Rows may lie apart, and
        transposed views (``w.T``) are taken as they are; any other layout is copied.
        """
        return _gemm.allreduce_gemm(
            self._handle,
            a,
            b,
            out,
            transpose_a,
            transpose_b,
            out_dtype,
            dtype,
            milliseconds(timeout),
        )

    # ---- plans and traces ----

    def plan(
        self,
        kind: str,
        *,
        dtype: Any = "f32",
        count: int = 0,
        op: str = "sum",
        root: int = 0,
        peer: int = 0,
        m: int = 0,
        n: int = 0,
        k: int = 0,
        out_dtype: Any = None,
        symmetric_in: bool = False,
        symmetric_out: bool = False,
        in_place: bool = False,
    ) -> _plan.Plan:
        """A validated plan, made once and run many times.

        ``kind`` is "barrier", "allreduce", "allgather", "reduce_scatter", "broadcast",
        "send_recv" (``root`` sends, ``peer`` receives) or "allreduce_gemm" (with m, n, k).
        ``count`` is elements, as in the C call. Making one needs no other rank.
        """
        return _plan.make_plan(
            self,
            kind,
            _dtypes.of_any(dtype),
            0 if out_dtype is None else _dtypes.of_any(out_dtype, "out_dtype"),
            op_code(op),
            root,
            peer,
            (symmetric_in, symmetric_out, in_place),
            (count, m, n, k),
        )

    def trace(self, *, event_count_max: int = 0) -> _trace.Trace:
        """Records this rank's tasks: ``with comm.trace() as trace: ...``, then ``trace.events``.

        At most ``event_count_max`` events (65,536 by default); later ones are dropped.
        """
        return _trace.Trace(self, event_count_max)

    # ---- symmetric memory ----

    def empty(self, shape: int | Sequence[int], dtype: Any = "f32") -> np.ndarray:
        """A NumPy array of zeros in symmetric memory, which peers reach without a copy.

        Collective: the same size on every rank. It lives until :meth:`free` or the communicator's
        end; dropping the array alone gives nothing back, for that would not be collective.
        """
        return self._memory.empty(shape_of(shape), _dtypes.of_any(dtype))

    # ---- the end ----

    def abort(self, reason: str = "") -> None:
        """Ends every rank's current and later calls with ``AbortedError``. Any thread may call."""
        self._handle.abort(reason)

    def free(self, array: np.ndarray | None = None) -> None:
        """Without an argument: leaves the communicator. Not collective.

        With an array of :meth:`empty`: gives its memory back, collectively, and leaves the array
        with no elements. Refused while other arrays look into that memory.

        Memory that Python still can reach is never pulled away: while arrays of :meth:`empty` are
        alive, the communicator's end waits for the last of them. Calls are refused at once.
        """
        if array is not None:
            self._memory.free(array)
        else:
            self._handle.free()

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *failure: object) -> None:
        self.free()


def comm(**config: Any) -> Comm:
    """Connects all ranks: :class:`Comm`, as a call."""
    return Comm(**config)
