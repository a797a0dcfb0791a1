"""The help of Julia's functions, from the words of schemas, for make_julia_ops.py.

The words of a schema are those of row-major arrays. In Julia an array's size is its shape from the
end, so what they say of rows holds of columns: indices, sides and products are turned around.
"""

from __future__ import annotations

import re
import textwrap

from make_ops_header import attribute_doc, is_written, types_doc

WIDTH = 100
TYPES = {
    "f32": "Float32",
    "f64": "Float64",
    "bf16": "BFloat16",
    "f16": "Float16",
    "i32": "Int32",
    "i64": "Int64",
}
OF_BASE = {"broadcast", "broadcast!", "reduce"}
"""Names that Base exports: they get methods for communicators."""
SIDES = {
    "rows": "columns",
    "columns": "rows",
    "row": "column",
    "column": "row",
    "Rows": "Columns",
    "Columns": "Rows",
    "below": "beside",
    "beside": "below",
}
ERRORS = (
    "Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref); with a"
    " `code` below 20 nothing was changed."
)


def turned(text: str) -> str:
    """A schema's words, of column-major arrays."""
    text = re.sub(r"\[(\w+), (\w+)\]", r"[\2, \1]", text)
    text = re.sub(r"\ba \* b\b", "b * a", text)
    text = re.sub(r"= ([^:.]+), times ([^:.]+)", r"= \2, times \1", text)
    text = re.sub(r"\b(" + "|".join(SIDES) + r")\b", lambda found: SIDES[found[0]], text)
    return text


def in_julia(text: str) -> str:
    """Types by Julia's names, and its word for nothing."""
    text = re.sub(r"\b(" + "|".join(TYPES) + r")\b", lambda found: TYPES[found[0]], text)
    return text.replace("SK_ERR_DESYNC", "`SK_ERR_DESYNC`").replace("may be NULL", "")


def wrap(text: str, indent: str = "", hang: str = "") -> str:
    """A paragraph."""
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hang,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(lines)


def listed(names: list[str]) -> str:
    """In a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def typed(name: str, *arrays: str) -> list[str]:
    """Arguments of a function; of a name of Base's they are arrays, so that its own stay clear."""
    return [f"{each}::AbstractArray" if name in OF_BASE else each for each in arrays]


def has_sides(schema: dict) -> bool:
    """Whether it knows rows from columns."""
    return any(", " in each["shape"] for each in schema["operands"])


def about(schema: dict) -> list[str]:
    """Paragraphs of what it does."""
    change = turned if has_sides(schema) else (lambda text: text)
    summary = in_julia(change(schema["summary"]))
    summary = re.sub(r"\bin\[", "x[", summary)
    first, *rest = summary.split(". ", 1)
    found = [first.rstrip(".") + "."]
    rest_text = rest[0] if rest else ""
    dimensions = [
        f"{each['name']}: {change(each['doc'])}"
        for each in schema["dimensions"]
        if each.get("doc") and each["name"] != "count"
    ]
    if dimensions:
        rest_text += f" {'; '.join(dimensions)}."
    elif schema["operands"] and not has_sides(schema) and "list" not in str(schema["operands"]):
        rest_text += " Indices count from 0 here, elements in the order in which they lie."
    for each in schema["conditions"]:
        sentence = change(each["sentence"])
        rest_text += f" {sentence[0].upper()}{sentence[1:]}."
    if rest_text.strip():
        found.append(rest_text.strip())
    return found


def docstring(schema: dict, forms: list[str], lines: list[str], returns: str) -> str:
    """The whole of one."""
    parts = ['"""', *(line for each in forms for line in form(each)), ""]
    for paragraph in about(schema):
        parts += [wrap(paragraph), ""]
    if lines:
        parts += [*lines, ""]
    if schema["scope"] == "local":
        returns += " No other rank takes part, and any thread may call it."
    parts += [wrap(f"{returns} {ERRORS}".strip()), ""]
    if schema.get("source"):
        parts += [wrap(f"Source: {schema['source']}"), ""]
    text = "\n".join(parts[:-1]).replace("\\", "\\\\").replace("$", "\\$")
    return text + '\n"""'


def form(text: str) -> list[str]:
    """A signature, as Julia's help shows it."""
    whole = text.replace(" = ", "\0=\0")  # A default stays beside its name.
    lines = textwrap.wrap(whole, WIDTH - 4, subsequent_indent="    ")
    return [f"    {each}".replace("\0", " ") for each in lines]


def item(name: str, *parts: str) -> str:
    """A line of a list."""
    return wrap(f"- `{name}`: " + ", ".join(part for part in parts if part), hang="  ")


