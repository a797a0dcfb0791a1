#!/usr/bin/env python3
"""Writes docs/reference/python.md from the package's docstrings, or says where it has drifted.

python3 tools/make_python_page.py            writes the page
python3 tools/make_python_page.py --check    ends with 1 where it would write another

Sources are read, not imported: neither the library nor torch is needed. A public name that stands
in no chapter ends the tool with a sentence. check_docs.py makes the check, too.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from docstring_text import as_markdown, paragraph, signature

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "bindings/python/libsk"
PAGE = "docs/reference/python.md"

CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Communicators", ("Comm", "comm")),
    ("Weights, calls and plans that are kept", ("Packed", "Prepared", "Plan", "check_plan")),
    ("Operations of this process alone", ("OPERATIONS",)),
    ("Tiles of your own", ("tile", "Tile")),
    ("Ranks from a script", ("Session", "Cell", "Result", "CellEvent", "CellError")),
    ("Traces", ("Trace",)),
    ("Machines", ("topo", "Topo")),
    ("Memory of a GPU", ("DeviceArray",)),
    ("The library in a process", ("Context", "version")),
    ("Exceptions", ("Error",)),
)
"""Names of ``libsk``; the operations, and exceptions derived from Error, stand for many."""

MADE_BY_USERS = {"Comm", "Context", "Session"}
"""Classes that are called; objects of the others are what functions give."""
OBJECTS = {
    "CellError": "error",
    "CellEvent": "event",
    "Comm": "comm",
    "DeviceArray": "array",
    "Error": "error",
}
"""What an object is called here; else as its class, in small letters."""
OF_TORCH = "torch"

HEAD = """\
# The Python package

Written by `tools/make_python_page.py` from the docstrings: `help(libsk.Comm)` shows the same. `sk`
is the module, by `import libsk as sk`, and `comm` a `sk.Comm`; a notebook has both from the start.

