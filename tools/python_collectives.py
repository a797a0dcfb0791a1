"""The methods of libsk.Comm for the operations that ranks do together, for make_python_ops.py.

Three shapes are known: one vector in and one out, each of `count` elements or of as many for every
rank; the same between two ranks, whose method names are the two words of the operation's; matrices
in and one out. An operation of another shape ends the tool with a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from make_ops_header import attribute_doc, types_doc

PLAN_FIELDS = ("count", "op", "root", "peer", "m", "n", "k")
"""Dimensions and attributes that sk_plan_desc has."""

HEAD = '''\
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

'''
CLASS = '''

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
'''
VECTOR_COMMON = ["dtype: Any = None", "stream: Any = None", "timeout: float | None = None"]
TYPES = {"redop": "str", "rank": "SupportsIndex", "bool": "bool", "int": "int", "float": "float"}
Wrap = Callable[..., str]


def role(schema: dict, which: str) -> list[dict]:
    """Its operands that are read, or written."""
    return [each for each in schema["operands"] if each["role"] == which]


def shape_of(schema: dict) -> str:
    """Which of the known shapes it has."""
    read, written = role(schema, "in"), role(schema, "out")
    if not schema["operands"] and not schema["attributes"]:
        return "meeting"
    parts = {each["shape"] for each in schema["operands"]}
    is_vectors = len(read) == len(written) == 1 and parts <= {"count", "world * count"}
    if is_vectors and written[0]["types"] == read[0]["name"]:
        kinds = [each["kind"] for each in schema["attributes"]]
        if schema["scope"] == "all":
            return "vectors"
        if kinds == ["rank", "rank"] and schema["name"].count("_") == 1:
            return "pair"
    is_matrices = all(", " in part for part in parts) and len(written) == 1 and read
    if is_matrices and all(each["kind"] == "bool" for each in schema["attributes"]):
        return "matrices"
    raise SystemExit(
        f"{schema['name']} takes neither vectors nor matrices as tools/python_collectives.py and"
        " libsk/_collective.py know them: say there how such a call looks in Python"
        " (docs/add-an-operation.md, 6, has the shapes that they know)"
    )


def is_of_one(schema: dict) -> bool:
    """Whether one rank alone has the result, or the parts that are dealt out."""
    (read,), (written,) = role(schema, "in"), role(schema, "out")
    is_dealt = read.get("only_on") and read["shape"].startswith("world *")
    return bool(is_dealt or written.get("only_on"))


def python_name(operand: dict) -> str:
    """A keyword of Python's is no name of an argument."""
    return "x" if operand["name"] == "in" else operand["name"]


def default_of(attribute: dict) -> str:
    """What it is where nothing is said."""
    if attribute["kind"] == "rank":
        return " = 0"
    if attribute["kind"] == "bool":
        return " = False"
    said = attribute.get("suggested", "")
    if not said:
        return ""
    return f' = "{said}"' if attribute["kind"] == "redop" else f" = {said}"


def parameter(attribute: dict) -> str:
    """With its type and default."""
    return f"{attribute['name']}: {TYPES[attribute['kind']]}{default_of(attribute)}"


def signature(name: str, parameters: list[str], gives: str = "Any") -> list[str]:
    """Of a method."""
    lines = [f"        {each}," for each in ["self", *parameters]]
    short = f"    def {name}({', '.join(['self', *parameters])}) -> {gives}:"
    return [short] if len(short) <= 100 else [f"    def {name}(", *lines, f"    ) -> {gives}:"]


def overloads(name: str, parameters: list[str]) -> list[str]:
    """What a method gives: an array of the kind of its first, and whatever it may of others."""
    first = parameters[0].partition(":")[0]
    known = {f"{first}: Any": f"{first}: ArrayT", "out: Any = None": "out: ArrayT | None = None"}
    known["out_dtype: Any = None"] = "out_dtype: None = None"
    lines = []
    for told, gives in (
        ([known.get(each, each) for each in parameters], "ArrayT"),
        (parameters, "Any"),
    ):
        *head, last = signature(name, told, gives)
        lines += ["    @overload", *head, f"{last[:-1]}: ..."]
    return lines


