"""Tiles of the user's own: a function and what it does, which become an operation.

::

    @sk.tile(reads={"x": ("f32", "m, n"), "y": ("x", "m, n")}, writes={"z": ("x", "m, n")},
             parameters={"alpha": float}, effect="z[i, j] = saxpy(x[i, j], y[i, j])")
    def saxpy(x, y, z, alpha):
        z[:] = alpha * x + y

    z = saxpy(x, y, alpha=2.0)
"""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, overload

from libsk import _core
from libsk._checks import about_value, is_given, shown
from libsk._context import Context, context_of
from libsk._errors import Error, invalid
from libsk._here import Here
from libsk._numbers import integer_of, number_of
from libsk._operand import Operand
from libsk._outputs import Output, writing
from libsk._schema_call import Fields, Inputs, quick_way
from libsk._tile_function import Function

_OVER = {"rows": 1, "blocks": 2, "all": 3}
_READ, _WRITE = 1, 2
_INT, _FLOAT = 1, 2

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p,
    ctypes.c_void_p,
)
"""``sk_tile_fn``: data, views (six int64 each), values (eight bytes each), user; 1 is done."""


class Tile(Here):
    """An operation that a user made of a tile; made by :func:`tile`.

    Called with the arrays that it reads and its parameters, in the order of its description or by
    name, it returns what it writes: new arrays, or those that were given by name. It keeps its
    function alive; ``close()`` takes the operation away.
    """

    def __init__(self, function: Any, context: Context, description: dict[str, Any]) -> None:
        self._context = context
        self._python: Function | None = None
        self._function = function
        address, user = _address(function), 0
        if address is None:
            floats = [number[0] == _FLOAT for number in description["numbers"]]
            vectors = ["," not in region[3] for region in description["regions"]]
            reads = [region[0] == _READ for region in description["regions"]]
            self._python = Function(description["name"], function, vectors, reads, floats)
            address, user = self._python.core.address, self._python.core.user
        self.name: str = description["name"]
        self._op = _core.register_tile(context._handle, *description.values(), address, user)
        self._schema = json.loads(_core.describe_tile(context._handle, self.name))
        operands = self._schema["operands"]
        self._inputs = [each["name"] for each in operands if each["role"] == "in"]
        self._values = [each["name"] for each in self._schema["attributes"]]
        self._outputs = [each["name"] for each in operands if each["role"] == "out"]
        self._quick = quick_way(self._schema) if self._python is None else None
        # The function goes behind the operation.
        self._end = weakref.finalize(self, _take_away, context, self._op, function, self._python)

    @property
    def op(self) -> int:
        """Its number, as ``sk_call()`` knows it."""
        return self._op

    def describe(self) -> dict[str, Any]:
        """What the library knows of it: operands, attributes, meaning, version."""
        return json.loads(json.dumps(self._schema))

    def close(self) -> None:
        """Takes the operation away. Twice is once; inside a call of it, ``BusyError``."""
        if self._end.alive:
            _core.leave_tile(self._context._handle, self._op)
            self._end.detach()

    def __repr__(self) -> str:
        state = "" if self._end.alive else ", closed"
        return f"<libsk.Tile {self.name}, operation {self._op}{state}>"

    def __call__(self, /, *args: Any, **given: Any) -> Any:
        if self._quick is not None and (done := self._run_quick(args, given)) is not None:
            return done
        fields, results, kept = self._fields(args, given)
        self._run(fields, results, kept.found.values())
        done = [result.finish() for result in results]
        return done[0] if len(done) == 1 else tuple(done)

    def check(self, /, *args: Any, timeout: Any = None, **given: Any) -> None:
        """Tries on the arrays of a call whether the function keeps to what was said of it.

        In a child process, which has copies of them between pages that nobody may touch: whether it
        leaves its tile, writes what is read, leaves elements out, or depends on more than the
        effect says. ``TileError`` says what was found. No array is changed. ``timeout`` are
        seconds, 60 by default; where the tile has something of that name, it is that.
        """
        if timeout is not None and "timeout" in {*self._inputs, *self._values, *self._outputs}:
            given["timeout"], timeout = timeout, None
        seconds = 60.0 if timeout is None else number_of(timeout, "timeout")
        if not 0 < seconds < 10**6:
            raise invalid(f"timeout is {shown(timeout)}; give seconds, more than 0")
        fields, _, kept = self._fields(args, given)
        call = (self._context._handle, self._op, *fields, max(1, int(seconds * 1000)))
        if self._python is None:
            _core.check_tile(*call)
        else:
            self._python.within(None, _core.check_tile, *call)
        del kept

    def _fields(
        self, args: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[Fields, list[Output], Inputs]:
        """The struct of arguments, where results go, and what has the memory that it points to."""
        if not self._end.alive:
            raise invalid(f"tile {self.name} was closed")
        arguments = self._named(args, given)
        inputs = Inputs(self._schema, arguments)
        results = [
            inputs.output(each, arguments.get(each["name"]), each["name"])
            for each in self._schema["operands"]
            if each["role"] == "out"
        ]
        return inputs.fields(arguments), results, inputs

    def _named(self, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        wanted = [*self._inputs, *self._values]
        outputs = self._outputs
        if len(args) > len(wanted):
            raise invalid(
                f"{self.name}() takes {', '.join(wanted)}; it was given {len(args)} things"
            )
        arguments = dict(zip(wanted, args, strict=False))
        for name, value in given.items():
            if name in arguments:
                raise invalid(f"{self.name}() was given {name} twice")
            if name not in wanted and name not in outputs:
                allowed = ", ".join([*wanted, *outputs])
                raise invalid(f"{self.name}() has no {name}; there are {allowed}")
            arguments[name] = value
        missing = [name for name in wanted if name not in arguments]
        if missing:
            raise invalid(f"{self.name}() lacks {', '.join(missing)}")
        return arguments

    def _run_quick(self, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """Of a call with all inputs and numbers in their places; None where it is another."""
        inputs = len(self._inputs)
        if not self._end.alive or len(args) != inputs + len(self._values):
            return None
        outputs = tuple(given.get(name) for name in self._outputs)
        if len(given) != sum(out is not None for out in outputs):
            return None
        return self._quick.run(self._context._handle, args[:inputs], args[inputs:], outputs)

    def _run(
        self, fields: Fields, results: Iterable[Output] = (), operands: Iterable[Operand] = ()
    ) -> None:
        def call() -> None:
            with writing(*results):
                _core.call_alone(self._context._handle, self._op, *fields)

        if self._python is None:
            call()
        else:
            self._python.within(operands, call)


def _take_away(context: Context, op: int, *kept: Any) -> None:
    """Behind the last call; ``kept`` goes when this is done."""
    try:
        _core.leave_tile(context._handle, op)
    except Error:  # Its context has gone before it.
        return


def _address(function: Any) -> int | None:
    """Of compiled code; None for a function of Python's."""
    if type(function) is int:
        address = function
    elif isinstance(function, ctypes._CFuncPtr):
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
    else:
        try:
            address = getattr(function, "address", None)
        except Exception as error:  # noqa: BLE001 - of an object of whatever type.
            raise invalid(f"function is {shown(function)}, whose address is none") from about_value(
                error
            )
    if type(address) is int:
        if 0 <= address < 2**64:
            return address
        raise invalid(f"function is {address}, which is no address")
    if callable(function):
        return None
    raise invalid(
        f"function is {shown(function)}; give a function, a ctypes function pointer, an object with"
        " an address, or an address"
    )


def _text(value: Any, what: str) -> str:
    if isinstance(value, str) and value.isascii() and "\0" not in value:
        return value
    raise invalid(f"{what} is {shown(value)}; give a text of ASCII characters")


def _mapping(value: Any, what: str, example: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    raise invalid(f"{what} is {shown(value)}; give a dict, such as {example}")


def _regions(
    role: int, which: str, given: Any, in_place: Mapping[str, str]
) -> list[tuple[int, str, str, str, str]]:
    example = '{"x": ("f32", "m, n")}'
    out = []
    for name, what in _mapping(given, which, example).items():
        if not isinstance(what, tuple | list) or len(what) != 2:
            raise invalid(
                f"{which}[{shown(name)}] is {shown(what)}; give types and shape, such as {example}"
            )
        types, shape = (_text(each, f"{which}[{shown(name)}]") for each in what)
        home = in_place.get(name, "") if role == _WRITE else ""
        out.append((role, _text(name, f"a name in {which}"), types, shape, home))
    if not out:
        raise invalid(f"{which} is {{}}; give one array at least, such as {example}")
    return out


def _numbers(given: Any) -> list[tuple[int, str, str, str]]:
    out = []
    for name, what in _mapping(given, "parameters", '{"alpha": float}').items():
        kind, *bounds = what if isinstance(what, tuple) and what else (what,)
        if (kind is not int and kind is not float) or len(bounds) not in (0, 2):
            raise invalid(
                f"parameters[{shown(name)}] is {shown(what)}; give int or float, or with bounds"
                " (float, 0, 1)"
            )
        least, most = (
            "" if bound is None else _text(str(bound), f"a bound in parameters[{shown(name)}]")
            for bound in bounds or (None, None)
        )
        code = _INT if kind is int else _FLOAT
        out.append((code, _text(name, "a name in parameters"), least, most))
    return out


def _places(given: Any, writes: Any) -> dict[str, str]:
    places = {}
    for name, home in _mapping(given, "in_place", '{"z": "y"}').items():
        if name not in writes:
            raise invalid(f"in_place names {shown(name)}, which is not written")
        places[name] = _text(home, f"in_place[{shown(name)}]")
    return places


class Compiled(Protocol):
    """Has its code somewhere, as numba's functions do."""

    @property
    def address(self) -> int: ...


@overload
def tile(
    function: None = None,
    *,
    reads: Mapping[str, tuple[str, str]],
    writes: Mapping[str, tuple[str, str]],
    effect: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    in_place: Mapping[str, str] | None = None,
    name: str | None = None,
    over: str | None = None,
    tile_rows: int = 0,
    serial: bool | None = None,
    version: int = 1,
    summary: str = "",
    replace: bool = False,
    context: Context | None = None,
) -> Callable[[Callable[..., Any] | Compiled | int], Tile]: ...
@overload
def tile(
    function: Callable[..., Any] | Compiled | int,
    *,
    reads: Mapping[str, tuple[str, str]],
    writes: Mapping[str, tuple[str, str]],
    effect: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    in_place: Mapping[str, str] | None = None,
    name: str | None = None,
    over: str | None = None,
    tile_rows: int = 0,
    serial: bool | None = None,
    version: int = 1,
    summary: str = "",
    replace: bool = False,
    context: Context | None = None,
) -> Tile: ...
def tile(
    function: Any = None,
    *,
    reads: Mapping[str, tuple[str, str]],
    writes: Mapping[str, tuple[str, str]],
    effect: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    in_place: Mapping[str, str] | None = None,
    name: str | None = None,
    over: str | None = None,
    tile_rows: int = 0,
    serial: bool | None = None,
    version: int = 1,
    summary: str = "",
    replace: bool = False,
    context: Context | None = None,
) -> Any:
    """Makes an operation of a function that computes one tile; without one, a decorator.

    ``function``: is called with arrays of its tile (those that are read, then those that are
        written) and the parameters; or compiled code: a ctypes function pointer, an object with an
        ``address``, or an address
    ``reads``, ``writes``: the arrays, each with types and shape: ``{"x": ("f32|f64", "m, n")}``;
        a type may be another array's, ``"x"``
    ``effect``: what the function does (docs/your-own-tile.md); without one all that is written
        depends on all that is read
    ``parameters``: ``{"alpha": float}`` or, with bounds, ``{"alpha": (float, 0, 1)}``
    ``in_place``: ``{"z": "y"}`` lets ``z`` be ``y``
    ``name``: the operation's; by default the function's
    ``over``: what is cut: ``"rows"`` (the default where there is an effect), ``"blocks"`` of both
        axes, or ``"all"``: nothing, one call has all of it
    ``tile_rows``: rows of a call at least; 0: the library chooses
    ``serial``: one call of the function at a time, as functions of Python's are called anyway
    ``version``: 1 to 65535; grows with what is computed
    ``summary``: what it computes, for who reads about it
    ``replace``: takes the place of a tile of that name in this context; where the new one is
        refused, the old one stays
    ``context``: where it is known, by default the one that is there by itself

    A description that makes no sense is ``InvalidArgumentError``; a function that fails its call is
    ``TileError``, or what it raised.
    """
    if function is None:
        given = {key: value for key, value in locals().items() if key != "function"}
        return lambda decorated: tile(decorated, **given)
    context = context_of(context)
    is_python = _address(function) is None
    named = _text(getattr(function, "__name__", None) if name is None else name, "name")
    does = "opaque" if effect is None else _text(effect, "effect")
    if not does:
        raise invalid("effect is ''; say what it does, or leave it out where it is opaque")
    cut = over if over is not None else "rows" if does != "opaque" else "all"
    if not isinstance(cut, str) or cut not in _OVER:
        raise invalid(f'over is {shown(over)}; allowed is "rows", "blocks" or "all"')
    regions = _regions(_READ, "reads", reads, {})
    places = {} if in_place is None else _places(in_place, _mapping(writes, "writes", "..."))
    regions += _regions(_WRITE, "writes", writes, places)
    number = integer_of(version, "version")
    if not 0 < number < 2**16:
        raise invalid(f"version is {number}, allowed are 1 to 65535")
    description = {
        "name": named,
        "version": number,
        "summary": _text(summary, "summary"),
        "effect": does,
        "over": _OVER[cut],
        "serial": is_python if serial is None else is_given(serial, "serial"),
        "replace": is_given(replace, "replace"),
        "tile_rows": integer_of(tile_rows, "tile_rows"),
        "regions": regions,
        "numbers": [] if parameters is None else _numbers(parameters),
    }
    return Tile(function, context, description)