[The package's page](../../bindings/python/README.md) shows how to begin, that of
[operations](operations.md) what each one computes, [PyTorch](../pytorch.md) and
[Python on a GPU](../gpu-python.md) what is special there. What fails raises one of
[these exceptions](#exceptions).
"""
TORCH_HEAD = """\
## libsk.torch

`import libsk` does not bring it, but `import libsk.torch`. More: [PyTorch](../pytorch.md).
"""

Definition = ast.ClassDef | ast.FunctionDef


class Package:
    """Its sources, each parsed once."""

    def __init__(self, root: Path) -> None:
        self._folder = root / PACKAGE
        self._trees: dict[str, ast.Module] = {}
        self.operations = self._texts("_op_names", "OPERATIONS")
        self.public = [*self._texts("__init__", "__all__"), *self.operations]
        self.exceptions = [
            each
            for each in self.tree("_errors").body
            if isinstance(each, ast.ClassDef) and "Error" in map(ast.unparse, each.bases)
        ]
        self._home = {name: module for module, name in self._imports("__init__")}
        self._home |= dict.fromkeys(self.operations, "_ops") | {"version": "__init__"}

    def tree(self, module: str) -> ast.Module:
        """Of a module, by its file's name."""
        if module not in self._trees:
            self._trees[module] = ast.parse((self._folder / f"{module}.py").read_text())
        return self._trees[module]

    def _imports(self, module: str) -> Iterator[tuple[str, str]]:
        """Modules of the package, and names that a module takes from them."""
        for node in ast.walk(self.tree(module)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("libsk."):
                for each in node.names:
                    yield str(node.module).removeprefix("libsk."), each.name

    def _texts(self, module: str, name: str) -> list[str]:
        """Those of the tuple or list that a module assigns to a name."""
        for node in self.tree(module).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return [
                    each.value
                    for each in ast.walk(node.value)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
        raise SystemExit(f"{PACKAGE}/{module}.py assigns nothing to {name}")

    def find(self, name: str, module: str = "") -> Definition:
        """The last of this name: functions for checkers of types stand before the one that runs."""
        home = module or self._home[name]
        found = [
            node
            for node in self.tree(home).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
        ]
        if not found:
            raise SystemExit(f"{PACKAGE}/{home}.py has no {name}")
        return found[-1]

    def members(self, name: str, found: ast.ClassDef) -> list[ast.stmt]:
        """What stands in a class, behind what its bases have for users."""
        bases = set(map(ast.unparse, found.bases))
        inherited = [
            node
            for module, base in self._imports(self._home[name])
            if base in bases and base != "Here"
            for node in getattr(self.find(base, module), "body", [])
        ]
        return [*inherited, *found.body]


def doc_of(node: ast.Module | Definition, name: str) -> str:
    """What is public says what it is."""
    text = ast.get_docstring(node)
    if not text:
        raise SystemExit(f"{name} is public and has no docstring")
    return text


def is_decorated(node: ast.FunctionDef, name: str) -> bool:
    """By the last part of a decorator's name."""
    return any(ast.unparse(each).split(".")[-1] == name for each in node.decorator_list)


def methods(members: list[ast.stmt]) -> list[ast.FunctionDef]:
    """Those for users, as they run."""
    return [
        node
        for node in members
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not is_decorated(node, "overload")
        and not is_decorated(node, "property")
    ]


def attributes(members: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Properties, and what is assigned with a docstring behind it: names and texts."""
    functions = [node for node in members if isinstance(node, ast.FunctionDef)]
    for node in functions:
        if is_decorated(node, "property") and not node.name.startswith("_"):
            yield node.name, doc_of(node, node.name)
    makers = [node.body for node in functions if node.name == "__init__"]
    for body in (members, *makers):
        for node, behind in zip(body, body[1:], strict=False):
            told = behind.value if isinstance(behind, ast.Expr) else None
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(told, ast.Constant):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                name = ast.unparse(target).removeprefix("self.")
                if not name.startswith("_"):
                    yield name, inspect.cleandoc(str(told.value))


def function(name: str, node: ast.FunctionDef, level: str, leave_out: int = 0) -> str:
    """Its part of the page."""
    called = signature(name, node, leave_out)
    text = as_markdown(doc_of(node, name))
    return f"\n{level} {name}\n\n```python\n{called}\n```\n\n{text}\n"


def class_(package: Package, name: str, found: ast.ClassDef) -> str:
    """A class with its attributes and methods."""
    members = package.members(name, found)
    called = OBJECTS.get(name, name.lower())
    text = f"\n### {name}\n"
    if name in MADE_BY_USERS:
        (made,) = (each for each in found.body if getattr(each, "name", "") == "__init__")
        assert isinstance(made, ast.FunctionDef)
        text += f"\n```python\n{signature(f'sk.{name}', made, 1)}\n```\n"
    text += f"\n{as_markdown(doc_of(found, name))}\n"
    rows = [
        f"- `{called}.{each}`: {paragraph(doc.splitlines())}" for each, doc in attributes(members)
    ]
    if rows:
        text += "\n" + "\n".join(rows) + "\n"
    for each in methods(members):
        owner = f"sk.{name}" if is_decorated(each, "classmethod") else called
        text += function(f"{owner}.{each.name}", each, "####", 1)
    return text


def exceptions(package: Package) -> str:
    """Those derived from Error, as a table."""
    rows = ["| | |", "|---|---|"]
    for each in package.exceptions:
        also = [base for base in map(ast.unparse, each.bases) if base != "Error"]
        told = f", a `{also[0].removeprefix('builtins.')}`" if also else ""
        doc = paragraph(doc_of(each, each.name).splitlines())
        rows.append(f"| `{each.name}`{told} | {doc} |")
    return "\n" + "\n".join(rows) + "\n\n[Error codes](errors.md) says what goes on after each.\n"


def chapter(package: Package, names: tuple[str, ...]) -> str:
    """What stands below a heading."""
    text = ""
    for name in names:
        if name == "OPERATIONS":
            text += f"\n{as_markdown(_without_origin(doc_of(package.tree('_ops'), '_ops')))}\n"
            text += "\n`sk.OPERATIONS` has their names.\n"
            told = [(f"sk.{each}", package.find(each)) for each in package.operations]
        else:
            told = [(f"sk.{name}", package.find(name))]
        for called, found in told:
            if isinstance(found, ast.ClassDef):
                text += class_(package, name, found)
            else:
                text += function(called, found, "###")
        if name == "Error":
            text += exceptions(package)
    return text


def _without_origin(text: str) -> str:
    """Who wrote a file is nothing to its readers here."""
    return "\n\n".join(p for p in text.split("\n\n") if not p.startswith("Written by "))


def of_torch(package: Package) -> str:
    """The part of the package that knows torch."""
    tree = package.tree(OF_TORCH)
    text = f"\n{TORCH_HEAD}\n{as_markdown(doc_of(tree, 'libsk.torch'))}\n"
    found = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and (is_decorated(node, "custom_op") or any("custom_op(" in d for d in _told(node)))
    ]
    register = package.find("register", OF_TORCH)
    assert isinstance(register, ast.FunctionDef)
    text += function("libsk.torch.register", register, "###")
    for node in found:
        text += function(f"torch.ops.sk.{node.name}", node, "###")
    names = ", ".join(f"`torch.ops.sk.{name}`" for name in package.operations)
    return f"{text}\nWithout a communicator, as the functions of `libsk`: {names}.\n"


def _told(node: ast.FunctionDef) -> list[str]:
    return [ast.unparse(each) for each in node.decorator_list]


def page(root: Path) -> str:
    """The whole of it."""
    package = Package(root)
    placed = {name for _, names in CHAPTERS for name in names}
    placed |= {*package.operations, *(each.name for each in package.exceptions)}
    missing = sorted(set(package.public) - placed)
    if missing:
        raise SystemExit(
            f"{', '.join(missing)}: public names of libsk without a chapter; give them one in"
            " CHAPTERS of tools/make_python_page.py"
        )
    text = HEAD
    for title, names in CHAPTERS:
        text += f"\n## {title}\n{chapter(package, names)}"
    return text + of_torch(package)


def has_drifted(root: Path) -> bool:
    """Whether the page is another than the docstrings make."""
    path = root / PAGE
    return not path.is_file() or path.read_text() != page(root)


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        (ROOT / PAGE).write_text(page(ROOT))
    elif has_drifted(ROOT):
        print(f"{PAGE} is not what tools/make_python_page.py writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
