"""Reads expressions (lib/op/expr.h) as Python does, and prints those that C++ read otherwise.

usage: read_as_python.py FILE   (fields between tabs; expr_python_test.cc writes it)
    names    m=7    x:float    y:other      binds numbers and operands for the lines that follow
    value    28     m * 4                   what C++ made of a text
    error    syntax m *                     ... or overflow, division, name
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

ARGUMENTS = {"cdiv": (2, 2), "min": (2, 99), "max": (2, 99), "is_float": (1, 1)}
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
LETTERS = re.compile(r"[a-z_0-9 ()+*/%<>=!,-]*")
# What Python reads too, without a trace in the tree: 00, 0x1f, 0or 1, max(m, k,), is_float((x)).
OTHERWISE = re.compile(r"\b0\d|\b\d+[a-z_]|, *\)|\bis_float *\( *\(")
DEPTH_MAX = 32
SHOWN_MAX = 20
CHECK = "?"  # No text can name it.


@dataclass(frozen=True)
class Operand:
    """What is_float() takes."""

    floating: bool


def is_float(operand: object) -> bool:
    if not isinstance(operand, Operand):
        raise TypeError("no operand")
    return operand.floating


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def fits(value: object) -> int:
    """The value, if int64 has it."""
    if not isinstance(value, int):
        raise TypeError("no number")
    if not -(2**63) <= value < 2**63:
        raise OverflowError
    return value


def is_ours(node: ast.expr) -> bool:
    """Whether the language has all that is in the tree."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, OPERATORS) and is_ours(node.left) and is_ours(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.Not)) and is_ours(node.operand)
    if isinstance(node, ast.BoolOp):
        return all(is_ours(each) for each in node.values)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return len(sides) == 2 and isinstance(node.ops[0], COMPARISONS) and all(map(is_ours, sides))
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.keywords:
            return False
        least, most = ARGUMENTS.get(node.func.id, (1, 0))
        if not least <= len(node.args) <= most or not all(map(is_ours, node.args)):
            return False
        return node.func.id != "is_float" or isinstance(node.args[0], ast.Name)
    if isinstance(node, ast.Name):
        return node.id not in ARGUMENTS and node.id != "__debug__"
    return isinstance(node, ast.Constant) and type(node.value) is int


class Checked(ast.NodeTransformer):
    """Has every value on the way go through fits(), where it is reached."""

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Call):
            if node.func.id != "is_float":
                node.args = [self.visit(each) for each in node.args]
        else:
            self.generic_visit(node)
        if not isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)):
            return node
        return ast.Call(func=ast.Name(CHECK, ast.Load()), args=[node], keywords=[])


def tree_of(text: str) -> ast.Expression | None:
    depths = accumulate((letter == "(") - (letter == ")") for letter in text)
    if not LETTERS.fullmatch(text) or OTHERWISE.search(text) or max(depths, default=0) > DEPTH_MAX:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return None
    return tree if is_ours(tree.body) else None


def outcome(text: str, names: dict[str, object]) -> list[str]:
    """What Python makes of a text, as the file's lines say it."""
    tree = tree_of(text)
    if tree is None:
        return ["error", "syntax"]
    checked = ast.fix_missing_locations(ast.Expression(Checked().visit(tree.body)))
    functions = {"cdiv": cdiv, "min": min, "max": max, "is_float": is_float, CHECK: fits}
    try:
        value = eval(compile(checked, text, "eval"), {"__builtins__": {}, **functions, **names})
    except ZeroDivisionError:
        return ["error", "division"]
    except OverflowError:
        return ["error", "overflow"]
    except (NameError, TypeError):
        return ["error", "name"]
    return ["value", str(int(value))]


def names_of(fields: list[str]) -> dict[str, object]:
    names: dict[str, object] = {}
    for field in fields:
        name, is_number, value = field.partition("=")
        if is_number:
            names[name] = int(value)
        else:
            name, _, kind = field.partition(":")
            names[name] = Operand(kind == "float")
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"Python can bind no {name}")
    return names


def main() -> None:
    names: dict[str, object] = {}
    texts = otherwise = 0
    for line in Path(sys.argv[1]).read_text().splitlines():
        kind, *fields = line.split("\t")
        if kind == "names":
            names = names_of(fields)
            continue
        here = outcome(fields[1], names)
        texts += 1
        if here == [kind, fields[0]]:
            continue
        otherwise += 1
        if otherwise <= SHOWN_MAX:
            print(f"{fields[1]!r}: {kind} {fields[0]} in C++, {' '.join(here)} in Python")
    print(f"{texts} texts, {otherwise} read otherwise")


if __name__ == "__main__":
    main()
