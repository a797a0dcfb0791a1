"""The same cells in Python and in Julia lead to the same messages: outputs of ranks are merged by
one engine, which knows no language."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SK, Cell, Kernel, Kernels
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

RANKS = 4
NAME = re.compile(r"^\w+: ")

CELLS = {
    "alike": ("print('hello')", 'println("hello")'),
    "by rank": ("print('rank', rank)", 'println("rank ", rank)'),
    "mixed lines": (
        "print('begin')\nprint('even' if rank % 2 == 0 else 'odd')\nprint('end')",
        'println("begin"); println(rank % 2 == 0 ? "even" : "odd"); println("end")',
    ),
    "lines of one rank": (
        "for i in range(3):\n    print('both', i)\n    if rank == 1: print('only', i)",
        'for i in 0:2\n println("both ", i)\n rank == 1 && println("only ", i)\nend',
    ),
    "no newline": ("print('x', end='')", 'print("x")'),
    "a line that is rewritten": (
        "for i in range(4): print(f'\\rstep {i}', end='')\nprint()",
        'for i in 0:3; print("\\rstep ", i); end; println()',
    ),
    "stderr": (
        "import sys\nprint('bad', rank, file=sys.stderr)\nprint('good')",
        'println(stderr, "bad ", rank); println("good")',
    ),
    "a value of all": ("6 * 7", "6 * 7"),
    "a value of each": ("rank * 10", "rank * 10"),
    "a value of some": ("5 if rank < 2 else None", "rank < 2 ? 5 : nothing"),
    "print and value": ("print('p', rank)\nrank // 2", 'println("p ", rank); rank ÷ 2'),
    "a display of all": (
        "from IPython.display import HTML, display\ndisplay({'text/html': '<b>x</b>'}, raw=True)",
        'display("text/html", "<b>x</b>")',
    ),
    "a display of each": (
        "display({'text/html': f'<b>{rank}</b>'}, raw=True)",
        'display("text/html", "<b>$rank</b>")',
    ),
    "a picture of each": (
        "display({'image/png': bytes([0x89, rank])}, raw=True)",
        'display("image/png", UInt8[0x89, rank])',
    ),
    "mixed outputs": (
        "print('before')\n"
        "if rank == 1: display({'text/html': 'one'}, raw=True)\n"
        "print('after', rank)",
        'println("before"); rank == 1 && display("text/html", "one"); println("after ", rank)',
    ),
    "cleared": (
        "from IPython.display import clear_output\n"
        "print('gone')\nclear_output()\nprint('kept', rank)",
        'println("gone"); sk.clear_output(); println("kept ", rank)',
    ),
    "an error of all": ("raise ValueError('boom')", 'error("boom")'),
    "an error of one": (
        "if rank == 2: raise ValueError('no data')\nprint('done')",
        'rank == 2 && error("no data"); println("done")',
    ),
    "errors of each": (
        "print('in')\nraise ValueError(f'bad {rank}')",
        'println("in"); error("bad $rank")',
    ),
    "a flood": (
        "for i in range(30000): print(i)",
        "for i in 0:29999; println(i); end",
    ),
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel of Python ranks."""
    kernels = tmp_path_factory.mktemp("kernels")
    (kernels / "p").mkdir()
    argv = [str(SK), "kernel", "-f", "{connection_file}", "--ranks", str(RANKS)]
    argv += ["--", sys.executable, "-m", "libsk.kernel"]
    text = {"argv": argv, "display_name": "p", "language": "python", "interrupt_mode": "message"}
    (kernels / "p" / "kernel.json").write_text(json.dumps(text))
    specs = KernelSpecManager(kernel_dirs=[str(kernels)])
    manager = KernelManager(kernel_name="p", kernel_spec_manager=specs)
    manager.start_kernel(cwd=str(Path.cwd()))
    kernel = Kernel(manager)
    yield kernel
    kernel.stop()


def told(cell: Cell) -> list[Any]:
    """What a notebook keeps, without what is the language's own: a traceback, an error's name, the
    number in front of a hint to a log."""
    kept: list[Any] = []
    places: dict[str | None, int] = {}  # Of displays, which later ones may replace.
    for message in cell.kept():
        content, kind = message["content"], message["msg_type"]
        if kind == "stream":
            if kept and kept[-1][:2] == ["stream", content["name"]]:
                kept[-1][2] += content["text"]
                continue
            kept.append(["stream", content["name"], content["text"]])
        elif kind == "error":
            headings = [line for line in content["traceback"] if "────" in line]
            # Those that fail at the same time have no order.
            errors = [NAME.sub("", each) for each in content["evalue"].split("; ")]
            kept.append(["error", sorted(errors), len(headings)])
        else:
            data = json.dumps(content["data"]).replace(
                f"log {cell.reply['execution_count']}", "log"
            )
            place = content.get("transient", {}).get("display_id")
            if kind == "update_display_data":
                kept[places[place]][1] = data
                continue
            places[place] = len(kept)
            kept.append([kind, data])
    return kept


@pytest.mark.parametrize("name", list(CELLS))
def test_both_languages_are_merged_alike(python: Kernel, kernels: Kernels, name: str) -> None:
    in_python, in_julia = CELLS[name]
    one, other = python.run(in_python), kernels(RANKS).run(in_julia)
    assert one.reply["status"] == other.reply["status"]
    assert told(one) == told(other)
