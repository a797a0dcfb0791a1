#!/usr/bin/env python3
"""Writes the Julia functions of operations from the library's own schemas, or says where they have
drifted.

python3 tools/make_julia_ops.py LIBSK.SO            writes files of bindings/julia/src
python3 tools/make_julia_ops.py --check LIBSK.SO    ends with 1 where it would write another

Julia's arrays are column-major, so sizes are shapes from their end, rows are columns, and products
have their factors in the other order (docs/adr/0025-julias-arrays-from-their-end.md).
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import julia_words as words
from make_ops_header import run
from python_collectives import is_of_one, role, shape_of

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "bindings" / "julia" / "src"
TOGETHER = SOURCES / "collectives.jl"
ALONE = SOURCES / "local.jl"
WIDTH = 100

HEAD = """\
# {about}: for each its struct of arguments, its function, its help.
#
# Written by tools/make_julia_ops.py from the library's schemas.
"""
OF_BASE = words.OF_BASE

FIELD_TYPES = {
    "tensor": "Ptr{Tensor}",
    "list": "Ptr{Ptr{Tensor}}",
    "packed": "Ptr{Cvoid}",
    "length": "Int64",
    "int32": "Int32",
    "int64": "Int64",
    "double": "Float64",
}
NUMBERS = {"int": "integer", "float": "float_number"}


def camel(name: str) -> str:
    """A type's name."""
    return "".join(part.capitalize() for part in name.split("_")) + "Args"


def field_name(field: dict) -> str:
    """Of the struct; `in` is an operator of Julia's."""
    name = "in_" if field["of"] == "in" else field["of"]
    return f"{name}_packed" if field["kind"] == "packed" else name


def struct(schema: dict) -> str:
    """The arguments, as C lays them out."""
    lines = [f"struct {camel(schema['name'])}", "    struct_size::UInt32", "    operation::Int32"]
    lines += [f"    {field_name(each)}::{FIELD_TYPES[each['kind']]}" for each in schema["fields"]]
    return "\n".join([*lines, "end"])


def julia_name(operand: dict) -> str:
    """Of an argument."""
    return "x" if operand["name"] == "in" else operand["name"]


def allowed(schema: dict, rule: str) -> str:
    """The types of an operand, as Julia's checks take them."""
    names = {each["name"]: julia_name(each) for each in schema["operands"]}
    parts = []
    for each in rule.split("|"):
        if each in ("any", "float"):
            parts.append(each.upper())
        elif each.startswith("accumulator("):
            parts.append(f"kind(accumulator(eltype({names[each[12:-1]]})))")
        elif each in names:
            parts.append(f"kind(eltype({names[each]}))")
        else:
            parts.append(f"kind({words.TYPES[each]})")
    return " | ".join(parts)


def keywords(schema: dict, *, skipped: tuple[str, ...] = ()) -> list[str]:
    """Attributes and what may be left out, as a function declares them."""
    found = []
    for each in schema["operands"]:
        if each.get("optional"):
            found.append(f"{each['name']} = nothing")
    for each in schema["attributes"]:
        if each["name"] in skipped:
            continue
        said = each.get("suggested", "")
        default = f":{said}" if each["kind"] == "redop" else said
        default = "0" if each["kind"] == "rank" else default
        found.append(f"{each['name']} = {default}" if default else each["name"])
    return [*found, "timeout = nothing"]


def head(name: str, arguments: list[str], keys: list[str]) -> str:
    """The first lines of a function."""
    full = f"Base.{name}" if name in OF_BASE else name
    line = f"function {full}({', '.join(arguments)}; {', '.join(keys)})"
    if len(line) <= WIDTH:
        return line
    lines = [f"function {full}(", f"    {', '.join(arguments)};"]
    return "\n".join([*lines, *(f"    {each}," for each in keys), ")"])


def short(name: str, arguments: str, body: str) -> str:
    """A function of one line, or two."""
    full = f"Base.{name}" if name in OF_BASE else name
    line = f"{full}({arguments}; keywords...) = {body}"
    if len(line) <= WIDTH:
        return line
    return f"{full}({arguments}; keywords...) =\n    {body}"


def value(schema: dict, field: dict, places: dict[str, str], given: dict[str, str]) -> str:
    """What a call writes into a field."""
    of, kind = field["of"], field["kind"]
    if kind == "packed":
        return f"{of}_.packed"
    if of in places:
        return places[of]
    if of in given:
        return given[of]
    (attribute,) = [each for each in schema["attributes"] if each["name"] == of]
    turned = [each["name"] for each in schema["operands"] if each.get("turned_by") == of]
    if turned:
        return f"{turned[0]}_.turned"
    if attribute["kind"] == "redop":
        return f"redop({of})"
    if attribute["kind"] == "rank":
        return f'rank_number(comm, "{of}", {of})'
    return f'{NUMBERS[attribute["kind"]]}("{of}", {of})'


