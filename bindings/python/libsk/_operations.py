"""What ranks do with arrays: the operations of ``sk/op.h``, as methods of :class:`libsk.Comm`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from libsk import _core
from libsk._checks import index_of, is_given, milliseconds, op_code, shape_of
from libsk._errors import invalid
from libsk._lazy import Lazy

if TYPE_CHECKING:
    from libsk import _dtypes, _gemm, _outputs, _place
    from libsk._device import Device
else:
    _dtypes = Lazy("libsk._dtypes")
    _gemm = Lazy("libsk._gemm")
    _outputs = Lazy("libsk._outputs")


class Operations:
    """The part of a communicator that has no state of its own."""

    _handle: _core.Comm
    _device: Device
    _place: _place.Place

    if TYPE_CHECKING:

        @property
        def rank(self) -> int: ...
        @property
        def world_size(self) -> int: ...

    # ---- collectives ----

    def barrier(self, *, stream: Any = None, timeout: float | None = None) -> None:
        """Returns once every rank has called it.

        On a GPU what the ranks enqueue behind it waits, too, for all they had enqueued before it.
        """
        # Without arrays there is no need to load what looks at them.
        if stream is None and not self._device.is_gpu:
            return self._handle.barrier(0, milliseconds(timeout))
        call = self._place.begin(stream)
        return call.run(self._handle.barrier, call.stream, milliseconds(timeout))

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
        """``op`` over all ranks' ``x``, element by element; the same bits on every rank.

        ``x`` may have any shape, the same on every rank; the result has it too. Ranks compare
        counts and types, not shapes: (2, 3) and (3, 2) are added in memory order. ``op`` is "sum",
        "prod", "min", "max" or "avg" (floating types only).
        """
        if dtype is None and stream is None and timeout is None:
            quick = self._handle.try_allreduce(x, op, out)
            if quick is not None:
                return quick
        call = self._place.begin(stream, (x, out))
        source = call.row_major(x, "x", dtype)
        result = call.output(out, x, source.code, source.shape, source)
        call.run(
            self._handle.allreduce,
            source.span,
            result.operand.span,
            source.count,
            source.code,
            op_code(op),
            call.stream,
            milliseconds(timeout),
        )
        return result.finish()

    def allgather(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """Every rank's ``x``, one behind the other: ``x`` of shape S gives (world_size, *S)."""
        if dtype is None and stream is None and timeout is None:
            quick = self._handle.try_allgather(x, out)
            if quick is not None:
                return quick
        call = self._place.begin(stream, (x, out))
        source = call.row_major(x, "x", dtype)
        result = call.output(out, x, source.code, (self.world_size, *source.shape))
        call.run(
            self._handle.allgather,
            _outputs.gathered(source, result, self.rank).span,
            result.operand.span,
            source.count,
            source.code,
            call.stream,
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
        stream: Any = None,
        timeout: float | None = None,
    ) -> Any:
        """This rank's share of ``op`` over all ranks' ``x``.

        ``x`` has shape (world_size * n, *S): rank r gets rows r * n to (r + 1) * n, shape (n, *S).
        """
        if dtype is None and stream is None and timeout is None:
            quick = self._handle.try_reduce_scatter(x, op, out)
            if quick is not None:
                return quick
        call = self._place.begin(stream, (x, out))
        source = call.row_major(x, "x", dtype)
        if not source.shape or source.shape[0] % self.world_size:
            raise invalid(
                f"x has shape {source.shape}; its first dimension must be a multiple of the"
                f" {self.world_size} ranks"
            )
        shape = (source.shape[0] // self.world_size, *source.shape[1:])
        result = call.output(out, x, source.code, shape)
        result = _outputs.scattered(source, result, self.rank)
        call.run(
            self._handle.reduce_scatter,
            source.span,
            result.operand.span,
            math.prod(shape),
            source.code,
            op_code(op),
            call.stream,
            milliseconds(timeout),
        )
        return result.finish()

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
        """The root's ``x``, on every rank.

        On the other ranks ``x`` only says shape and type; pass ``out=x`` to have it overwritten.
        """
        if dtype is None and stream is None and timeout is None:
            quick = self._handle.try_broadcast(x, root, out)
            if quick is not None:
                return quick
        call = self._place.begin(stream, (x, out))
        source = call.row_major(x, "x", dtype)
        result = call.output(out, x, source.code, source.shape, source)
        call.run(
            self._handle.broadcast,
            source.span,
            result.operand.span,
            source.count,
            source.code,
            index_of(root, "root"),
            call.stream,
            milliseconds(timeout),
        )
        return result.finish()

    def send(
        self,
        x: Any,
        peer: SupportsIndex,
        *,
        dtype: Any = None,
        stream: Any = None,
        timeout: float | None = None,
    ) -> None:
        """Sends ``x`` to ``peer``, which calls :meth:`recv`; only these two ranks call.

        Waits until ``peer`` receives, for nothing is buffered. Two ranks that send to each other
        both raise ``DesyncError`` at once; a ring in which all send first waits until ``timeout``,
        and ends: let even ranks send first and odd ranks receive first. Count and type must match
        on both sides.
        """
        is_plain = dtype is None and stream is None and timeout is None
        if is_plain and self._handle.try_send(x, peer):
            return
        call = self._place.begin(stream, (x,))
        source = call.row_major(x, "x", dtype)
        call.run(
            self._handle.send,
            source.span,
            source.count,
            source.code,
            index_of(peer, "peer"),
            call.stream,
            milliseconds(timeout),
        )

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
        """What ``peer`` sends: into ``out``, or into a new NumPy array of ``shape`` and ``dtype``.

        ``comm.recv(buffer, 1)`` or ``comm.recv(peer=1, shape=(3, 4), dtype="f32")``.
        """
        is_plain = shape is None and dtype is None and stream is None and timeout is None
        if is_plain and self._handle.try_recv(out, peer):
            return out
        if peer is None:
            raise invalid("peer is missing; say which rank sends")
        call = self._place.begin(stream, (out,))
        if out is None:
            if shape is None or dtype is None:
                raise invalid("give recv() either out, or both shape and dtype")
            result = call.output(None, None, _dtypes.of_any(dtype), shape_of(shape))
        elif shape is not None:
            raise invalid("give recv() either out or shape, not both")
        else:
            target = call.operand(out, "out", dtype)
            result = call.output(out, out, target.code, target.shape)
        memory = result.operand
        call.run(
            self._handle.recv,
            memory.span,
            memory.count,
            memory.code,
            index_of(peer, "peer"),
            call.stream,
            milliseconds(timeout),
        )
        return result.finish()

    # ---- GEMM fused with all-reduce or all-gather ----

    def pack(self, b: Any, *, transpose: bool = False, dtype: Any = None) -> _gemm.Packed:
        """Lays out weights for this CPU, or GPU, once, for many products. Not collective.

        ``b`` has shape (K, N), or (N, K) with ``transpose``; it may be changed afterwards. On a GPU
        that is work of the default stream, for which the call waits.
        """
        transpose = is_given(transpose, "transpose")
        call = self._place.begin(0 if self._device.is_gpu else None, (b,))
        return _gemm.pack(self._handle, call, b, transpose, dtype)

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
        """``a @ b`` summed over all ranks, on every rank; product and all-reduce overlap.

        ``a`` is (M, K), or (K, M) with ``transpose_a``; ``b`` is (K, N), or (N, K) with
        ``transpose_b``, or what :meth:`pack` made of it. Types are f32, f64, bf16 or f16; the
        result, (M, N), has the same, or f32 with ``out_dtype="f32"``. Rows may lie apart, and
        transposed views (``w.T``) are taken as they are; any other layout is copied. How far rows
        lie apart, what is transposed and whether ``b`` is packed is the same on every rank.
        """
        return _gemm.multiply(
            _core.allreduce_gemm,
            1,
            self._handle,
            self._place.begin(stream, (a, b, out)),
            a,
            b,
            out,
            transpose_a is not False and is_given(transpose_a, "transpose_a"),
            transpose_b is not False and is_given(transpose_b, "transpose_b"),
            out_dtype,
            dtype,
            milliseconds(timeout),
        )

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
        """All ranks' ``a``, one below the other, times this rank's ``b``; both overlap.

        ``a`` is (M, K) and ``b`` (K, N), each rank its own; the result is (world_size * M, N), and
        rank r's rows begin at r * M. All else is as in :meth:`allreduce_gemm`. Where ``a`` lies in
        symmetric memory peers read it there.
        """
        return _gemm.multiply(
            _core.allgather_gemm,
            self.world_size,
            self._handle,
            self._place.begin(stream, (a, b, out)),
            a,
            b,
            out,
            transpose_a is not False and is_given(transpose_a, "transpose_a"),
            transpose_b is not False and is_given(transpose_b, "transpose_b"),
            out_dtype,
            dtype,
            milliseconds(timeout),
        )
