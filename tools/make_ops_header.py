#!/usr/bin/env python3
"""Writes include/sk/ops.h and docs/reference/operations.md from the library's own schemas, or says
where they have drifted.

python3 tools/make_ops_header.py LIBSK.SO            writes both
python3 tools/make_ops_header.py --check LIBSK.SO    ends with 1 where it would write another
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "include" / "sk" / "ops.h"
PAGE = ROOT / "docs" / "reference" / "operations.md"
WIDTH = 96

# Functions from before sk_call(): their names are taken.
FROZEN = {"barrier", "allreduce", "allgather", "reduce_scatter", "broadcast", "allreduce_gemm"}
FROZEN |= {"allgather_gemm"}
NO_WRAPPER = FROZEN | {"send_recv"}
ENUMERATED_IN_OP_H = 8

HEAD = """\
/* The arguments of every operation, and a typed wrapper of sk_call() for each that has no function
 * of its own in sk/op.h. Written by tools/make_ops_header.py from the library's schemas.
 *
 * Set struct_size to sizeof the struct; `operation` may be 0. A tensor of a result is written to;
 * numbers have no defaults. */
/* clang-format off */
#ifndef SK_OPS_H_
#define SK_OPS_H_

#include "sk/call.h"

#ifdef __cplusplus
extern "C" {
#endif
"""

TAIL = """
#ifdef __cplusplus
}
#endif
#endif /* SK_OPS_H_ */
"""


def read_schemas(library: Path) -> list[dict]:
    """All operations, as the library describes them."""
    sk = ctypes.CDLL(str(library))
    size = ctypes.c_size_t()
    sk.sk_op_describe(None, None, ctypes.c_size_t(0), ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    if sk.sk_op_describe(None, text, ctypes.c_size_t(len(text)), ctypes.byref(size)) != 0:
        raise SystemExit("sk_op_describe failed")
    return json.loads(text.value)


def comment(text: str, lead: str = "/** ", indent: str = "") -> str:
    """A comment of C, wrapped."""
    lines = textwrap.wrap(text, WIDTH - len(indent) - 4)
    body = f"\n{indent} *  ".join(lines)
    return f"{indent}{lead}{body} */"


def types_doc(types: str) -> str:
    """The rules of a schema, as a sentence has them."""
    words = {"any": "of any type", "float": "f32, f64, bf16 or f16"}
    told = []
    for rule in types.split("|"):
        if rule.startswith("accumulator("):
            told.append(f"of the type of sums of {rule[12:-1]}")
        elif rule in words or rule in ("f32", "f64", "bf16", "f16", "i32", "i64"):
            told.append(words.get(rule, rule))
        else:
            told.append(f"of {rule}'s type")
    return " or ".join(told)


def operand_doc(operand: dict) -> str:
    """What a tensor of the struct is."""
    shape = f"[{operand['shape']}]"
    if operand.get("only_in_place"):
        return f"{shape}, what becomes of {operand['alias']}, in its place"
    parts = [shape, types_doc(operand["types"])]
    if operand.get("list"):
        parts = ["tensors of any shapes", f"{shape} elements in all", parts[1]]
    if operand.get("not_negative"):
        parts.append("0 or more")
    if operand.get("turned_by"):
        parts.append(f"transposed with {operand['turned_by']}")
    if operand.get("only_on"):
        parts.append(f"of rank {operand['only_on']} alone")
    if operand.get("alias"):
        at = operand["alias_at"]
        parts.append(f"may be {operand['alias']}" + ("" if at == "0" else f" + {at} elements"))
    if operand.get("optional"):
        parts.append("may be NULL")
    if operand.get("doc"):
        parts.append(operand["doc"])
    return ", ".join(parts)


def attribute_doc(attribute: dict) -> str:
    """What a number of the struct is."""
    kind = {"redop": "enum sk_redop", "bool": "0 or 1", "rank": "a rank"}.get(attribute["kind"], "")
    parts = [kind] if kind else []
    if attribute["kind"] == "float":
        parts.append(f"{attribute['lowest']} to {attribute['highest']}")
    if attribute.get("least") or attribute.get("most"):
        least, most = attribute.get("least"), attribute.get("most")
        both = f"{least} to {most}" if least and most else ""
        parts.append(both or (f"{least} or more" if least else f"at most {most}"))
    if attribute.get("doc"):
        parts.append(attribute["doc"])
    if attribute.get("runtime"):
        parts.append("another one is no other plan")
    if attribute.get("suggested") and attribute["kind"] in ("int", "float"):
        parts.append(f"usually {attribute['suggested']}")
    return "; ".join(parts)


def is_written(schema: dict, operand: dict) -> bool:
    """Whether a call leaves something else where that was."""
    within = [each["alias"] for each in schema["operands"] if each.get("only_in_place")]
    return operand["role"] == "out" or operand["name"] in within


def fields(schema: dict) -> list[str]:
    """The struct's fields behind struct_size and op."""
    operands = {each["name"]: each for each in schema["operands"]}
    attributes = {each["name"]: each for each in schema["attributes"]}
    lines = []
    for field in schema["fields"]:
        of, kind = field["of"], field["kind"]
        if kind == "tensor":
            const = "const " if operands[of]["role"] == "in" else ""
            lines += [comment(operand_doc(operands[of]), indent="  "), f"  {const}sk_tensor* {of};"]
        elif kind == "list":
            written = is_written(schema, operands[of])
            doc = operand_doc(operands[of]) + (", overwritten" if written else "")
            const = "" if written else "const "
            lines += [comment(doc, indent="  "), f"  {const}sk_tensor* const* {of};"]
        elif kind == "length":
            lines += [comment("Tensors of each list.", indent="  "), f"  int64_t {of};"]
        elif kind == "packed":
            lines.append(comment(f"{of} as sk_pack() left it; {of} is NULL then", indent="  "))
            lines.append(f"  const sk_packed* {of}_packed;")
        else:
            c_type = {"int32": "int32_t", "int64": "int64_t", "double": "double"}[kind]
            if doc := attribute_doc(attributes[of]):
                lines.append(comment(doc, indent="  "))
            lines.append(f"  {c_type} {of};")
    return lines


