"""The cases of fuzz_layouts.py: one collective call each, on operands of random layouts.

All ranks draw what a call is from one seed, and each draws its own layouts. Values are small whole
numbers, whose sums and products every element type holds exactly: so results are compared for
equality, with sums in double precision.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import libsk as sk
import numpy as np
from exporter import BFLOAT, FLOAT, Exporter
from guarded import PATTERN, Guarded
from oracle import DTYPES, FLOATS

_SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 16, 33)
_REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max, "avg": np.mean}
OPERATIONS = (
    *("allreduce", "allgather", "reduce_scatter", "broadcast", "send_recv"),
    *("allreduce_gemm", "allgather_gemm", "pack"),
)
PRODUCTS = ("allreduce_gemm", "allgather_gemm", "pack")


@dataclasses.dataclass(frozen=True)
class Case:
    """What all ranks call."""

    seed: int
    index: int
    world_size: int
    operation: str
    dtype: str
    shape: tuple[int, ...]
    op: str
    root: int
    by_plan: bool
    transposes: tuple[bool, bool]
    out_dtype: str | None
    equal_rows: bool  # Then an operand may be a view that repeats one row.
    in_place: bool
    symmetric: bool  # Operands lie in memory of comm.empty(), at the same places on all ranks.

    def rng(self, *parts: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.index, *parts])

    def values(self, rank: int, part: int = 0, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """Those of one rank's operand."""
        shape = self.shape if shape is None else shape
        high = 1 if self.operation in PRODUCTS else 2
        drawn = self.rng(1, rank, part).integers(-high, high + 1, shape).astype(np.float64)
        if self.equal_rows and drawn.ndim and drawn.shape[0] > 1:
            drawn[:] = drawn[:1]
        return drawn * (self.world_size if self.op == "avg" else 1)

    def reduced(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Over ranks, as the operation wants it."""
        return np.asarray(_REDUCTIONS[self.op](np.stack(parts), axis=0))


def draw(seed: int, index: int, world_size: int) -> Case:
    """The case of that number."""
    rng = np.random.default_rng([seed, index, 0])
    operation = str(rng.choice(OPERATIONS))
    product = operation in PRODUCTS
    dtype = str(rng.choice(FLOATS if product else list(DTYPES)))
    if product:
        shape = tuple(int(rng.choice([1, 2, 5, 16, 17, 32, 33, 48, 60])) for _ in range(3))
    elif rng.random() < 0.1:
        shape = (int(rng.integers(1000, 40_000)),)
    else:
        shape = tuple(int(rng.choice(_SIZES)) for _ in range(rng.integers(0, 4)))
    if operation == "reduce_scatter":
        shape = (shape[0] * world_size if shape else world_size, *shape[1:])
    ops = [op for op in _REDUCTIONS if op != "avg" or dtype in FLOATS]
    return Case(
        seed=seed,
        index=index,
        world_size=world_size,
        operation=operation,
        dtype=dtype,
        shape=shape,
        op=str(rng.choice(ops)) if operation in ("allreduce", "reduce_scatter") else "sum",
        root=int(rng.integers(world_size)),
        by_plan=(by_plan := bool(rng.random() < 0.25)),
        transposes=(bool(rng.random() < 0.3), bool(rng.random() < 0.3)),
        out_dtype="f32" if product and dtype in ("bf16", "f16") and rng.random() < 0.5 else None,
        equal_rows=bool(rng.random() < 0.2),
        symmetric=not by_plan and rng.random() < 0.15,
        in_place=operation in ("allreduce", "broadcast") and not by_plan and rng.random() < 0.2,
    )


class Operands:
    """One rank's arrays of one case, and what must still hold after it."""

    def __init__(
        self, case: Case, rng: np.random.Generator, pool: np.ndarray | None = None
    ) -> None:
        self.case = case
        self.rng = rng
        self._pool = pool if case.symmetric else None
        """Bytes of symmetric memory."""
        self._pool_taken: list[slice] = []
        if self._pool is not None:
            self._pool[:] = PATTERN
        # Ranks must agree on what is in place, what is symmetric, and on the layouts of a product.
        is_agreed = case.in_place or case.symmetric or _is_product(case)
        self._layout = case.rng(3) if is_agreed else rng
        self.bits = case.dtype == "bf16" and bool(rng.random() < 0.4)
        """Whether NumPy's arrays of bf16 are uint16 here, and the call says dtype="bf16"."""
        self._guards: list[Guarded] = []
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._written: list[np.ndarray] = []
        self.described: list[str] = []

    @property
    def dtype(self) -> str | None:
        """The argument of that name."""
        return "bf16" if self.bits else None

    def given(self, values: np.ndarray, dtype: str, as_drawn: bool = True) -> Any:
        """An operand of these values that the call only reads."""
        repeats = self.case.equal_rows and as_drawn and values.ndim > 0 and values.shape[0] > 1
        if repeats and not self.case.in_place and self._layout.random() < 0.5:
            row = self._laid_out(values.shape[1:], dtype)
            _fill(row, values[0])
            self._kept.append((row, row.copy()))
            return self._wrapped(np.broadcast_to(row, values.shape), dtype, read_only=True)
        array = self._laid_out(values.shape, dtype)
        _fill(array, values)
        if self.case.in_place:
            self._written.append(array)
            return array
        self._kept.append((array, array.copy()))
        if self.rng.random() < 0.1:
            array = array.view()
            array.flags.writeable = False
            return self._wrapped(array, dtype, read_only=True)
        listed = dtype in ("f64", "i64") and values.size > 0 and self._layout is self.rng
        if listed and self.rng.random() < 0.1:
            self.described.append("list")
            return values.astype(DTYPES[dtype]).tolist()
        return self._wrapped(array, dtype)

    def result(self, shape: tuple[int, ...], dtype: str, at: Any = None) -> Any:
        """Where a result goes: nowhere in particular, into the operand ``at``, or elsewhere."""
        if self.case.in_place:
            self.described.append("in place")
            return at
        if (self._layout if self._pool is not None else self.rng).random() < 0.3:
            self.described.append("new")
            return None
        return self._wrapped(self.fresh(shape, dtype), dtype)

    def fresh(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """An array that a result may go to, and nothing else."""
        array = self._laid_out(shape, dtype)
        self._written.append(array)
        return array

    def _laid_out(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """An array of whatever strides in guarded memory; of one, each element lies apart."""
        rng, size = self._layout, DTYPES[dtype].itemsize
        if self._pool is not None:
            raw = self._in_pool(self._pool, shape, size)
            return raw if dtype == "bf16" and self.bits else raw.view(DTYPES[dtype])
        style = str(rng.choice(["dense", "dense", "permuted", "apart", "odd"]))
        order = list(range(len(shape)))[::-1]
        if style != "dense":
            rng.shuffle(order)
        steps, reach, start = [0] * len(shape), size, 0
        for axis in order:
            gap = {"apart": int(rng.integers(0, 3)) * size, "odd": int(rng.integers(0, 2 * size))}
            steps[axis] = reach + gap.get(style, 0)
            reach += steps[axis] * max(shape[axis] - 1, 0)
            if style != "dense" and rng.random() < 0.3:
                start += steps[axis] * max(shape[axis] - 1, 0)
                steps[axis] = -steps[axis]
        lead, tail = (int(rng.integers(0, 9)) if rng.random() < 0.2 else 0 for _ in range(2))
        guard = Guarded(lead + reach + tail, at_end=bool(rng.random() < 0.7))
        raw = np.ndarray(
            shape, f"u{size}", buffer=guard.bytes(), offset=lead + start, strides=steps
        )
        guard.claim(raw)
        self._guards.append(guard)
        self.described.append(f"{style} {shape} steps {tuple(steps)} lead {lead} tail {tail}")
        return raw if dtype == "bf16" and self.bits else raw.view(DTYPES[dtype])

    def _in_pool(self, pool: np.ndarray, shape: tuple[int, ...], size: int) -> np.ndarray:
        """The next free elements of symmetric memory."""
        last = self._pool_taken[-1].stop if self._pool_taken else 0
        start = -(-last // size) * size + int(self._layout.integers(0, 100)) * size
        taken = slice(start, start + int(np.prod(shape, dtype=int)) * size)
        self._pool_taken.append(taken)
        self.described.append(f"symmetric {shape} at {start}")
        return pool[taken].view(f"u{size}").reshape(shape)

    def _wrapped(self, array: np.ndarray, dtype: str, read_only: bool = False) -> Any:
        """The array itself, or something that stands for it."""
        choice = self.rng.random()
        whole = not any(step % array.itemsize for step in array.strides)
        if choice < 0.15 and whole and not read_only:
            self.described.append("exporter")
            code = {"bf16": BFLOAT, "i32": 0, "i64": 0}.get(dtype, FLOAT)
            return Exporter(array, code)
        if choice < 0.25 and whole and dtype != "bf16":
            self.described.append("DLPack 1.0")
            return Lent(array)
        if choice < 0.35:
            self.described.append("subclass")
            return array.view(Kind)
        return array

    def check(self, changed: bool = True) -> None:
        """Nobody wrote where nothing was to be written; not ``changed``: nor elsewhere."""
        strays = sum(guard.strays() for guard in self._guards)
        assert strays == 0, f"{strays} bytes beside the operands were written"
        if self._pool is not None:
            apart = np.ones(self._pool.size, bool)
            for taken in self._pool_taken:
                apart[taken] = False
            assert np.all(self._pool[apart] == PATTERN), "symmetric memory beside them was written"
        for array, before in self._kept:
            assert _same_bytes(array, before), "an input was changed"
        for array in () if changed or self.case.in_place else self._written:
            assert set(array.tobytes()) <= {PATTERN}, "out was changed"


class Kind(np.ndarray):
    """Any subclass."""


class Lent:
    """NumPy's own way through DLPack 1.0."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **how: Any) -> Any:
        return self.memory.__dlpack__(**how)


def _fill(array: np.ndarray, values: np.ndarray) -> None:
    if array.dtype == np.uint16:
        array[...] = values.astype(DTYPES["bf16"]).view(np.uint16)
    else:
        array[...] = values.astype(array.dtype)


def values_of(result: Any) -> np.ndarray:
    """A result's numbers, whatever it is."""
    if isinstance(result, Exporter | Lent):
        result = result.memory
    array = np.asarray(result)
    return (array.view(DTYPES["bf16"]) if array.dtype == np.uint16 else array).astype(np.float64)


def _is_product(case: Case) -> bool:
    return case.operation in PRODUCTS


def _same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


# ---- the calls ----


def call(comm: sk.Comm, case: Case, mine: Operands) -> tuple[Any, Any, np.ndarray] | None:
    """Makes it. The result, the array that was given for it, and what it must hold."""
    if case.operation in PRODUCTS:
        return _product(comm, case, mine)
    if case.operation == "send_recv":
        return _message(comm, case, mine)
    every = [case.values(rank) for rank in range(case.world_size)]
    own, op, root = every[comm.rank], case.op, case.root
    if case.operation == "allreduce":
        wanted = case.reduced(every)
    elif case.operation == "broadcast":
        wanted = every[root]
    elif case.operation == "allgather":
        wanted = np.stack(every)
    else:
        rows = case.shape[0] // case.world_size
        wanted = case.reduced(every)[comm.rank * rows : (comm.rank + 1) * rows]
    x = mine.given(own, case.dtype)
    out = mine.result(wanted.shape, case.dtype, x)
    if case.by_plan:
        count = wanted.size if case.operation == "reduce_scatter" else own.size
        options: dict[str, Any] = {"count": count}
        if case.operation in ("allreduce", "reduce_scatter"):
            options["op"] = op
        if case.operation == "broadcast":
            options["root"] = root
        plan = comm.plan(case.operation, dtype=case.dtype, **options)
        got = plan.run(x, out, dtype=mine.dtype)
        if case.operation == "reduce_scatter" and out is None:
            got = np.reshape(got, wanted.shape)  # A plan knows counts only.
        return got, out, wanted
    arguments: dict[str, Any] = {"out": out, "dtype": mine.dtype}
    if case.operation in ("allreduce", "reduce_scatter"):
        arguments["op"] = op
    if case.operation == "broadcast":
        arguments["root"] = root
    return getattr(comm, case.operation)(x, **arguments), out, wanted


def _message(comm: sk.Comm, case: Case, mine: Operands) -> tuple[Any, Any, np.ndarray] | None:
    sender, receiver = case.root, (case.root + 1) % case.world_size
    wanted = case.values(sender)
    if case.world_size == 1 or comm.rank not in (sender, receiver):
        return None
    plan = None
    if case.by_plan:
        plan = comm.plan(
            "send_recv", dtype=case.dtype, count=wanted.size, root=sender, peer=receiver
        )
    if comm.rank == sender:
        x = mine.given(wanted, case.dtype)
        if plan is not None:
            plan.run(x, dtype=mine.dtype)
        else:
            comm.send(x, receiver, dtype=mine.dtype)
        return None
    out = mine.result(wanted.shape, case.dtype)
    if plan is not None:
        if out is None:
            out = np.empty(wanted.shape, DTYPES[case.dtype])
        return plan.run(out=out), out, wanted
    if out is None:
        return comm.recv(peer=sender, shape=wanted.shape, dtype=case.dtype), out, wanted
    return comm.recv(out, sender, dtype=mine.dtype), out, wanted


def _product(comm: sk.Comm, case: Case, mine: Operands) -> tuple[Any, Any, np.ndarray]:
    m, n, k = case.shape
    turn_a, turn_b = case.transposes
    pairs = [
        (case.values(rank, 1, (m, k)), case.values(rank, 2, (k, n)))
        for rank in range(case.world_size)
    ]
    own_a, own_b = pairs[comm.rank]
    gathers = case.operation == "allgather_gemm"
    if gathers:
        wanted = np.concatenate([a for a, _ in pairs]) @ own_b
    else:
        wanted = np.asarray(sum(a @ b for a, b in pairs))
    by_plan = case.by_plan and case.operation == "pack"
    turn_a = turn_a and not by_plan
    a = mine.given(own_a.T if turn_a else own_a, case.dtype, as_drawn=not turn_a)
    b = mine.given(own_b.T if turn_b else own_b, case.dtype, as_drawn=not turn_b)
    out_dtype = case.out_dtype or case.dtype
    out = mine.result(wanted.shape, out_dtype)
    if case.operation == "pack":
        b = comm.pack(b, transpose=turn_b, dtype=mine.dtype)
        turn_b = False
    if by_plan:
        plan = comm.plan(
            "allreduce_gemm", dtype=case.dtype, out_dtype=case.out_dtype, m=m, n=n, k=k
        )
        return plan.run(a, out, weights=b, dtype=mine.dtype), out, wanted
    multiply = comm.allgather_gemm if gathers else comm.allreduce_gemm
    got = multiply(
        a,
        b,
        out,
        transpose_a=turn_a,
        transpose_b=turn_b,
        out_dtype=case.out_dtype,
        dtype=mine.dtype,
    )
    return got, out, wanted
