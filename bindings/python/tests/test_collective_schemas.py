"""Methods of Comm come from the library's schemas: an operation that is added needs no Python."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _collective, _collectives, _core
from libsk._dtypes import of_numpy
from libsk._operand import span_of
from libsk._plan import kinds
from libsk._schemas import schemas

Ranks = Callable[..., list[Any]]
TOOLS = Path(__file__).resolve().parents[3] / "tools"
SHARED = [name for name, schema in schemas().items() if schema["scope"] != "local"]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """tools/python_collectives.py."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location("made", TOOLS / "python_collectives.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


def wrap(text: str, indent: str = "", hang: str = "") -> str:
    return f"{indent}{text}"


def renumbered(operation: Any) -> Any:
    """The same, called as one is that has no function of its own in sk/op.h."""
    operation.know()
    made = copy.copy(operation)
    made._describe(operation.schema, by_number=True)
    return made


def test_every_operation_has_its_method() -> None:
    for name in SHARED:
        ends = name.split("_") if schemas()[name]["scope"] == "pair" else [name]
        assert all(inspect.isfunction(getattr(sk.Comm, end)) for end in ends), name
    assert set(kinds()) == set(SHARED)


def test_by_number(ranks: Ranks) -> None:
    """What a new operation's calls take gives the same, the short way and the long one."""

    def body(comm: sk.Comm) -> None:
        for name, value in {"allreduce": "max", "reduce_scatter": "sum", "broadcast": 1}.items():
            plain = getattr(_collectives, f"_{name}")
            made = renumbered(plain)
            x = np.arange(12.0).reshape(4, 3) * (comm.rank + 1)
            want = plain.call(comm, x, None, (value,), None, None, None)
            quick = made.core.run(comm._handle, x, None, value)
            assert np.array_equal(quick, want), name
            long = made.call(comm, x.T.copy().T, None, (value,), None, None, 20.0)
            assert np.array_equal(long, want), name
        made = renumbered(_collectives._allgather)
        x = np.full(3, float(comm.rank))
        assert np.array_equal(made.core.run(comm._handle, x, None, None), comm.allgather(x))
        if comm.rank == 0:
            made = renumbered(_collectives._send)
            assert made.core.run(comm._handle, x + 5, None, 1) is True
            made.call(comm, x + 6, 1, None, None, 20.0)
        else:
            made = renumbered(_collectives._recv)
            assert np.array_equal(made.core.run(comm._handle, None, x, 0), [5.0] * 3)
            got = made.call(comm, None, 0, 3, "f64", None, 20.0)
            assert np.array_equal(got, [6.0] * 3)
        renumbered(_collectives._barrier).call(comm, None, 20.0)

    ranks(2, body)


def test_products_by_number(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> None:
        a = np.arange(12.0, dtype=np.float32).reshape(4, 3) + comm.rank
        b = np.arange(6.0, dtype=np.float32).reshape(3, 2)
        for name in ("allreduce_gemm", "allgather_gemm"):
            plain = getattr(_collectives, f"_{name}")
            made = renumbered(plain)
            for weights, left in ((b, a), (comm.pack(b), a), (np.asfortranarray(b), a.T.copy().T)):
                more = ((False, False), None, None, None, None)
                want = plain.call(comm, None, (left, weights), *more)
                assert np.array_equal(made.call(comm, None, (left, weights), *more), want), name

    ranks(2, body)


def test_products_without_options_are_remembered() -> None:
    """By number, where they then take a small part of the time: options are of one call alone."""
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="remembered") as comm:
        made = renumbered(_collectives._allreduce_gemm)
        x, out = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
        code = of_numpy(x.dtype, "x")
        left, result = ((span_of(each), code, 4, 4, 4) for each in (x, out))

        def nanoseconds(limit: int) -> int:
            begin = time.perf_counter_ns()
            for _ in range(100):
                made.core.core.call(comm._handle, [left, left, result], 0, 0, limit)
            return time.perf_counter_ns() - begin

        times = [(nanoseconds(0), nanoseconds(20_000)) for _ in range(50)]
        plain, limited = (min(each) for each in zip(*times, strict=True))
        assert 2 * plain < limited
    assert out.tolist() == [[4.0] * 4] * 4


def new_one(**change: Any) -> dict[str, Any]:
    """As schemas are described."""
    schema = copy.deepcopy(schemas()["reduce_scatter"])
    schema |= {"name": "swap_all", "id": 900, "summary": "out[i] = in[i]. Some more."}
    schema["operands"][1]["shape"] = "world * count"
    return schema | change


def test_a_new_operation_is_written(generator: ModuleType) -> None:
    text = generator.module([new_one()], wrap)
    space: dict[str, Any] = {}
    exec(compile(text, "made", "exec"), space)
    method = space["Collectives"].swap_all
    given = inspect.signature(method).parameters
    assert list(given) == ["self", "x", "op", "out", "dtype", "stream", "timeout"]
    assert method.__doc__.startswith("out[i] = x[i].") and "Some more." in method.__doc__
    assert "(world_size * n, *S)" in method.__doc__


def test_a_new_operation_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the library, which knows no such number."""
    monkeypatch.setitem(schemas(), "swap_all", new_one())
    made = _collective.Vectors("swap_all")
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="new") as comm:
        for call in (
            lambda: made.core.run(comm._handle, np.ones(3), None, "sum"),
            lambda: made.call(comm, [1.0], None, ("sum",), None, None, None),
        ):
            with pytest.raises(sk.InvalidArgumentError, match="op is 900, which is no operation"):
                call()


def test_a_shape_that_is_not_known(generator: ModuleType) -> None:
    schema = new_one()
    schema["operands"].append({**schema["operands"][0], "name": "more"})
    with pytest.raises(SystemExit, match="swap_all takes neither vectors nor matrices"):
        generator.module([schema], wrap)


def test_a_span_too_small() -> None:
    of = _collectives._allreduce
    made = renumbered(of)
    assert isinstance(made.core, _core.VectorOp)
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="small") as comm:
        for core in (of.core, made.core):
            with pytest.raises(sk.InternalError, match="of x, which has 8 bytes"):
                core.call(comm._handle, (16, 8), (16, 80), 3, 1, 1, None, 0, 0)
