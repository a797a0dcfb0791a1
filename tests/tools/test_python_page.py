"""docs/reference/python.md: it is what the docstrings make, and has all that is public."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import check_docs
import make_python_page
import pytest
from docstring_text import as_markdown, signature

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / make_python_page.PAGE).read_text()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package and its page, to plant faults in."""
    shutil.copytree(ROOT / make_python_page.PACKAGE, tmp_path / make_python_page.PACKAGE)
    (tmp_path / make_python_page.PAGE).parent.mkdir(parents=True)
    shutil.copy(ROOT / make_python_page.PAGE, tmp_path / make_python_page.PAGE)
    return tmp_path


def change(root: Path, name: str, old: str, new: str) -> None:
    path = root / make_python_page.PACKAGE / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_the_page_is_what_the_docstrings_say(copy: Path) -> None:
    assert list(check_docs.check_python_page(copy)) == []
    change(copy, "_comm.py", "How many ranks there are.", "How many there are.")
    (found,) = check_docs.check_python_page(copy)
    assert "run tools/make_python_page.py" in found


def test_all_that_is_public_has_its_place() -> None:
    package = make_python_page.Package(ROOT)
    assert {"Comm", "tile", "TimeoutError", "rmsnorm"} <= set(package.public)
    assert "`sk.OPERATIONS`" in PAGE
    for name in set(package.public) - {"OPERATIONS"}:
        assert re.search(rf"^### (sk\.)?{name}$|^\| `{name}`", PAGE, re.MULTILINE), name


@pytest.mark.parametrize(
    "call",
    [
        'sk.Comm(*, rank=None, world_size=None, bootstrap="auto", name=None, device=None,',
        "comm.broadcast(x, root=0, out=None, *, dtype=None, stream=None, timeout=None)",
        "comm.send(x, peer, *, dtype=None, stream=None, timeout=None)",
        "comm.recv(out=None, peer=None, *, shape=None, dtype=None, stream=None, timeout=None)",
        "comm.abort(",
        "comm.free(",
        "sk.topo()",
        "trace.gather()",
        "tile.check(",
        "libsk.torch.register(comm, name=None)",
        'torch.ops.sk.allreduce(x, comm, op="sum")',
    ],
)
def test_a_call_stands_there_with_its_defaults(call: str) -> None:
    assert f"```python\n{call}" in PAGE


def test_a_name_without_a_chapter_is_told(copy: Path) -> None:
    change(copy, "__init__.py", '__all__ = [\n    "AbortedError",', '__all__ = [\n    "Newcomer",')
    with pytest.raises(SystemExit, match="Newcomer: public names of libsk without a chapter"):
        make_python_page.page(copy)


def test_what_is_public_has_a_docstring(copy: Path) -> None:
    change(copy, "_topo.py", '"""The graph as text, which :meth:`parse` reads back."""', "")
    with pytest.raises(SystemExit, match="topo.dump is public and has no docstring"):
        make_python_page.page(copy)


def test_how_a_docstring_becomes_markdown() -> None:
    text = """First, ``a`` of :meth:`libsk.Comm.free`,
    see docs/env.md::

        x = 1

        y = 2

    ``n``, ``m``: shapes (n, *S)
        that go on
    ``f``: last
    """
    lines = "\n".join(line.removeprefix("    ") for line in text.splitlines())
    assert as_markdown(lines) == (
        "First, `a` of `libsk.Comm.free()`, see [docs/env.md](../env.md):\n\n"
        "```python\nx = 1\n\ny = 2\n```\n\n"
        "- `n`, `m`: shapes (n, \\*S) that go on\n- `f`: last"
    )


def test_how_a_call_is_shown() -> None:
    (made,) = ast.parse("def f(self, a, /, b='x', *args, c: int = 1e-05, _d=0, **more): ...").body
    assert isinstance(made, ast.FunctionDef)
    assert signature("o.f", made, 1) == 'o.f(a, /, b="x", *args, c=1e-5, **more)'
