"""Calls of operations by the library's own description of them.

A schema says of each operand its role, types and shape, of each attribute its kind, and where in
the struct of arguments all of them stand. What is here makes arrays and numbers of Python's into
that: for the operations of this process alone (``libsk._ops``), and for users' tiles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from libsk import _core, _dtypes
from libsk._checks import is_given
from libsk._context import Context, context_of
from libsk._errors import UnsupportedError, invalid
from libsk._numbers import integer_of, number_of
from libsk._operand import Operand
from libsk._outputs import Output, is_bits, writing
from libsk._place import OnCpu
from libsk._schemas import Schema

_CPU = OnCpu()

Sizes = dict[str, tuple[int, ...]]
"""Of each dimension; several where one stands for all but the last of an array."""
Fields = tuple[int, list[tuple[int, str, Any]], list[tuple[int, float]], list[tuple[int, int, int]]]
"""The size of a call's struct, and by offset its tensors, floats, and integers with their sizes."""


class Inputs:
    """The arrays that a call reads, and what they say of those that it writes.

    Where ``leading`` is set, an operand of rows stands for an array of any number of dimensions,
    whose last is a row.
    """

    def __init__(
        self,
        schema: Schema,
        arrays: Mapping[str, Any],
        dtype: Any = None,
        *,
        leading: bool = False,
    ) -> None:
        self._schema = schema
        self._leading = leading
        self.sizes: Sizes = {}
        self.codes: dict[str, int] = {}
        self.found: dict[str, Operand] = {}
        self._results: list[tuple[str, Output]] = []
        self.like: Any = None
        """What further results are like: the first array."""
        for each in schema["operands"]:
            name = each["name"]
            if each["role"] != "in" or (each.get("optional") and arrays[name] is None):
                continue
            x = arrays[name]
            on_cpu(x)
            self.like = x if self.like is None else self.like
            is_said = _follows_dtype(each) or is_bits(x)
            self.found[name] = self._read(each, x, dtype if is_said else None)
            self.codes[name] = self.found[name].code

    def _read(self, each: Schema, x: Any, dtype: Any) -> Operand:
        name, axes = each["name"], each["shape"].split(", ")
        found = _CPU.operand(x, name, dtype)
        shape = found.shape
        if self._leading and not shape:
            raise invalid(f"{name} is a number; it must have one dimension at least")
        if self._leading and len(axes) == 2:
            sides = {axes[0]: shape[:-1], axes[1]: shape[-1:]}
        elif self._leading:
            sides = {axes[0]: shape}
        elif len(shape) == len(axes):
            sides = {axis: (size,) for axis, size in zip(axes, shape, strict=True)}
        else:
            wanted = f"{len(axes)} dimension(s), ({each['shape']})"
            raise invalid(f"{name} has shape {shape}; it must have {wanted}")
        for axis, size in sides.items():
            self.sizes.setdefault(axis, size)
        wanted = self._of(axes)
        if self._leading and shape != wanted:  # Else the library says it, of its own dimensions.
            raise invalid(f"{name} has shape {shape}; it must have {wanted}")
        return _in_rows(found) if len(axes) == 2 else found.contiguous()

    def _of(self, axes: list[str]) -> tuple[int, ...]:
        """The shape of an array of these dimensions; what is one for each row is one for a row."""
        return sum((self.sizes[axis] for axis in axes), ()) or (1,)

    def shape_of(self, each: Schema, out: Any) -> tuple[int, ...]:
        """Of a result, by the library's expressions, which Python reads alike."""
        axes = each["shape"].split(", ")
        if all(axis in self.sizes for axis in axes):
            return self._of(axes)
        sizes = {name: math.prod(size) for name, size in self.sizes.items()}
        try:
            return _evaluated(each["shape"], sizes)
        except KeyError:
            if out is not None:  # It says what nothing that is read does.
                return tuple(np.shape(out))
            raise invalid(
                f"no array that is read says how large {each['name']} is ({each['shape']}); give it"
                " by name"
            ) from None
        except ZeroDivisionError:
            said = ", ".join(f"{name} is {size}" for name, size in sizes.items())
            raise invalid(
                f"the shape of {each['name']} ({each['shape']}) is divided by 0: {said}"
            ) from None

    def output(self, each: Schema, out: Any, what: str, like: Any = None) -> Output:
        """Memory for a result, given or new; ``what`` is what the caller's array is called."""
        on_cpu(out)
        name = each["name"]
        code = result_code(each, self.codes) if self._leading else first_code(each, self.codes)
        home = self.found.get(each.get("alias", ""))
        given = self.like if like is None else like
        shape = self.shape_of(each, out)
        result = _CPU.output(out, given if out is None else out, code, shape, home, what=what)
        for other, before in self._results:
            _check_apart(what, result, other, before)
        self._results.append((what, result))
        self.found[name] = result.operand
        self.codes[name] = code
        return result

    def fields(self, values: Mapping[str, Any]) -> Fields:
        """The struct of arguments; an operand that was not given is left out."""
        kinds = {each["name"]: each["kind"] for each in self._schema["attributes"]}
        vectors = {each["name"]: "," not in each["shape"] for each in self._schema["operands"]}
        tensors, floats, integers = [], [], []
        for field in self._schema["fields"]:
            of, offset = field["of"], field["offset"]
            if of in self.found:
                tensors.append((offset, of, _matrix(self.found[of], vectors[of])))
            elif of not in kinds:
                continue
            elif kinds[of] == "float":
                floats.append((offset, number_of(values[of], of)))
            else:
                bytes_ = 4 if field["kind"] == "int32" else 8
                is_flag = kinds[of] == "bool"
                value = is_given(values[of], of) if is_flag else integer_of(values[of], of, bytes_)
                integers.append((offset, bytes_, int(value)))
        return self._schema["bytes"], tensors, floats, integers