def attribute_items(schema: dict, skipped: tuple[str, ...] = ()) -> list[str]:
    """What the numbers are."""
    kinds = {
        "redop": "`+`, `*`, `min`, `max`, or `:sum`, `:prod`, `:min`, `:max`, `:avg`",
        "rank": "the number of a rank, from 0",
    }
    found = []
    for each in schema["attributes"]:
        if each["name"] in skipped or each["kind"] == "bool":
            continue
        doc = each.get("doc", "") if each["kind"] in kinds else attribute_doc(each)
        told = "; ".join(part for part in (kinds.get(each["kind"], ""), doc) if part)
        found.append(item(each["name"], told))
    return [*found, item("timeout", "the longest wait, in seconds")]


def vector_lines(schema: dict, shape: str) -> list[str]:
    """Of one array in, one out."""
    (read,) = [each for each in schema["operands"] if each["role"] == "in"]
    size = "an array of any size, the same on every rank"
    result = "as `x`"
    if shape == "all_parts":
        result = "`(size(x)..., world_size)`, or `x` for each rank along its last dimension"
    elif shape == "parts_alike":
        size = "an array whose last dimension has a part for each rank, in their order"
    elif shape == "own_part":
        size = "an array whose last dimension is that of `out` for each rank, in their order"
        result = "this rank's part of `x`"
    (written,) = [each for each in schema["operands"] if each["role"] == "out"]
    root = read.get("only_on")
    only = f"read on rank `{root}`; on others it only says size and type" if root else ""
    if root and shape == "own_part":
        only = f"read on rank `{root}`; on others it may be `nothing`"
    in_place = "may be `x`" if written.get("alias") or read.get("may_be_in") else ""
    if written.get("only_on"):
        in_place = f"on rank `{written['only_on']}`; on others it may be `nothing`"
    return [
        item("x", size, in_julia(types_doc(read["types"])), only),
        item("out", result, "of its type", in_place),
        *attribute_items(schema),
    ]


def pair_lines(array: str, take: str, give: str) -> list[str]:
    """Of one end of two."""
    other = f"{take}!" if array == "x" else give
    return [
        item(array, "an array of any size, of any type"),
        item("peer", f"the number, from 0, of the rank that calls [`{other}`](@ref)"),
        item("timeout", "the longest wait, in seconds"),
    ]


def reversed_shape(each: dict) -> str:
    """As a size."""
    return f"({', '.join(reversed(each['shape'].split(', ')))})"


def matrix_lines(schema: dict, read: list[dict], written: dict) -> list[str]:
    """Of a product."""
    out = written["name"]
    lines = [
        item(
            out,
            f"size `{reversed_shape(written)}`".replace("world", "world_size"),
            in_julia(types_doc(written["types"])),
        )
    ]
    for each in read:
        turned_by = "or a `transpose` of such a matrix" if each.get("turned_by") else ""
        packed = "or what [`pack`](@ref) made of it" if each.get("packed") else ""
        reached = "peers read it there where it is symmetric" if each.get("reached") else ""
        types = in_julia(types_doc(each["types"]))
        doc = turned(each.get("doc", ""))
        size = f"size `{reversed_shape(each)}`"
        lines.append(item(each["name"], size, types, turned_by, packed, doc, reached))
    lines.append(item("out_type", "that of the new array"))
    about_views = "Columns may lie apart, as those of `view(A, 1:3, :)`."
    return [*lines, *attribute_items(schema), "", about_views]


def row_lines(schema: dict, operands: list[dict]) -> list[str]:
    """Of columns and what belongs to them."""
    lines = []
    for each in operands:
        size = {
            "m, n": "size `(n, ...)`",
            "n": "size `(n,)`",
            "m": "a number for each column: size `(...)`",
        }[each["shape"]]
        alias = f"may be `{each['alias']}`" if each.get("alias") else ""
        optional = "may be left out" if each.get("optional") else ""
        doc = turned(each.get("doc", ""))
        types = in_julia(types_doc(each["types"]))
        lines.append(item(each["name"], size, types, alias, optional, doc))
    return [*lines, *attribute_items(schema)]


def list_lines(schema: dict, operands: list[dict]) -> list[str]:
    """Of lists of arrays."""
    lines = []
    for each in operands:
        lines.append(
            item(
                each["name"],
                "a list of arrays",
                in_julia(types_doc(each["types"])),
                "0 or more" if each.get("not_negative") else "",
                each.get("doc", ""),
                "overwritten" if is_written(schema, each) else "",
            )
        )
    return [*lines, *attribute_items(schema)]
