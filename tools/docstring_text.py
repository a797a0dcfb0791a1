"""Docstrings of the Python package as Markdown, for make_python_page.py.

What they are written in is a little of reStructuredText: ``code``, roles (:class:`libsk.Plan`),
code behind a ``::``, and lists of arguments, each of whose lines begins with a ``name``.
"""

from __future__ import annotations

import ast
import re
import textwrap

WIDTH = 100

_CODE = re.compile(r"``(.+?)``")
_ROLE = re.compile(r":(class|meth|func|attr|exc):`([^`]+)`")
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
_STAR = re.compile(r"\*(?=\w)")
_ITEM = re.compile(r"``[\w, `]+``: ")


def paragraph(lines: list[str]) -> str:
    """One line of Markdown: no word of it begins a list by chance of wrapping."""
    text = " ".join(line.strip() for line in lines)
    parts = re.split(r"(``.+?``|:\w+:`[^`]+`)", text)
    return "".join(_part(each, at % 2 == 1) for at, each in enumerate(parts))


def _part(text: str, is_code: bool) -> str:
    if not is_code:
        text = _STAR.sub(r"\\*", text)  # No emphasis: (n, *S) is a shape.
        return _PAGE.sub(r"[docs/\1.md](../\1.md)", text)
    if role := _ROLE.fullmatch(text):
        call = "()" if role[1] in ("meth", "func") else ""
        return f"`{role[2]}{call}`"
    return _CODE.sub(r"`\1`", text)


def as_markdown(docstring: str) -> str:
    """All of one, its paragraphs apart."""
    blocks: list[str] = []
    is_before_code = False
    for lines in _blocks(docstring):
        if is_before_code and all(line.startswith("    ") for line in lines if line):
            blocks.append("```python\n" + textwrap.dedent("\n".join(lines)) + "\n```")
            is_before_code = False
            continue
        is_before_code = lines[-1].endswith("::")
        if is_before_code:
            lines = [*lines[:-1], lines[-1][:-1]]
            if lines == [":"]:
                continue
        blocks.append(_items(lines) if _ITEM.match(lines[0]) else paragraph(lines))
    return "\n\n".join(blocks)


def _blocks(docstring: str) -> list[list[str]]:
    """Paragraphs; code keeps its empty lines."""
    blocks: list[list[str]] = []
    for part in re.split(r"\n\n+", docstring.strip("\n")):
        lines = part.split("\n")
        goes_on = blocks and blocks[-1][0].startswith("    ") and lines[0].startswith("    ")
        if goes_on:
            blocks[-1] += ["", *lines]
        else:
            blocks.append(lines)
    return blocks


def _items(lines: list[str]) -> str:
    """A list; lines that hang in belong to the one before."""
    items: list[list[str]] = []
    for line in lines:
        if line.startswith(" ") and items:
            items[-1].append(line)
        else:
            items.append([line])
    return "\n".join(f"- {paragraph(each)}" for each in items)


def signature(name: str, function: ast.FunctionDef, leave_out: int = 0) -> str:
    """How it is called, without types: docstrings tell more of them. ``leave_out``: so many of the
    first arguments are not given, ``self`` for example."""
    given = function.args
    plain = [*given.posonlyargs, *given.args]
    values = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    told = [_argument(each, value) for each, value in zip(plain, values, strict=True)][leave_out:]
    if given.posonlyargs and len(given.posonlyargs) > leave_out:
        told.insert(len(given.posonlyargs) - leave_out, "/")
    if given.vararg:
        told.append(f"*{given.vararg.arg}")
    elif given.kwonlyargs:
        told.append("*")
    told += [
        _argument(each, value)
        for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if not each.arg.startswith("_")
    ]
    if given.kwarg:
        told.append(f"**{given.kwarg.arg}")
    indent = " " * (len(name) + 1)
    return textwrap.fill(
        f"{name}({', '.join(told)})",
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _argument(each: ast.arg, value: ast.expr | None) -> str:
    if value is None:
        return each.arg
    text = ast.unparse(value).replace("'", '"')
    return f"{each.arg}={re.sub(r'e-0(?=[1-9])', 'e-', text)}"
