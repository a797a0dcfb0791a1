"""DLPack's exchange API of a library that stands for torch: which tables of functions are taken,
and which tensors by them."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import libsk as sk
import numpy as np
import pytest
from exporter import FLOAT, DLDevice, DLTensor
from libsk import _core, _exchange
from libsk._context import default_context
from libsk._ops import _adamw, _rmsnorm
from libsk._writes import has_written

CPU, CUDA = 1, 2
COMPLEX = 5


Describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))


class Table(ctypes.Structure):
    """The functions; those that are not asked for are null."""


Table._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("older", ctypes.POINTER(Table)),
    ("unused", ctypes.c_void_p * 3),
    ("describe", Describe),
    ("stream", ctypes.c_void_p),
]


class Tensor:
    """One of the library's."""

    def __init__(self, array: np.ndarray, **said: Any) -> None:
        self.array = array
        self.said = said
        self.negated = self.asks = False
        self.versions = 0
        self.sizes, self.steps = (
            (ctypes.c_int64 * max(1, array.ndim))(*of)
            for of in (array.shape, (step // array.itemsize for step in array.strides))
        )

    def is_neg(self) -> bool:
        return self.negated

    @property
    def requires_grad(self) -> bool:
        return self.asks

    @property
    def _version(self) -> int:
        return self.versions


@Describe
def describe(x: Tensor, out: Any) -> int:
    """What ``said`` does not say is what NumPy does."""
    made = out.contents
    made.data = x.array.ctypes.data
    made.device, made.code, made.lanes = DLDevice(CPU, 0), FLOAT, 1
    made.bits, made.ndim = 8 * x.array.itemsize, x.array.ndim
    made.shape, made.strides, made.byte_offset = x.sizes, x.steps, 0
    for name, value in x.said.items():
        setattr(made, name, value)
    return 0


def capsule(table: Any, name: bytes = b"dlpack_exchange_api") -> Any:
    """Of one that the caller keeps, as it keeps the name."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return make(ctypes.addressof(table), name, None)


def note(tensors: list[Any]) -> None:
    for x in tensors:
        x.versions += 1


def know(exchange: Any, during: Callable[[str], None] = lambda name: None) -> bool:
    """As libsk tells the extension module of torch. ``during`` is called in functions of its."""

    def made(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any, **named: Any) -> Any:
            during(name)
            return function(*given, **named)

        return called

    return _core.know_torch(
        Tensor,
        Tensor,
        exchange,
        [np.float32, np.float64, "bf16", np.float16, np.int32, np.int64],
        made("grad", lambda: True),
        made("inference", lambda: False),
        SimpleNamespace(_current_level=-1),
        made("empty", lambda shape, *, dtype, device: Tensor(np.empty(shape, dtype))),
        "cpu",
        note,
        made("has_written", has_written),
    )


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    _core.forget_torch()
    yield
    _core.forget_torch()
    _exchange._seen = None


NAME = b"dlpack_exchange_api"
OTHER_NAME = b"dltensor"
FIRST = Table(1, 1, None, (ctypes.c_void_p * 3)(), describe)
LATER = Table(1, 9, None, (ctypes.c_void_p * 3)(), describe)
NEXT = Table(2, 0, ctypes.pointer(FIRST), (ctypes.c_void_p * 3)(), Describe())
ALONE = Table(2, 0, None, (ctypes.c_void_p * 3)(), describe)
EARLIER = Table(0, 8, None, (ctypes.c_void_p * 3)(), describe)
EMPTY = Table(1, 3, None, (ctypes.c_void_p * 3)(), Describe())
TABLES: dict[str, tuple[Callable[[], Any], bool]] = {
    "1.1": (lambda: capsule(FIRST, NAME), True),
    "1.9": (lambda: capsule(LATER, NAME), True),
    "2.0 with 1.1": (lambda: capsule(NEXT, NAME), True),
    "2.0 alone": (lambda: capsule(ALONE, NAME), False),
    "0.8": (lambda: capsule(EARLIER, NAME), False),
    "without the function": (lambda: capsule(EMPTY, NAME), False),
    "of another name": (lambda: capsule(FIRST, OTHER_NAME), False),
    "a number": (lambda: ctypes.addressof(FIRST), False),
}


def quick(x: Any, out: Any = None) -> Any:
    """What the short way alone makes of it."""
    context = default_context()._handle
    return _rmsnorm.quick.run(context, (x, None), (1e-5,), (out, False))


@pytest.mark.parametrize("table", TABLES)
def test_tables(table: str) -> None:
    make, is_taken = TABLES[table]
    exchange = make()
    assert know(exchange) == is_taken
    array = np.random.default_rng().standard_normal((3, 4))
    made = quick(Tensor(array))
    assert (made is not None) == is_taken
    if is_taken:
        np.testing.assert_array_equal(made.array, sk.rmsnorm(array))


SAID: dict[str, dict[str, Any]] = {
    "on another device": {"device": DLDevice(CUDA, 0)},
    "of another type": {"code": COMPLEX},
    "of 24 bits": {"bits": 24},
    "of two lanes": {"lanes": 2},
    "unaligned": {"byte_offset": 4},
    "nowhere": {"data": None},
    "without a shape": {"shape": None},
    "without strides": {"strides": None},
    "of -1 dimensions": {"ndim": -1},
}


@pytest.mark.parametrize("said", SAID)
def test_what_is_not_taken(said: str) -> None:
    exchange = capsule(FIRST, NAME)
    assert know(exchange)
    array = np.ones((3, 4))
    assert quick(Tensor(array)) is not None
    for lists in range(4):
        given = [[Tensor(np.ones(4))] for _ in range(4)]
        values = (0.1, 1, 0.9, 0.99, 1e-8, 0.0)
        assert _adamw.quick_lists is not None
        assert _adamw.quick_lists.run(default_context(), tuple(given), values)
        given[lists] = [Tensor(np.ones(4), **SAID[said])]
        assert not _adamw.quick_lists.run(default_context(), tuple(given), values)
    assert quick(Tensor(array, **SAID[said])) is None
    assert quick(array, Tensor(np.ones((3, 4)), **SAID[said])) is None


def test_what_is_asked_of_a_tensor() -> None:
    exchange = capsule(FIRST, NAME)
    assert know(exchange)
    x, out = Tensor(np.ones((3, 4))), Tensor(np.zeros((3, 4)))
    assert quick(x, out) is out
    assert (x.versions, out.versions) == (0, 1)
    np.testing.assert_array_equal(out.array, sk.rmsnorm(x.array))
    x.negated = True
    assert quick(x, out) is None
    x.negated, x.asks = False, True
    assert quick(x, out) is None
    x.asks, out.asks = False, True
    assert quick(x, out) is None
    out.asks = False
    assert quick(x, out) is out
    assert out.versions == 2


@ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p,
    ctypes.c_void_p,
)
def fails(*_: Any) -> int:
    """A tile's function that does so."""
    return 0


def test_what_failed_on_its_way_is_a_write_and_what_was_refused_is_none() -> None:
    exchange = capsule(FIRST, NAME)
    assert know(exchange)
    x, out = Tensor(np.ones((3, 4))), Tensor(np.zeros((3, 4)))
    tile = sk.tile(fails, name="fails", reads={"x": ("f64", "m, n")}, writes={"y": ("f64", "m, n")})
    with pytest.raises(sk.TileError):
        tile(x, y=out)
    assert out.versions == 1
    tile.close()
    context = default_context()._handle
    assert _rmsnorm.quick.run(context, (x, None), (-1.0,), (out, False)) is None
    given = tuple([Tensor(np.ones(4))] for _ in range(4))
    assert _adamw.quick_lists is not None
    assert not _adamw.quick_lists.run(default_context(), given, (0.1, 0, 0.9, 0.99, 1e-8, 0.0))
    assert [out.versions, *(one[0].versions for one in given)] == [1, 0, 0, 0, 0]


class Alarm(Exception):
    """What a handler raises."""


@pytest.mark.parametrize("name", ["empty", "grad", "has_written"])
def test_what_a_handler_raises_while_torch_is_asked(name: str) -> None:
    """It is no answer of torch's, which may fail, for another way is gone then."""
    x, out = Tensor(np.ones((3, 4))), Tensor(np.zeros((3, 4)))
    seen: list[str] = []

    def fail(told: str) -> None:
        seen.append(told)
        if told == name:
            raise ValueError

    def interrupt(told: str) -> None:
        seen.append(told)
        if told == name:
            signal.raise_signal(signal.SIGALRM)

    def handler(*_: Any) -> None:
        raise Alarm

    tile = sk.tile(fails, name="fails", reads={"x": ("f64", "m, n")}, writes={"y": ("f64", "m, n")})
    calls: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
        "empty": (lambda: quick(x), Alarm),
        "grad": (lambda: quick(x, out), Alarm),
        "has_written": (lambda: tile(x, y=out), sk.TileError),
    }
    call, error = calls[name]
    out.asks = name == "grad"
    exchange = capsule(FIRST, NAME)
    before = signal.signal(signal.SIGALRM, handler)
    try:
        assert know(exchange, interrupt)
        with pytest.raises(Alarm):
            call()
        assert seen.count(name) == 1
        assert know(exchange, fail)
        if error is Alarm:
            assert call() is None
        else:
            with pytest.raises(error):
                call()
    finally:
        signal.signal(signal.SIGALRM, before)
        tile.close()
    assert out.versions == (2 if name == "has_written" else 0)