def call(
    schema: dict,
    who: str,
    tensors: list[tuple[str, str]],
    alive: list[str],
    given: dict[str, str],
) -> list[str]:
    """Tensors, struct, and sk_call(). `tensors`: an operand's name and what makes its tensor."""
    made = [made for _, made in tensors]
    tuple_ = f"({', '.join(made)}{',' if len(made) == 1 else ''})"
    line = f"    tensors = Ref({tuple_})"
    if len(line) > WIDTH:
        line = "\n".join(["    tensors = Ref((", *(f"        {each}," for each in made), "    ))"])
    places = {name: f"at[{number}]" for number, (name, _) in enumerate(tensors, start=1)}
    for name in list(places):
        operand = next(each for each in schema["operands"] if each["name"] == name)
        if operand.get("optional"):
            places[name] = f"{name} === nothing ? C_NULL : {places[name]}"
        elif operand.get("packed"):
            places[name] = f"{name}_.packed == C_NULL ? {places[name]} : C_NULL"
    values = [value(schema, each, places, given) for each in schema["fields"]]
    kind = camel(schema["name"])
    args = f"        args = {kind}(sizeof({kind}), {schema['id']}, {', '.join(values)})"
    if len(args) > WIDTH:
        rows = [f"            {each}," for each in (f"sizeof({kind})", schema["id"], *values)]
        args = "\n".join([f"        args = {kind}(", *rows, "        )"])
    return [
        line,
        f"    GC.@preserve tensors {' '.join(alive)} begin",
        "        at = places(tensors)",
        args,
        f"        sk_call({who}, {schema['id']}, Ref(args), timeout)",
        "    end",
    ]


def meeting(schema: dict) -> str:
    """No arrays."""
    name = schema["name"]
    about = words.docstring(schema, [f"{name}(comm; timeout)"], [], "")
    return "\n".join(
        [
            about,
            f"function {name}(comm::Ranks; timeout = nothing)",
            f"    sk_call(comm, {schema['id']}, Ref((UInt32(8), Int32({schema['id']}))), timeout)",
            "    return nothing",
            "end",
        ]
    )


def checks(schema: dict, names: list[dict]) -> list[str]:
    """That arrays are such, and of which types."""
    return [
        f'    holds("{julia_name(each)}", {julia_name(each)}, {allowed(schema, each["types"])})'
        for each in names
    ]


SHAPES = {
    (False, False): "same_size",
    (False, True): "all_parts",
    (True, False): "own_part",
    (True, True): "parts_alike",
}
"""By whether the input, and the output, has a part for every rank: Julia's check of sizes."""
NEW = {
    "same_size": "like_x",
    "all_parts": "like_all_parts",
    "own_part": "like_own_part",
    "parts_alike": "like_x",
}


def vectors(schema: dict) -> str:
    """One array in, one out."""
    name = schema["name"]
    (read,), (written,) = role(schema, "in"), role(schema, "out")
    sides = read["shape"].startswith("world *"), written["shape"].startswith("world *")
    shape = SHAPES[sides]
    keys = keywords(schema)
    said = "".join(f"; {key}" for key in [", ".join(k.replace(" = nothing", "") for k in keys)])
    forms = [f"{name}!(comm, out, x{said})", f"{name}(comm, x; ...)"]
    if shape == "same_size":
        forms.insert(1, f"{name}!(comm, x; ...)")
    lines = [
        words.docstring(schema, forms, words.vector_lines(schema, shape), "Returns `out`."),
        head(f"{name}!", ["comm::Ranks", *words.typed(name, "out", "x")], keys),
        *checks(schema, [read, written]),
        f"    {shape}(comm, out, x)",
        *call(
            schema,
            "comm",
            [(read["name"], 'vector("x", x)'), (written["name"], 'vector("out", out)')],
            ["x", "out"],
            {},
        ),
        "    return out",
        "end",
    ]
    typed = ", ".join(words.typed(name, "x"))
    if shape == "same_size":
        lines.append(
            short(f"{name}!", f"comm::Ranks, {typed}", f"{name}!(comm, x, x; keywords...)")
        )
    body = f"{name}!(comm, {NEW[shape]}(comm, x), x; keywords...)"
    lines += [short(name, f"comm::Ranks, {typed}", body)]
    return "\n".join(lines)


