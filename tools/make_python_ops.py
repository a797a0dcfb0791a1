#!/usr/bin/env python3
"""Writes the Python functions of operations from the library's own schemas, or says where they have
drifted: functions of those that need no other ranks, methods of libsk.Comm of those that do.

python3 tools/make_python_ops.py LIBSK.SO            writes the files
python3 tools/make_python_ops.py --check LIBSK.SO    ends with 1 where it would write another

An operation that needs no other ranks is a function of its inputs, those that may be left out
behind the others, its attributes, and its first result as ``out``; results that need not be made
are asked for by ``return_NAME``. The others: python_collectives.py.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import python_collectives
from make_ops_header import attribute_doc, is_written, run, types_doc

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "bindings" / "python" / "libsk"
FUNCTIONS = PACKAGE / "_ops.py"
NAMES = PACKAGE / "_op_names.py"
METHODS = PACKAGE / "_collectives.py"
WIDTH = 100

HEAD = '''\
"""Operations that need no other ranks, as functions; they run on all cores of this process.

Arrays are NumPy's, or anything with ``__dlpack__`` on the CPU; where an operand has rows, an array
may have any number of dimensions, whose last is a row. Any thread may call; such calls come one
after another. ``dtype`` says what uint16 holds (``"bf16"``), in whichever of a call's arrays.

What is row-major is read and written where it lies, and so are arrays of one place in all lists
that lie alike and without gaps, as torch's ``channels_last`` does; others are copied for the call.

Written by tools/make_python_ops.py from the library's schemas.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, SupportsFloat, SupportsIndex, overload

from libsk._context import Context
from libsk._local import LocalFunction
from libsk._types import ArrayT

