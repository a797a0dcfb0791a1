"""Calls with one argument that is wrong, for fuzz_layouts.py: in a world of one, where a call that
is refused leaves no other rank waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
from fuzz_cases import PRODUCTS, Case, Operands, draw
from guarded import Guarded
from numpy.lib.stride_tricks import as_strided
from oracle import DTYPES


class Hostile:
    """Raises whatever it is asked."""

    def _no(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("hostile")

    __index__ = __int__ = __float__ = __len__ = __iter__ = __repr__ = __str__ = __bool__ = _no
    __array__ = __dlpack__ = __dlpack_device__ = _no


JUNK: tuple[Any, ...] = (
    *(None, True, 0, 1, -1, 3, 2**31, 2**63, 2**70, -(2**70)),
    *(
        0.0,
        1.5,
        float("nan"),
        float("inf"),
        1j,
        "",
        "abc",
        "f32",
        "f64",
        "sum",
        "0",
        "\0",
        "\udcff",
    ),
    *(b"", b"f32", bytearray(8), memoryview(b"1234"), [], [1, "a"], [[1], [1, 2]], {}, {1}, (1, 2)),
    *(object(), object, int, len, Ellipsis, Hostile(), np.float32(2), np.int64(-1), np.bool_(1)),
    *(np.array(1), np.array([1, 2]), np.zeros(3, complex), np.zeros(3, ">f4"), np.zeros((0, 2))),
    *(
        np.array(["a"]),
        np.array([object()]),
        np.ma.zeros(3),
        np.zeros(2, [("a", "f4")]),
        np.dtype("f4"),
    ),
    *(np.zeros(3, bool), np.zeros(3, np.uint16), np.array("2020", "M8[D]")),
)


def _wrong_out(mine: Operands, shape: tuple[int, ...], dtype: str) -> Any:
    """Almost what a result fits in, and not a byte more than it says."""
    rng, rows = mine.rng, shape[:1] or (1,)
    kind = str(rng.choice(["shape", "dtype", "flat", "overlap", "read-only", "order"]))
    if kind == "shape":
        return mine.fresh((max(rows[0] + int(rng.choice([-1, 1])), 0), *shape[1:]), dtype)
    if kind == "dtype":
        return mine.fresh(shape, str(rng.choice([name for name in DTYPES if name != dtype])))
    if kind == "flat":
        return mine.fresh((int(np.prod(shape, dtype=int)),), dtype)
    if kind == "order":
        return mine.fresh(shape, dtype).view(np.dtype(f"u{DTYPES[dtype].itemsize}").newbyteorder())
    if kind == "overlap":
        guard = Guarded(8)
        return as_strided(guard.bytes()[:8].view(DTYPES[dtype]), shape, (0,) * len(shape))
    array = mine.fresh(shape, dtype)
    array.flags.writeable = False
    return array


def _calls(comm: sk.Comm, case: Case, mine: Operands) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A method, and arguments with which it would go well, but for a peer."""
    rng = mine.rng
    common = {"dtype": mine.dtype, "stream": None, "timeout": None}
    shape, dtype = case.shape, case.dtype
    if case.operation in PRODUCTS:
        m, n, k = shape
        a, b = (mine.given(case.values(0, i, s), dtype) for i, s in enumerate([(m, k), (k, n)]))
        if case.operation == "pack":
            return comm.pack, {"b": b, "transpose": False, "dtype": mine.dtype}
        out = mine.result((m, n), case.out_dtype or dtype)
        flags = {"transpose_a": False, "transpose_b": False, "out_dtype": case.out_dtype}
        return getattr(comm, case.operation), {"a": a, "b": b, "out": out, **flags, **common}
    values = case.values(0)
    if case.by_plan:
        if rng.random() < 0.5:
            sizes = {"count": values.size, "m": 1, "n": 1, "k": 1}
            where = {"root": 0, "peer": 0, "in_place": False, "symmetric_in": False}
            kind = {"kind": "allreduce", "dtype": dtype, "out_dtype": None, "op": "sum"}
            return comm.plan, {**kind, **where, **sizes}
        plan = comm.plan("allreduce", dtype=dtype, count=values.size)
        x = mine.given(values, dtype)
        out = mine.result(values.shape, dtype, x)
        return plan.run, {"x": x, "out": out, "weights": None, **common}
    if case.operation == "send_recv":
        if rng.random() < 0.5:
            return comm.send, {"x": mine.given(values, dtype), "peer": 0, **common}
        if rng.random() < 0.5:
            return comm.recv, {"out": None, "peer": 0, "shape": shape, **common, "dtype": dtype}
        return comm.recv, {"out": mine.fresh(shape, dtype), "peer": 0, "shape": None, **common}
    x = mine.given(values, dtype)
    result = (1, *shape) if case.operation == "allgather" else shape
    arguments = {"x": x, "out": mine.result(result, dtype, x), **common}
    if case.operation in ("allreduce", "reduce_scatter"):
        arguments["op"] = case.op
    if case.operation == "broadcast":
        arguments["root"] = 0
    return getattr(comm, case.operation), arguments


def run_wrong(comm: sk.Comm, seed: int, index: int) -> None:
    """One call with one argument changed: libsk's own error, and nothing touched; or it is done."""
    case = draw(seed, index, 1)
    mine = Operands(case, case.rng(4))
    function, arguments = _calls(comm, case, mine)
    names = list(arguments)
    name = names[mine.rng.integers(len(names))]
    if name == "out" and mine.rng.random() < 0.8:
        shape = case.shape[:2] if case.operation in PRODUCTS else case.shape
        arguments[name] = _wrong_out(mine, shape, case.dtype)
    else:
        arguments[name] = JUNK[mine.rng.integers(len(JUNK))]
    refused = False
    try:
        try:
            function(**arguments)
        except sk.InternalError:
            raise  # A bug of libsk.
        except sk.Error as error:
            refused = True
            assert len(str(error)) > 10
        mine.check(changed=not refused)
    except Exception as error:
        about = f"{function.__name__}({name}={_shown(arguments[name])}): {case}\n{mine.described}"
        raise AssertionError(about) from error


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ZeroDivisionError:
        return "Hostile()"