def about(schema: dict) -> str:
    """The comment above the struct."""
    text = schema.get("summary", "")
    dimensions = [f"{d['name']}: {d['doc']}" for d in schema["dimensions"] if d.get("doc")]
    if dimensions:
        text += " " + "; ".join(dimensions) + "."
    for condition in schema["conditions"]:
        text += f" {condition['sentence'][0].upper()}{condition['sentence'][1:]}."
    if schema["scope"] == "local":
        text += " Local: no other rank takes part."
    if schema.get("source"):
        text += f" Source: {schema['source']}"
    return text.strip()


def operation(schema: dict) -> str:
    """One operation's struct and wrapper."""
    name = schema["name"]
    lines = ["", comment(about(schema))]
    lines.append(f"typedef struct sk_{name}_args {{")
    lines.append(
        f"  uint32_t struct_size;\n  int32_t operation; /**< 0 or SK_OP_{name.upper()}. */"
    )
    lines += fields(schema)
    lines.append(f"}} sk_{name}_args;")
    if name not in NO_WRAPPER:
        lines.append(
            f"SK_NODISCARD static inline sk_status sk_{name}(sk_comm* comm, "
            f"const sk_{name}_args* args,\n    const sk_run_options* options) {{\n"
            f"  return sk_call(comm, SK_OP_{name.upper()}, args, options);\n}}"
        )
    return "\n".join(lines)


def header(schemas: list[dict]) -> str:
    """The whole of it."""
    text = HEAD
    later = [each for each in schemas if each["id"] > ENUMERATED_IN_OP_H]
    if later:
        numbers = ",\n".join(f"  SK_OP_{each['name'].upper()} = {each['id']}" for each in later)
        text += f"\n/** Behind those of enum sk_op_kind. */\nenum sk_op_id {{\n{numbers}\n}};\n"
    for schema in schemas:
        if schema["operands"]:
            text += operation(schema) + "\n"
    return text + TAIL


def table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Of Markdown."""
    lines = [names, tuple("---" for _ in names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def chapter(schema: dict) -> str:
    """One operation's part of the page."""
    text = f"\n## {schema['name']}\n\n{about(schema)}\n"
    if schema["operands"]:
        rows = [
            (f"`{each['name']}`", each["role"], operand_doc(each)) for each in schema["operands"]
        ]
        text += "\n" + table(("operand", "", ""), rows)
    if schema["attributes"]:
        rows = [
            (f"`{each['name']}`", each["kind"], attribute_doc(each))
            for each in schema["attributes"]
        ]
        text += "\n" + table(("attribute", "", ""), rows)
    if schema.get("meaning"):
        steps = schema["meaning"].replace("; ", "\n")
        text += f"\nWhat it means, element by element (`@r`: of rank r):\n\n```\n{steps}\n```\n"
    return text


def page(schemas: list[dict]) -> str:
    """The reference."""
    text = (
        "# Operations\n\n"
        "Written by `tools/make_ops_header.py` from the library's schemas; `sk ops` shows the same."
        " From C an operation is called by its function in `sk/op.h`, by its wrapper in `sk/ops.h`,"
        " or by `sk_call()`.\n"
    )
    return text + "".join(chapter(each) for each in schemas)


def run(about: str, texts: Callable[[list[dict]], dict[Path, str]]) -> int:
    """A tool that writes files from the schemas of the library that it is given, or checks them."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("library", type=Path)
    options = parser.parse_args()
    drifted = 0
    for path, text in texts(read_schemas(options.library)).items():
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} is not what tools/{Path(sys.argv[0]).name} writes", file=sys.stderr)
            drifted = 1
    return drifted


def main() -> int:
    """Writes or checks."""
    return run(__doc__ or "", lambda schemas: {HEADER: header(schemas), PAGE: page(schemas)})


if __name__ == "__main__":
    sys.exit(main())