def summary_of(schema: dict, wrap: Wrap) -> list[str]:
    """The first lines of a docstring, in Python's words."""
    text = re.sub(r"\bin\[", "x[", schema["summary"]).replace("SK_ERR_DESYNC", "``DesyncError``")
    first, *rest = text.split(". ", 1)
    lines = [wrap(f'"""{first.rstrip(".")}.', "        ")]
    return lines + (["", wrap(rest[0], "        ")] if rest else [])


def line(wrap: Wrap, name: str, *parts: str) -> str:
    """What an argument is."""
    text = f"``{name}``: {', '.join(part for part in parts if part)}"
    return wrap(text, "        ", hang="    ")


def attribute_line(wrap: Wrap, each: dict) -> str:
    """What a number is."""
    kind = {"redop": '"sum", "prod", "min", "max" or "avg"', "rank": "the number of a rank"}
    doc = each.get("doc", "") if each["kind"] in kind else attribute_doc(each)
    told = [kind.get(each["kind"], ""), "" if doc.startswith("0 or 1") else doc]
    if each["kind"] == "bool":
        told = ["", each.get("doc", "")]
    return line(wrap, each["name"], "; ".join(part for part in told if part))


def end_of_docstring(lines: list[str]) -> list[str]:
    """Its last quotes."""
    return [*lines, '        """'] if len(lines) > 1 else [f'{lines[0]}"""']


def vectors(schema: dict, wrap: Wrap) -> list[str]:
    """One array in, one out."""
    name, attributes = schema["name"], schema["attributes"]
    (read,), (written,) = role(schema, "in"), role(schema, "out")
    of_all = [each["shape"].startswith("world *") for each in (read, written)]
    at_root = bool(written.get("only_on"))
    docs = [
        line(
            wrap,
            "x",
            "shape (world_size * n, *S): rank r's part is rows r * n to (r + 1) * n"
            if of_all[0]
            else "an array of any shape, the same on every rank",
            types_doc(read["types"]),
            f"read on rank ``{read['only_on']}``, on others it only says shape and type"
            + (", and may be None where there is an ``out``" if of_all[0] else "")
            if read.get("only_on")
            else "",
        )
    ]
    docs += [attribute_line(wrap, each) for each in attributes]
    shape = "shaped as x"
    if of_all[1] and not of_all[0]:
        shape = "(world_size, *S) for an x of shape S"
    elif of_all[0] and not of_all[1]:
        shape = "(n, *S)"
    may_be = written.get("alias") == read["name"] or read.get("may_be_in") == written["name"]
    part = "x" if of_all[0] == of_all[1] else "this rank's part of x"
    of_out = "x may be this rank's part of it" if read.get("alias") else ""
    given = f"may be {part}" if may_be else of_out
    new = "else it is new"
    if at_root:
        new += f"; on rank ``{written['only_on']}`` alone: others get None"
    docs.append(line(wrap, "out", f"where the result goes, {shape}", given, new))
    parameters = ["x: Any", *map(parameter, attributes), "out: Any = None", "*", *VECTOR_COMMON]
    is_quick = len(attributes) < 2 and all(each["kind"] in ("redop", "rank") for each in attributes)
    is_quick &= not is_of_one(schema)
    value = attributes[0]["name"] if attributes else "None"
    told = [] if at_root else overloads(name, parameters)
    lines = [*told, *signature(name, parameters)]
    lines += end_of_docstring([*summary_of(schema, wrap), "", *docs])
    if is_quick:
        lines += [
            "        if dtype is None and stream is None and timeout is None:",
            f"            quick = _{name}.core.run(self._handle, x, out, {value})",
            "            if quick is not None:",
            "                return quick",
        ]
    values = "".join(f"{each['name']}, " for each in attributes).rstrip()
    values = f"({values})" if len(attributes) < 2 else f"({values.rstrip(',')})"
    return [*lines, f"        return _{name}.call(self, x, out, {values}, dtype, stream, timeout)"]