'''
TYPES = {"float": "SupportsFloat", "int": "SupportsIndex | SupportsFloat", "bool": "bool"}


def wrap(text: str, indent: str = "    ", hang: str = "") -> str:
    """A paragraph of a docstring."""
    return "\n".join(
        textwrap.wrap(
            text,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + hang,
            break_on_hyphens=False,
            break_long_words=False,
        )
    )


def operands(schema: dict, role: str, optional: bool) -> list[dict]:
    """Those of a role that may, or may not, be left out."""
    return [
        each
        for each in schema["operands"]
        if each["role"] == role
        and bool(each.get("optional")) == optional
        and not each.get("only_in_place")
    ]


def out_name(schema: dict, output: dict) -> str:
    """What the caller's array for a result is called."""
    first = operands(schema, "out", optional=False)[0]
    return "out" if output is first else f"out_{output['name']}"


def parameters(schema: dict, array: str = "Any", asked: str = "") -> list[str]:
    """Of the function, with types and defaults. ``array``: the type of the first input, and of what
    its result goes into; ``asked``: what is said of results that need not be made."""
    found = [
        f"{each['name']}: {'Iterable[Any]' if each.get('list') else 'Any'}"
        for each in operands(schema, "in", optional=False)
    ]
    found[0] = found[0].replace(": Any", f": {array}")
    free = "Any" if array == "Any" else f"{array} | None"
    plain = [each for each in schema["attributes"] if not each.get("suggested")]
    found += [f"{each['name']}: {TYPES[each['kind']]}" for each in plain]
    found += [f"{each['name']}: Any = None" for each in operands(schema, "in", optional=True)]
    found += [
        f"{each['name']}: {TYPES[each['kind']]} = {each['suggested']}"
        for each in schema["attributes"]
        if each.get("suggested")
    ]
    made = operands(schema, "out", optional=False)
    found += [f"{out_name(schema, each)}: {free} = None" for each in made]
    kind = asked or "bool = False"
    found += ["*", *(f"return_{x['name']}: {kind}" for x in operands(schema, "out", optional=True))]
    return [*found, "dtype: Any = None", "context: Context | None = None"]


def array_doc(each: dict) -> str:
    """One array's line."""
    shape = f"(..., {each['shape'].split(', ')[1]})" if "," in each["shape"] else each["shape"]
    parts = [f"shape {shape}" if "," in shape else f"[{shape}]", types_doc(each["types"])]
    if each.get("list"):
        parts[0] = "a list of arrays"
    if each.get("not_negative"):
        parts.append("0 or more")
    if each.get("alias"):
        parts.append(f"may be {each['alias']}")
    if each.get("doc"):
        parts.append(each["doc"])
    return ", ".join(parts)


def docstring(schema: dict) -> str:
    """What the function does, takes and gives."""
    first, *rest = schema["summary"].split(". ", 1)
    lines = [wrap(f'"""{first.rstrip(".")}.')]
    if rest:
        lines += ["", wrap(rest[0])]
    lines.append("")
    for each in (*operands(schema, "in", optional=False), *operands(schema, "in", optional=True)):
        written = ", overwritten" if is_written(schema, each) else ""
        lines.append(wrap(f"``{each['name']}``: {array_doc(each)}{written}", hang="    "))
    for each in schema["attributes"]:
        lines.append(wrap(f"``{each['name']}``: {attribute_doc(each)}", hang="    "))
    for each in operands(schema, "out", optional=False):
        told = f"the array for {each['name']}: {array_doc(each)}"
        lines.append(wrap(f"``{out_name(schema, each)}``: {told}", hang="    "))
    for each in operands(schema, "out", optional=True):
        told = f"whether {each['name']} is returned too: {array_doc(each)}"
        lines.append(wrap(f"``return_{each['name']}``: {told}", hang="    "))
    for condition in schema["conditions"]:
        sentence = condition["sentence"]
        lines += ["", wrap(f"{sentence[0].upper()}{sentence[1:]}.")]
    if schema.get("source"):
        lines += ["", wrap(f"Source: {schema['source']}")]
    return "\n".join([*lines, '    """'])


def together(names: list[str]) -> str:
    """A tuple of Python's."""
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"  # "()" of none.


def overloads(schema: dict) -> list[str]:
    """What it gives, by what it is asked for: arrays of the kind of the first."""
    made = ["ArrayT" for _ in operands(schema, "out", optional=False)]
    free = ["Any" for _ in operands(schema, "out", optional=True)]
    told = [("ArrayT", "Literal[False] = False" if free else "", made)]
    if len(free) == 1:
        told.append(("ArrayT", "Literal[True]", [*made, *free]))
    told.append(("Any", "", ["Any"]))
    lines = []
    for array, asked, results in told if made else []:
        gives = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
        lines += ["@overload", f"def {schema['name']}("]
        lines += [f"    {parameter}," for parameter in parameters(schema, array, asked)]
        lines.append(f") -> {gives}: ...")
    return lines


def function(schema: dict) -> str:
    """The whole of one."""
    arrays = [each["name"] for each in schema["operands"] if each["role"] == "in"]
    values = [each["name"] for each in schema["attributes"]]
    outputs = [
        f"return_{each['name']}" if each.get("optional") else out_name(schema, each)
        for each in schema["operands"]
        if each["role"] == "out" and not each.get("only_in_place")
    ]
    name = schema["name"]
    lines = [f'_{name} = LocalFunction("{name}")', "", "", *overloads(schema), f"def {name}("]
    lines += [f"    {parameter}," for parameter in parameters(schema)]
    lines += [f") -> {'Any' if outputs else 'None'}:", docstring(schema)]
    lines += [f"    {'return ' if outputs else ''}_{name}("]
    arguments = ("context", "dtype", together(arrays), together(values), together(outputs))
    lines += [f"        {argument}," for argument in arguments]
    return "\n".join([*lines, "    )"])


def texts(schemas: list[dict]) -> dict[Path, str]:
    """By file."""
    local = [each for each in schemas if each["scope"] == "local"]
    shared = [each for each in schemas if each["scope"] != "local"]
    names = "".join(f'    "{each["name"]}",\n' for each in local)
    functions = HEAD + f"__all__ = [\n{names}]\n"
    functions += "".join(f"\n\n{function(each)}\n" for each in local)
    about = '"""Names of ``libsk._ops``, which is loaded when one is used.\n\n'
    about += 'Written by tools/make_python_ops.py from the library\'s schemas.\n"""\n\n'
    return {
        FUNCTIONS: functions,
        NAMES: f"{about}OPERATIONS = (\n{names})\n",
        METHODS: python_collectives.module(shared, wrap),
    }


def main() -> int:
    """Writes or checks."""
    return run(__doc__ or "", texts)


if __name__ == "__main__":
    sys.exit(main())