def rooted(schema: dict) -> str:
    """Vectors, of which one rank alone has the result, or what is dealt out."""
    name = schema["name"]
    (read,), (written,) = role(schema, "in"), role(schema, "out")
    shape = SHAPES[read["shape"].startswith("world *"), written["shape"].startswith("world *")]
    is_dealt = bool(read.get("only_on"))
    own, lacking = ("out", "x") if is_dealt else ("x", "out")
    keys = keywords(schema)
    said = ", ".join(key.replace(" = nothing", "") for key in keys)
    forms = [f"{name}!(comm, out, x; {said})"]
    if not is_dealt:
        forms.append(f"{name}(comm, x; ...)")
    returns = "Returns `out`." if is_dealt else "Returns `out` on rank `root`, `nothing` on others."
    maybe = {**schema, "operands": [{**each} for each in schema["operands"]]}
    for each in maybe["operands"]:
        each["optional"] = bool(each.get("only_on"))
    tensors = [
        (each["name"], f'vector("{array}", {array})')
        for each, array in ((read, "x"), (written, "out"))
    ]
    made = [
        (of, f"{lacking} === nothing ? NO_TENSOR : {text}" if lacking in text else text)
        for of, text in tensors
    ]
    body = call(maybe, "comm", made, ["x", "out"], {})
    absent = (read if is_dealt else written)["name"]
    body = [each.replace(f"{absent} === nothing ?", f"{lacking} === nothing ?") for each in body]
    lines = [
        words.docstring(schema, forms, words.vector_lines(schema, shape), returns),
        head(f"{name}!", ["comm::Ranks", *words.typed(f"{name}!", "out", "x")], keys),
        f'    holds("{own}", {own}, ANY)',
        '    if comm.rank == rank_number(comm, "root", root)',
        f'        holds("{lacking}", {lacking}, kind(eltype({own})))',
        f"        {shape}(comm, out, x)",
        "    else",
        f"        {lacking} = nothing",
        "    end",
        *body,
        "    return out",
        "end",
    ]
    if not is_dealt:
        new = f"comm.rank == root ? {NEW[shape]}(comm, x) : nothing"
        typed = ", ".join(words.typed(name, "x"))
        full = f"Base.{name}" if name in OF_BASE else name
        lines += [
            f"function {full}(comm::Ranks, {typed}; root = 0, keywords...)",
            f"    out = {new}",
            f"    return {name}!(comm, out, x; root = root, keywords...)",
            "end",
        ]
    return "\n".join(lines)


def pair(schema: dict) -> str:
    """A function for each of the two ends."""
    give, take = schema["name"].split("_")
    first, second = (each["name"] for each in schema["attributes"])
    (read,), (written,) = role(schema, "in"), role(schema, "out")
    ends = {"own": "Int32(comm.rank)", "peer": 'other_rank(comm, "peer", peer)'}
    lines = []
    for name, array, other, at, own, peer in (
        (give, "x", written, read, first, second),
        (f"{take}!", "out", read, written, second, first),
    ):
        forms = [f"{name}(comm, {array}, peer; timeout)"]
        tail = "Returns nothing."
        if array == "out":
            forms.append(f"{take}(comm, T, dims, peer; timeout)")
            tail = "Returns `out`, in the second form a new array of such a type and size."
        given = {own: ends["own"], peer: ends["peer"], other["name"]: "C_NULL"}
        lines += [
            words.docstring(schema, forms, words.pair_lines(array, take, give), tail),
            head(name, ["comm::Ranks", array, "peer"], ["timeout = nothing"]),
            f'    holds("{array}", {array}, ANY)',
            *call(schema, "comm", [(at["name"], f'vector("{array}", {array})')], [array], given),
            "    return out" if array == "out" else "    return nothing",
            "end",
            *([""] if array == "x" else []),
        ]
    body = f"{take}!(comm, new_array(T, dims), peer; keywords...)"
    lines.append(short(take, "comm::Ranks, T::Type, dims, peer", body))
    return "\n".join(lines)