def pair(schema: dict, wrap: Wrap) -> list[str]:
    """A method for each of the two ends."""
    give, take = schema["name"].split("_")
    types = types_doc(role(schema, "in")[0]["types"])
    peer = line(wrap, "peer", f"the number of the rank that calls :meth:`{take}`")
    lines = signature(give, ["x: Any", "peer: SupportsIndex", "*", *VECTOR_COMMON], "None")
    x = line(wrap, "x", "an array of any shape", types)
    lines += end_of_docstring([*summary_of(schema, wrap), "", x, peer])
    lines += [
        "        is_plain = dtype is None and stream is None and timeout is None",
        f"        if is_plain and _{give}.core.run(self._handle, x, None, peer) is not None:",
        "            return",
        f"        _{give}.call(self, x, peer, dtype, stream, timeout)",
        "",
    ]
    shapes = "shape: SupportsIndex | Sequence[SupportsIndex] | None = None"
    ends = ["out: Any = None", "peer: SupportsIndex | None = None", "*", shapes, *VECTOR_COMMON]
    lines += signature(take, ends)
    about = wrap(
        f'"""What ``peer`` gives to :meth:`{give}`: into ``out``, or into a new NumPy array of'
        " ``shape`` and ``dtype``.",
        "        ",
    )
    example = f'``comm.{take}(buffer, 1)`` or ``comm.{take}(peer=1, shape=(3, 4), dtype="f32")``.'
    docs = [
        line(wrap, "out", "an array of any shape", types, "with as many elements as are sent"),
        line(wrap, "peer", f"the number of the rank that calls :meth:`{give}`; it must be given"),
        line(wrap, "shape", "of a new array, in place of ``out``; then ``dtype`` is due as well"),
    ]
    lines += end_of_docstring([about, "", wrap(example, "        "), "", *docs])
    plain = "shape is None and dtype is None and stream is None and timeout is None"
    return [
        *lines,
        f"        is_plain = {plain}",
        f"        if is_plain and _{take}.core.run(self._handle, None, out, peer) is not None:",
        "            return out",
        f"        return _{take}.call(self, out, peer, shape, dtype, stream, timeout)",
    ]


def matrices(schema: dict, wrap: Wrap) -> list[str]:
    """Matrices in, one out."""
    name, attributes, read = schema["name"], schema["attributes"], role(schema, "in")
    (written,) = role(schema, "out")
    docs = []
    for each in read:
        turned = ", ".join(reversed(each["shape"].split(", ")))
        docs.append(
            line(
                wrap,
                each["name"],
                f"shape ({each['shape']})",
                f"or ({turned}) with ``{each['turned_by']}``" if each.get("turned_by") else "",
                "or what :meth:`pack` made of it" if each.get("packed") else "",
                types_doc(each["types"]),
                each.get("doc", ""),
                "peers read it there where it is symmetric memory" if each.get("reached") else "",
            )
        )
    shape = written["shape"].replace("world", "world_size")
    types = types_doc(written["types"])
    docs.append(
        line(wrap, "out", f"where the result goes, ({shape})", types, "else new, by ``out_dtype``")
    )
    about = "Rows may lie apart, and transposed views (``w.T``) are taken as they are; any other"
    about += " layout is copied."
    names = [each["name"] for each in read]
    parameters = [*(f"{each}: Any" for each in names), "out: Any = None", "*"]
    parameters += [*map(parameter, attributes), "out_dtype: Any = None", *VECTOR_COMMON]
    lines = [*overloads(name, parameters), *signature(name, parameters)]
    rest = ["", *docs, "", wrap(about, "        ")]
    lines += end_of_docstring([*summary_of(schema, wrap), *rest])
    flags = ", ".join(each["name"] for each in attributes)
    flags = f"({flags},)" if len(attributes) == 1 else f"({flags})"
    arrays = f"({', '.join(names)})" if len(names) > 1 else f"({names[0]},)"
    return [
        *lines,
        f"        return _{name}.call(",
        f"            self, stream, {arrays}, {flags}, out, out_dtype, dtype, timeout",
        "        )",
    ]


