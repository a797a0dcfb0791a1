"""The package's modules are layers: whoever is imported knows nothing of those who import it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "libsk"
Graph = dict[str, set[str]]


def modules_of(package: Path) -> dict[str, str]:
    """Source text by the name under which it is imported."""
    found = {}
    for path in [*package.rglob("*.pyi"), *package.rglob("*.py")]:
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def graph_of(sources: dict[str, str]) -> Graph:
    """By module, those that it imports: at its head, inside of functions, for types alone, and by
    their names as texts, which is how they are loaded at first use."""
    return {name: _imported(text, sources) - {name} for name, text in sources.items()}


def _imported(text: str, known: dict[str, str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, "the package imports by whole names"
            whole = {f"{node.module}.{each.name}" for each in node.names}
            # What is no module is a name of one.
            names |= whole if whole <= known.keys() else {node.module, *whole}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names & known.keys()


def circle_in(graph: Graph) -> list[str]:
    """The modules of one, the first of them again at its end; nothing where there is none."""
    done: set[str] = set()

    def walk(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := walk(other, [*path, name]):
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        if found := walk(name, []):
            return found
    return []


def test_no_circle() -> None:
    graph = graph_of(modules_of(PACKAGE))
    assert len(graph) > 40 and graph["libsk._comm"] > {"libsk._errors", "libsk._gpu"}
    circle = circle_in(graph)
    assert not circle, f"these import each other: {' -> '.join(circle)}"


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "from p import a",
        "from p.a import Thing",
        "def f():\n    from p.a import Thing",
        "if TYPE_CHECKING:\n    from p import a",
        'a = Lazy("p.a")',
    ],
)
def test_a_circle_is_found(back: str) -> None:
    sources = {"p": "", "p.a": "from p import b", "p.b": "from p.c import f", "p.c": ""}
    assert circle_in(graph_of(sources)) == []
    assert circle_in(graph_of({**sources, "p.c": back})) == ["p.a", "p.b", "p.c", "p.a"]


def test_what_an_import_loads() -> None:
    """Errors and names: all else, and NumPy, which takes longer than a rank's start, when used."""
    program = "import sys, libsk; print(*sorted(n for n in sys.modules if n.startswith('libsk')))"
    program += "; assert 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["libsk", "libsk._errors", "libsk._op_names"]


@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("first", ["import libsk; libsk.version()", "from libsk import Comm"])
def test_a_package_without_its_compiled_module_says_so(
    tmp_path: Path, first: str, archive: bool
) -> None:
    """A checkout's sources, an archive, another Python's installation."""
    shutil.copytree(PACKAGE, tmp_path / "libsk", ignore=shutil.ignore_patterns("*.so*", "bin"))
    place = shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path) if archive else tmp_path
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(place)!r}); {first}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    words = f"no compiled module of libsk for Python {sys.version.split()[0]} in {place}/libsk"
    assert f"ImportError: there is {words}" in done.stderr
    assert "During handling" not in done.stderr


def test_an_interrupt_comes_behind_an_import_that_nobody_asked_for(tmp_path: Path) -> None:
    """NumPy, half imported, cannot be imported again in that process."""
    (tmp_path / "large.py").write_text(
        "import os, signal, time\n"
        "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.1)\nwhole = True\n"
    )
    code = (
        "import signal, sys\nfrom libsk._lazy import Lazy\nlarge = Lazy('large')\n"
        # Who runs in the background ignores it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    large.whole\nexcept KeyboardInterrupt:\n"
        "    print(sys.modules['large'].whole, large.whole)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "True True\n", run.stderr