def matrices(schema: dict) -> str:
    """A product: the factors in Julia's order, sizes from the shapes' ends."""
    name = schema["name"]
    read, (written,) = list(reversed(role(schema, "in"))), role(schema, "out")
    out = written["name"]
    arrays = [each["name"] for each in read]
    wanted = [*role(schema, "in"), written]
    lines = [
        words.docstring(
            schema,
            [
                f"{name}!(comm, {out}, {', '.join(arrays)}; timeout)",
                f"{name}(comm, {', '.join(arrays)}; out_type, timeout)",
            ],
            words.matrix_lines(schema, read, written),
            f"Returns `{out}`.",
        ),
        head(f"{name}!", ["comm::Ranks", out, *arrays], ["timeout = nothing"]),
    ]
    for each in wanted:
        array = each["name"]
        check = "holds_factor" if each["role"] == "in" else "holds_matrix"
        check = "holds_weights" if each.get("packed") else check
        lines.append(f'    {check}("{array}", {array}, {allowed(schema, each["types"])})')
    for each in role(schema, "in"):
        lines.append(f'    {each["name"]}_ = factor("{each["name"]}", {each["name"]})')
    bound: set[str] = set()
    for each in role(schema, "in"):
        axes = list(reversed(each["shape"].split(", ")))
        targets = ", ".join("_" if axis in bound else axis for axis in axes)
        lines.append(f"    {targets} = {each['name']}_.size")
        if bound & set(axes):
            text = f"({', '.join(axes)})"
            lines.append(f'    fits("{each["name"]}", {each["name"]}_.size, {text}, "{text}")')
        bound |= set(axes)
    size = ", ".join(reversed(written["shape"].split(", "))).replace("world", "comm.world_size")
    told = ", ".join(reversed(written["shape"].split(", ")))
    lines.append(f'    fits("{out}", size({out}), ({size}), "({told})")')
    tensors = []
    for each in schema["fields"]:
        if each["kind"] == "tensor":
            of = each["of"]
            tensors.append((of, f'columns("{of}", {of})' if of == out else f"{of}_.tensor"))
    lines += [*call(schema, "comm", tensors, [*arrays, out], {}), f"    return {out}", "end"]
    first = role(schema, "in")[0]["name"]
    sizes = {}
    for each in role(schema, "in"):
        for place, axis in enumerate(reversed(each["shape"].split(", ")), start=1):
            sizes.setdefault(axis, f'factor_size("{each["name"]}", {each["name"]})[{place}]')
    made = re.sub(r"\b[a-z]\b", lambda found: sizes[found[0]], size)
    lines += [
        f"function {name}(comm::Ranks, {', '.join(arrays)}; out_type = eltype({first}), "
        "timeout = nothing)",
        f"    {out} = new_array(out_type, ({made}))",
        f"    return {name}!(comm, {out}, {', '.join(arrays)}; timeout = timeout)",
        "end",
    ]
    return "\n".join(lines)


def conditions(schema: dict) -> list[str]:
    """Those of dimensions alone, in Julia's words; the library says the others."""
    return [
        f'    {each["holds"]} || invalid("{words.turned(each["sentence"])}")'
        for each in schema["conditions"]
        if re.fullmatch(r"[a-z] (>=|>|<|<=|==) \d+", each["holds"])
    ]


def rows(schema: dict) -> str:
    """An operation of this process alone on columns, as which the library's rows lie in Julia."""
    name = schema["name"]
    read = [each for each in role(schema, "in") if not each.get("optional")]
    written = [each for each in role(schema, "out") if not each.get("optional")]
    maybe = [each for each in schema["operands"] if each.get("optional")]
    first = read[0]
    if first["shape"] != "m, n" or any(
        each["shape"] not in ("m, n", "m", "n") for each in schema["operands"]
    ):
        raise SystemExit(
            f"{name} is no operation on rows as tools/make_julia_ops.py knows them: say there how"
            " such a call looks in Julia"
        )
    outs, ins = [each["name"] for each in written], [each["name"] for each in read]
    keys = keywords(schema)
    told = ", ".join(each.replace(" = nothing", "") for each in keys)
    lines = [
        words.docstring(
            schema,
            [f"{name}!({', '.join([*outs, *ins])}; {told})", f"{name}({', '.join(ins)}; ...)"],
            words.row_lines(schema, [*written, *read, *maybe]),
            f"Returns {words.listed([f'`{each}`' for each in outs])}; the second form makes "
            f"{'it' if len(outs) == 1 else 'them'}.",
        ),
        head(f"{name}!", [*outs, *ins], keys),
    ]
    x = first["name"]
    for each in (*read, *written, *maybe):
        array = each["name"]
        types = allowed(schema, each["types"])
        guard = f"{array} === nothing || " if each.get("optional") else ""
        lines.append(f'    {guard}holds("{array}", {array}, {types})')
    size_of = {"m, n": f"size({x})", "n": "(n,)", "m": "rest"}
    why = {"m, n": f"as {x} is", "n": "a column's length", "m": f"one for each column of {x}"}
    lines.append(f"    n, rest = column_size({x})")
    lines += conditions(schema)
    for each in (*read[1:], *written, *maybe):
        array, shape = each["name"], each["shape"]
        check = f'agree("{array}", {array}, {size_of[shape]}, "{why[shape]}")'
        guard = f"{array} === nothing || " if each.get("optional") else ""
        lines.append(f"    {guard}{check}")
    tensors = []
    for each in schema["operands"]:
        array = each["name"]
        maker = "columns" if each["shape"] == "m, n" else "vector"
        made = f'{maker}("{array}", {array})'
        if each.get("optional"):
            made = f"{array} === nothing ? NO_TENSOR : {made}"
        tensors.append((array, made))
    everything = [each["name"] for each in schema["operands"]]
    result = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    lines += [*call(schema, "Alone()", tensors, everything, {}), f"    return {result}", "end"]
    new = []
    for each in written:
        of = each["types"].split("|")[0]
        new.append(f"like({of})")
    body = f"{name}!({', '.join([*new, *ins])}; keywords...)"
    return "\n".join([*lines, short(name, ", ".join(ins), body)])