def meeting(schema: dict, wrap: Wrap) -> list[str]:
    """No arrays."""
    name = schema["name"]
    lines = signature(name, ["*", *VECTOR_COMMON[1:]], "None")
    lines += end_of_docstring(summary_of(schema, wrap))
    return [
        *lines,
        "        if stream is None and not self._device.is_gpu:",
        f"            return _{name}.core.meet(self._handle, 0, milliseconds(timeout))",
        f"        return _{name}.call(self, stream, timeout)",
    ]


def plan(schemas: list[dict], wrap: Wrap) -> list[str]:
    """The one method that makes plans of any of them."""
    kinds = ", ".join(f'"{each["name"]}"' for each in schemas)
    has = {
        each["name"]: each
        for schema in schemas
        for each in (*schema["dimensions"], *schema["attributes"])
        if each["name"] in PLAN_FIELDS
    }
    given = [name for name in PLAN_FIELDS if name in has]
    parameters = ["kind: str", "*", "dtype: Any = None"]
    for name in given:
        is_op = has[name].get("kind") == "redop"
        parameters.append(f"{name}: " + ("str | None = None" if is_op else "SupportsIndex = 0"))
    flags = ("symmetric_in", "symmetric_out", "in_place")
    parameters += ["out_dtype: Any = None", *(f"{name}: bool = False" for name in flags)]
    lines = signature("plan", parameters, "_plan.Plan")
    lines += [
        '        """A validated plan, made once and run many times.',
        "",
        wrap(
            f"``kind`` is one of {kinds}. Of a pair ``root`` gives and ``peer`` takes. ``count`` is"
            " elements of one rank's part; m, n and k are those of a product. ``dtype`` is"
            ' "f32" and ``op`` "sum" where the kind has one and none is given. What it has not is'
            " refused. Making a plan needs no other rank.",
            "        ",
        ),
        '        """',
        "        return _plan.make_plan(",
        "            self._handle,",
        "            self.world_size,",
        "            self._place,",
        "            kind,",
        "            dtype,",
        "            out_dtype,",
    ]
    for names in (given, flags):
        inner = ", ".join(f'"{name}": {name}' for name in names)
        text = f"            {{{inner}}},"
        if len(text) > 100:
            rows = [f'                "{name}": {name},' for name in names]
            text = "\n".join(["            {", *rows, "            },"])
        lines.append(text)
    return [*lines, "        )"]


def names_of(schema: dict) -> list[str]:
    """Of its methods."""
    return schema["name"].split("_") if shape_of(schema) == "pair" else [schema["name"]]


def module(schemas: list[dict], wrap: Wrap) -> str:
    """The whole file."""
    write = {"vectors": vectors, "pair": pair, "matrices": matrices, "meeting": meeting}
    kinds = {"vectors": "Vectors", "matrices": "Matrices", "meeting": "Meeting"}
    heads, methods = [], []
    for schema in schemas:
        shape, name = shape_of(schema), schema["name"]
        if shape == "pair":
            give, take = name.split("_")
            heads += [f'_{give} = Giving("{name}", "{give}")']
            heads += [f'_{take} = Taking("{name}", "{take}")']
        else:
            heads.append(f'_{name} = {kinds[shape]}("{name}")')
        methods += ["", *write[shape](schema, wrap)]
    methods += ["", *plan(schemas, wrap)]
    names = [name for each in schemas for name in names_of(each)]
    heads += ["", "METHODS = (", *(f'    "{name}",' for name in names), ")"]
    heads += ['"""Of the class below, those that are operations."""']
    return HEAD + "\n".join(heads) + "\n" + CLASS + "\n".join(methods) + "\n"