def call(
    schema: Schema,
    context: Context | None,
    arrays: Mapping[str, Any],
    values: Mapping[str, Any],
    outputs: Mapping[str, Any],
    dtype: Any = None,
) -> Any:
    """``sk_call()`` of an operation of this process alone, and its results.

    ``outputs`` has an array or None for each that is always made, and whether each other is wanted.
    One result comes alone, and several as a tuple.
    """
    context = context_of(context)
    inputs = Inputs(schema, arrays, dtype, leading=True)
    results = []
    has_out = False
    for each in schema["operands"]:
        name = each["name"]
        if each["role"] != "out":
            continue
        if each.get("optional"):
            if is_given(outputs[name], f"return_{name}"):
                gradient_of = arrays.get(name[1:]) if name.startswith("d") else None
                like = inputs.like if gradient_of is None else gradient_of
                results.append(inputs.output(each, None, name, _kind_of(like)))
        else:
            what = f"out_{name}" if has_out else "out"
            has_out = True
            results.append(inputs.output(each, outputs[name], what))
    fields = inputs.fields(values)
    with writing(*results):
        _core.call_alone(context._handle, schema["id"], *fields)
    done = [result.finish() for result in results]
    return done[0] if len(done) == 1 else tuple(done)


def quick_way(schema: Schema, *, leading: bool = False) -> Any:
    """A ``_core.LocalOp``, for calls whose arguments are all of the common kind; None where a shape
    is more than names of dimensions, or a matrix of matrices."""
    operands = schema["operands"]
    shapes = {each["name"]: each["shape"].split(", ") for each in operands}
    axes = {axis: None for shape in shapes.values() for axis in shape}
    numbers = {axis: number for number, axis in enumerate(axes)}
    if not all(axis.isidentifier() for axis in axes) or len(axes) > 8 or len(operands) > 8:
        return None
    if any(len(shape) > 2 for shape in shapes.values()):
        return None
    fields = {each["of"]: each for each in schema["fields"]}

    def row(each: Schema) -> tuple[int, str, list[int], bool]:
        name = each["name"]
        places = [numbers[axis] for axis in shapes[name]]
        return fields[name]["offset"], name, places, bool(each.get("optional"))

    inputs = [each for each in operands if each["role"] == "in"]
    outputs = [each for each in operands if each["role"] == "out"]
    code_of = result_code if leading else first_code

    def types(codes: tuple[int, ...]) -> list[tuple[int, Any]]:
        pairs = zip(inputs, codes, strict=True)
        known = {each["name"]: code for each, code in pairs if code}
        found = []
        for each in outputs:
            try:
                code = known[each["name"]] = code_of(each, known)
            except KeyError:  # It follows what was left out.
                found.append((0, None))
            else:
                found.append((code, _dtypes.to_numpy(code)))
        return found

    return _core.LocalOp(
        schema["id"],
        schema["bytes"],
        [row(each) for each in inputs],
        [number_row(each, fields) for each in schema["attributes"]],
        [row(each) for each in outputs],
        leading,
        types,
    )


