"""What ranks do with arrays, as methods of :class:`libsk.Comm`.

Written by tools/make_python_ops.py from the library's schemas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from libsk._checks import milliseconds
from libsk._collective import Giving, Matrices, Meeting, Taking, Vectors
from libsk._lazy import Lazy

if TYPE_CHECKING:
    from libsk import _core, _place, _plan
    from libsk._device import Device
    from libsk._types import ArrayT
else:
    _plan = Lazy("libsk._plan")

_barrier = Meeting("barrier")
_allreduce = Vectors("allreduce")
_allgather = Vectors("allgather")
_reduce_scatter = Vectors("reduce_scatter")
_broadcast = Vectors("broadcast")
_send = Giving("send_recv", "send")
_recv = Taking("send_recv", "recv")
_alltoall = Vectors("alltoall")
_reduce = Vectors("reduce")
_gather = Vectors("gather")
_scatter = Vectors("scatter")
_allreduce_gemm = Matrices("allreduce_gemm")
_allgather_gemm = Matrices("allgather_gemm")

METHODS = (
    "barrier",
    "allreduce",
    "allgather",
    "reduce_scatter",
    "broadcast",
    "send",
    "recv",
    "alltoall",
    "reduce",
    "gather",
    "scatter",
    "allreduce_gemm",
    "allgather_gemm",
)
"""Of the class below, those that are operations."""


class Collectives:
    """The part of a communicator that has no state of its own."""

    _handle: _core.Comm
    _device: Device
    _place: _place.Place

    if TYPE_CHECKING:

        @property
        def rank(self) -> int: ...
        @property
        def world_size(self) -> int: ...

    def barrier(self, *, stream: Any = None, timeout: float | None = None) -> None:
        """Returns once every rank has called it.

        On a GPU what the ranks enqueue behind it waits, too, for all that they had enqueued before
        it.
        """
        if stream is None and not self._device.is_gpu:
            return _barrier.core.meet(self._handle, 0, milliseconds(timeout))
        return _barrier.call(self, stream, timeout)

    @overload
    def allreduce(
        self,
        x: ArrayT,
        op: str = "sum",
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def allreduce(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def allreduce(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[i] = op over ranks of x[i], on every rank.

        The result has the same bits on all of them. Ranks compare counts and types, not shapes:
        elements are joined in the order in which they lie.

        ``x``: an array of any shape, the same on every rank, of any type
        ``op``: "sum", "prod", "min", "max" or "avg"; how elements are joined; averages are for
            floating types
        ``out``: where the result goes, shaped as x, may be x, else it is new
        """
        if dtype is None and stream is None and timeout is None:
            quick = _allreduce.core.run(self._handle, x, out, op)
            if quick is not None:
                return quick
        return _allreduce.call(self, x, out, (op,), dtype, stream, timeout)

    @overload
    def allgather(
        self,
        x: ArrayT,
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def allgather(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def allgather(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[r * count + i] = x[i] of rank r, on every rank.

        ``x``: an array of any shape, the same on every rank, of any type
        ``out``: where the result goes, (world_size, *S) for an x of shape S, x may be this rank's
            part of it, else it is new
        """
        if dtype is None and stream is None and timeout is None:
            quick = _allgather.core.run(self._handle, x, out, None)
            if quick is not None:
                return quick
        return _allgather.call(self, x, out, (), dtype, stream, timeout)

    @overload
    def reduce_scatter(
        self,
        x: ArrayT,
        op: str = "sum",
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def reduce_scatter(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def reduce_scatter(
        self,
        x: Any,
        op: str = "sum",
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[i] = op over ranks of x[rank * count + i].

        ``x``: shape (world_size * n, *S): rank r's part is rows r * n to (r + 1) * n, of any type
        ``op``: "sum", "prod", "min", "max" or "avg"; how elements are joined; averages are for
            floating types
        ``out``: where the result goes, (n, *S), may be this rank's part of x, else it is new
        """
        if dtype is None and stream is None and timeout is None:
            quick = _reduce_scatter.core.run(self._handle, x, out, op)
            if quick is not None:
                return quick
        return _reduce_scatter.call(self, x, out, (op,), dtype, stream, timeout)

    @overload
    def broadcast(
        self,
        x: ArrayT,
        root: SupportsIndex = 0,
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def broadcast(
        self,
        x: Any,
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def broadcast(
        self,
        x: Any,
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[i] = x[i] of rank root, on every rank.

        ``x``: an array of any shape, the same on every rank, of any type, read on rank ``root``, on
            others it only says shape and type
        ``root``: the number of a rank; whose elements all get
        ``out``: where the result goes, shaped as x, may be x, else it is new
        """
        if dtype is None and stream is None and timeout is None:
            quick = _broadcast.core.run(self._handle, x, out, root)
            if quick is not None:
                return quick
        return _broadcast.call(self, x, out, (root,), dtype, stream, timeout)

    def send(
        self,
        x: Any,
        peer: SupportsIndex,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> None:
        """out[i] of the receiver = x[i] of the sender.

        Only these two call. The sender waits until the other one receives, for nothing is buffered.
        Two that send to each other are both refused at once (``DesyncError``); a ring in which all
        send first waits until the timeout, and ends: let even ranks send first and odd ranks
        receive first. Counts and types must match on both sides.

        ``x``: an array of any shape, of any type
        ``peer``: the number of the rank that calls :meth:`recv`
        """
        is_plain = dtype is None and stream is None and timeout is None
        if is_plain and _send.core.run(self._handle, x, None, peer) is not None:
            return
        _send.call(self, x, peer, dtype, stream, timeout)

    def recv(
        self,
        out: Any = None,
        peer: SupportsIndex | None = None,
        *,
        shape: SupportsIndex | Sequence[SupportsIndex] | None = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """What ``peer`` gives to :meth:`send`: into ``out``, or into a new NumPy array of ``shape``
        and ``dtype``.

        ``comm.recv(buffer, 1)`` or ``comm.recv(peer=1, shape=(3, 4), dtype="f32")``.

        ``out``: an array of any shape, of any type, with as many elements as are sent
        ``peer``: the number of the rank that calls :meth:`send`; it must be given
        ``shape``: of a new array, in place of ``out``; then ``dtype`` is due as well
        """
        is_plain = shape is None and dtype is None and stream is None and timeout is None
        if is_plain and _recv.core.run(self._handle, None, out, peer) is not None:
            return out
        return _recv.call(self, out, peer, shape, dtype, stream, timeout)

    @overload
    def alltoall(
        self,
        x: ArrayT,
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def alltoall(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def alltoall(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[r * count + i] = x[rank * count + i] of rank r: each rank has a part for each.

        ``x``: shape (world_size * n, *S): rank r's part is rows r * n to (r + 1) * n, of any type
        ``out``: where the result goes, shaped as x, else it is new
        """
        if dtype is None and stream is None and timeout is None:
            quick = _alltoall.core.run(self._handle, x, out, None)
            if quick is not None:
                return quick
        return _alltoall.call(self, x, out, (), dtype, stream, timeout)

    def reduce(
        self,
        x: Any,
        op: str = "sum",
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[i] of rank root = op over ranks of x[i], in the order of ranks.

        ``x``: an array of any shape, the same on every rank, of any type
        ``op``: "sum", "prod", "min", "max" or "avg"; how elements are joined; averages are for
            floating types
        ``root``: the number of a rank; who gets it
        ``out``: where the result goes, shaped as x, else it is new; on rank ``root`` alone: others
            get None
        """
        return _reduce.call(self, x, out, (op, root), dtype, stream, timeout)

    def gather(
        self,
        x: Any,
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[r * count + i] of rank root = x[i] of rank r.

        ``x``: an array of any shape, the same on every rank, of any type
        ``root``: the number of a rank; who gets all
        ``out``: where the result goes, (world_size, *S) for an x of shape S, else it is new; on
            rank ``root`` alone: others get None
        """
        return _gather.call(self, x, out, (root,), dtype, stream, timeout)

    @overload
    def scatter(
        self,
        x: ArrayT,
        root: SupportsIndex = 0,
        out: ArrayT | None = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def scatter(
        self,
        x: Any,
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def scatter(
        self,
        x: Any,
        root: SupportsIndex = 0,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """out[i] = x[rank * count + i] of rank root.

        ``x``: shape (world_size * n, *S): rank r's part is rows r * n to (r + 1) * n, of any type,
            read on rank ``root``, on others it only says shape and type, and may be None where
            there is an ``out``
        ``root``: the number of a rank; whose elements they are
        ``out``: where the result goes, (n, *S), else it is new
        """
        return _scatter.call(self, x, out, (root,), dtype, stream, timeout)

    @overload
    def allreduce_gemm(
        self,
        a: ArrayT,
        b: Any,
        out: ArrayT | None = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out_dtype: None = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
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
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
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
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """c = the sum over ranks of a * b, on every rank: a product, then an all-reduce,
        overlapped.

        ``a``: shape (m, k), or (k, m) with ``transpose_a``, f32, f64, bf16 or f16, laid out, turned
            and packed alike on every rank
        ``b``: shape (k, n), or (n, k) with ``transpose_b``, or what :meth:`pack` made of it, of a's
            type, laid out, turned and packed alike on every rank
        ``out``: where the result goes, (m, n), of a's type or f32, else new, by ``out_dtype``

        Rows may lie apart, and transposed views (``w.T``) are taken as they are; any other layout
        is copied.
        """
        return _allreduce_gemm.call(
            self, stream, (a, b), (transpose_a, transpose_b), out, out_dtype, dtype, timeout
        )

    @overload
    def allgather_gemm(
        self,
        a: ArrayT,
        b: Any,
        out: ArrayT | None = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out_dtype: None = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> ArrayT: ...
    @overload
    def allgather_gemm(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out_dtype: Any = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any: ...
    def allgather_gemm(
        self,
        a: Any,
        b: Any,
        out: Any = None,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        out_dtype: Any = None,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """c = the ranks' a, one below the other, times the own b: tiles begin as shards arrive, the
        own first.

        ``a``: shape (m, k), or (k, m) with ``transpose_a``, f32, f64, bf16 or f16, laid out, turned
            and packed alike on every rank, peers read it there where it is symmetric memory
        ``b``: shape (k, n), or (n, k) with ``transpose_b``, or what :meth:`pack` made of it, of a's
            type, laid out, turned and packed alike on every rank
        ``out``: where the result goes, (world_size * m, n), of a's type or f32, else new, by
            ``out_dtype``

        Rows may lie apart, and transposed views (``w.T``) are taken as they are; any other layout
        is copied.
        """
        return _allgather_gemm.call(
            self, stream, (a, b), (transpose_a, transpose_b), out, out_dtype, dtype, timeout
        )

    def plan(
        self,
        kind: str,
        *,
        dtype: Any = None,
        count: SupportsIndex = 0,
        op: str | None = None,
        root: SupportsIndex = 0,
        peer: SupportsIndex = 0,
        m: SupportsIndex = 0,
        n: SupportsIndex = 0,
        k: SupportsIndex = 0,
        out_dtype: Any = None,
        symmetric_in: bool = False,
        symmetric_out: bool = False,
        in_place: bool = False,
    ) -> _plan.Plan:
        """A validated plan, made once and run many times.

        ``kind`` is one of "barrier", "allreduce", "allgather", "reduce_scatter", "broadcast",
        "send_recv", "alltoall", "reduce", "gather", "scatter", "allreduce_gemm", "allgather_gemm".
        Of a pair ``root`` gives and ``peer`` takes. ``count`` is elements of one rank's part; m, n
        and k are those of a product. ``dtype`` is "f32" and ``op`` "sum" where the kind has one and
        none is given. What it has not is refused. Making a plan needs no other rank.
        """
        return _plan.make_plan(
            self._handle,
            self.world_size,
            self._place,
            kind,
            dtype,
            out_dtype,
            {"count": count, "op": op, "root": root, "peer": peer, "m": m, "n": n, "k": k},
            {"symmetric_in": symmetric_in, "symmetric_out": symmetric_out, "in_place": in_place},
        )