def lists(schema: dict) -> str:
    """An operation of this process alone on lists of arrays, in their place."""
    name = schema["name"]
    read = role(schema, "in")
    if any(not each.get("only_in_place") for each in role(schema, "out")):
        raise SystemExit(
            f"{name} has lists and results that are not in place: say in tools/make_julia_ops.py"
            " how such a call looks in Julia"
        )
    arrays = [each["name"] for each in read]
    keys = keywords(schema)
    told = ", ".join(each.replace(" = nothing", "") for each in keys)
    lines = [
        words.docstring(
            schema,
            [f"{name}!({', '.join(arrays)}; {told})"],
            words.list_lines(schema, read),
            "Returns nothing.",
        ),
        head(f"{name}!", arrays, keys),
    ]
    first = arrays[0]
    for each in read:
        types = allowed(schema, each["types"]).replace(f"eltype({first})", f"eltype_of({first})")
        lines.append(f'    {each["name"]}_ = list("{each["name"]}", {each["name"]}, {types})')
    for array in arrays[1:]:
        lines.append(f'    as_long("{array}", {array}_, "{first}", {first}_)')
    given = {"length": f"length({first}_.tensors)"}
    given |= {array: f"pointer({array}_.places)" for array in arrays}
    kind = camel(name)
    values = [value(schema, each, {}, given) for each in schema["fields"]]
    lines += [
        f"    GC.@preserve {' '.join(f'{array}_' for array in arrays)} begin",
        f"        args = {kind}(",
        *(f"            {each}," for each in (f"sizeof({kind})", schema["id"], *values)),
        "        )",
        f"        sk_call(Alone(), {schema['id']}, Ref(args), timeout)",
        "    end",
        "    return nothing",
        "end",
    ]
    return "\n".join(lines)


def written_form(schema: dict) -> str:
    """Which of the shapes of calls above it has."""
    if schema["scope"] == "local":
        return "lists" if any(each.get("list") for each in schema["operands"]) else "rows"
    shape = shape_of(schema)
    return "rooted" if shape == "vectors" and is_of_one(schema) else shape


FORMS = {
    "meeting": meeting,
    "vectors": vectors,
    "rooted": rooted,
    "pair": pair,
    "matrices": matrices,
    "rows": rows,
    "lists": lists,
}


def exported(schemas: list[dict]) -> list[str]:
    """What a user's `using` brings."""
    names = []
    for schema in schemas:
        name, form = schema["name"], written_form(schema)
        if form == "pair":
            give, take = name.split("_")
            names += [give, take, f"{take}!"]
        elif form == "meeting":
            names.append(name)
        else:
            has_new = form not in ("lists", "rooted") or role(schema, "out")[0].get("only_on")
            both = [name, f"{name}!"] if has_new else [f"{name}!"]
            names += [each for each in both if each not in OF_BASE]
    return names


def text(about: str, schemas: list[dict]) -> str:
    """A whole file."""
    names = textwrap.wrap("export " + ", ".join(exported(schemas)), WIDTH, subsequent_indent="    ")
    parts = [HEAD.format(about=about), "\n".join(names) + "\n"]
    for schema in schemas:
        if schema["operands"]:
            parts.append(struct(schema) + "\n")
        parts.append(FORMS[written_form(schema)](schema) + "\n")
    return "\n".join(parts)


def texts(schemas: list[dict]) -> dict[Path, str]:
    """By file."""
    alone = [each for each in schemas if each["scope"] == "local"]
    together = [each for each in schemas if each["scope"] != "local"]
    return {
        TOGETHER: text("What ranks do together", together),
        ALONE: text("What a process does alone, on all its cores", alone),
    }


def main() -> int:
    """Writes or checks."""
    return run(__doc__ or "", texts)


if __name__ == "__main__":
    sys.exit(main())