def number_row(attribute: Schema, fields: Mapping[str, Schema]) -> tuple[int, int, int]:
    """Where in the struct one is, its kind as the extension module has it, and its bytes."""
    field = fields[attribute["name"]]
    kind = ("float", "bool", "int").index(attribute["kind"])
    return field["offset"], kind, 4 if field["kind"] == "int32" else 8


_NAMES = re.compile(r"[a-z_][a-z0-9_]*(?!\w)(?!\s*\()")
"""Of dimensions in an expression; what stands before a parenthesis is a function's."""


def _evaluated(shape: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The library's expressions, which Python reads alike but for names: some are words of its."""
    numbers = _NAMES.sub(lambda found: str(sizes[found[0]]), shape)
    scope = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max, "__builtins__": {}}
    return tuple(eval(f"({numbers},)", scope))


def first_code(each: Schema, codes: Mapping[str, int]) -> int:
    """The first type that a result may have."""
    return _code(each["types"].split("|")[0], codes)


def result_code(each: Schema, codes: Mapping[str, int]) -> int:
    """The same of an operation of the library's, but a gradient's, of name ``dx``, is that of its
    input ``x`` where it may be."""
    name = each["name"]
    of = codes.get(name[1:]) if name.startswith("d") else None
    allowed = (_code(rule, codes) for rule in each["types"].split("|"))
    return of if of is not None and of in allowed else first_code(each, codes)


def _code(rule: str, codes: Mapping[str, int]) -> int:
    if rule in codes:
        return codes[rule]
    if rule.startswith("accumulator("):
        of = codes[rule.removeprefix("accumulator(").removesuffix(")")]
        return _dtypes.F64 if of == _dtypes.F64 else of if of >= _dtypes.I32 else _dtypes.F32
    return _dtypes.of_any("f32" if rule in ("any", "float") else rule)


def _follows_dtype(each: Schema) -> bool:
    """Whether ``dtype`` is said of this array too; of uint16 it always is."""
    return "|" not in each["types"] and "(" not in each["types"]


def _check_apart(what: str, result: Output, other: str, before: Output) -> None:
    """The library sees two results where it writes them, and not where copies go at the end."""
    in_place = result.given is result.operand and before.given is before.operand
    if not in_place and result.given.overlaps(before.given):
        raise invalid(f"{what} and {other} have elements in the same memory; give each its own")


def _in_rows(found: Operand) -> Operand:
    """Of a matrix rows may lie apart."""
    if found.strides is not None and len(found.shape) == 2 and found.is_aligned:
        size = found.itemsize
        step, inner = found.strides
        if inner == size and step >= found.shape[1] * size:
            return found
    return found.contiguous()


def _matrix(found: Operand, vector: bool) -> tuple[Any, int, int, int, int]:
    """Span, type, rows, columns, elements from row to row: 0 of a vector."""
    if vector:
        return found.span, found.code, 1, found.count, 0
    columns = found.shape[-1]
    rows = math.prod(found.shape[:-1])
    step = max(1, columns) if found.strides is None else found.strides[0] // found.itemsize
    return found.span, found.code, rows, columns, step


def _kind_of(x: Any) -> Any:
    """What a further result is like: not a number where x is a vector."""
    return x if hasattr(x, "shape") else [x]


def on_cpu(x: Any) -> None:
    """Refuses an array of another device."""
    device = getattr(x, "device", None)
    if getattr(device, "type", "cpu") != "cpu":
        raise UnsupportedError(
            f"an array is on {device}: local operations run on the CPU so far",
            12,
            "SK_ERR_UNSUPPORTED",
        )
