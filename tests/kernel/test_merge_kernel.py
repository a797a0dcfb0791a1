"""What a notebook sees of many ranks' output: order, floods, progress bars, pictures."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
import time
from pathlib import Path

import nbformat
import pytest
from conftest import StartKernel
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

HAS_LIBSK = importlib.util.find_spec("libsk") is not None
needs_libsk = pytest.mark.skipif(not HAS_LIBSK, reason="libsk is not installed in this Python")
PROGRAM = [sys.executable, "-m", "libsk.kernel"]
MESSAGES_PER_SECOND = 20


def stored(cell: object) -> list[tuple[str, object]]:
    """The outputs that a notebook file keeps of a cell, neighbouring text joined as it does."""
    outputs: list[tuple[str, object]] = []
    for message in cell.kept():  # type: ignore[attr-defined]
        content = message["content"]
        kind = content.get("name", message["msg_type"])
        value = content.get("text", content.get("data"))
        if outputs and outputs[-1][0] == kind and isinstance(value, str):
            outputs[-1] = (kind, str(outputs[-1][1]) + value)
        else:
            outputs.append((kind, value))
    return outputs


@pytest.mark.acceptance(3)
def test_stored_outputs_never_depend_on_arrival(start_kernel: StartKernel) -> None:
    kernel = start_kernel(8)
    dice = random.Random(1)
    seen = []
    for _ in range(50):
        lines = []
        for step in range(4):
            for rank in range(8):
                lines.append(f"on {rank} sleep {dice.choice((0, 0, 1, 5, 30))}")
            lines += [f"print step {step}", "print I am {rank}", "eprint warning"]
        lines += ["on 5 sleep 130", "result {rank}"]
        seen.append(stored(kernel.run("\n".join(lines))))
    assert all(each == seen[0] for each in seen)
    expected = "".join(
        f"    step {step}\n" + "".join(f"[{rank}] I am {rank}\n" for rank in range(8))
        for step in range(4)
    )
    assert "".join(str(text) for kind, text in seen[0] if kind == "stdout") == expected


BOTH_STREAMS = (
    "import random, sys, threading\n"
    "dice = random.Random()\n"
    "for step in range(6):\n"
    "    for stream in (sys.stdout, sys.stderr):\n"
    "        _ = threading.Event().wait(dice.choice((0, 0, 0.001, 0.01, 0.03)))\n"
    "        print('step', step, file=stream)\n"
    "        print('rank', rank, step, file=stream)\n"
)


@needs_libsk
def test_two_streams_are_in_the_order_of_printing(start_kernel: StartKernel) -> None:
    kernel = start_kernel(8, PROGRAM)
    seen = [stored(kernel.run(BOTH_STREAMS)) for _ in range(20)]
    expected = [
        (
            name,
            f"    step {step}\n" + "".join(f"[{rank}] rank {rank} {step}\n" for rank in range(8)),
        )
        for step in range(6)
        for name in ("stdout", "stderr")
    ]
    assert all(each == expected for each in seen)


@needs_libsk
def test_a_killed_rank_loses_neither_stream(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, PROGRAM)
    cell = kernel.run(
        "import os, sys\n"
        "if rank == 1:\n"
        "    for i in range(500):\n"
        "        print('out', i)\n"
        "        print('err', i, file=sys.stderr)\n"
        "    os.kill(os.getpid(), 9)"
    )
    assert cell.reply["status"] == "error"
    for name, word in (("stdout", "out"), ("stderr", "err")):
        assert cell.text(name) == "".join(f"[1] {word} {i}\n" for i in range(500))


@pytest.mark.acceptance(8)
def test_a_flood_of_equal_lines_is_shown_once(start_kernel: StartKernel) -> None:
    kernel = start_kernel(64)
    kernel.run("print up")
    started = time.monotonic()
    cell = kernel.run("flood 2000 the same line on all ranks")
    seconds = time.monotonic() - started
    assert cell.text() == "".join(f"the same line on all ranks {i}\n" for i in range(2000))
    # The canonical view at the end comes in one burst of a few messages.
    assert len(cell.messages) <= MESSAGES_PER_SECOND * seconds + 4


@pytest.mark.acceptance(8)
def test_a_flood_of_different_lines_loses_nothing_silently(start_kernel: StartKernel) -> None:
    kernel = start_kernel(64)
    kernel.run("print up")
    started = time.monotonic()
    cell = kernel.run("flood 2000 a line of {rank}")
    seconds = time.monotonic() - started
    assert len(cell.messages) <= MESSAGES_PER_SECOND * seconds + 8
    assert sum(len(s["text"]) for s in cell.of("stream")) <= 1_100_000
    shown = sum(s["text"].count("\n") for s in cell.of("stream"))
    notes = [d["data"]["text/plain"] for d in cell.of("display_data")]
    assert len(notes) == 1
    found = re.fullmatch(r"… ([\d,]+) lines elided, `%sk log 2`", notes[0])
    assert found is not None
    assert int(found[1].replace(",", "")) + shown == 64 * 2000


@pytest.mark.acceptance(8)
def test_the_front_end_gets_little_more_than_there_is(start_kernel: StartKernel) -> None:
    kernel = start_kernel(4)
    for code in ("flood 9000 ranks that say the same, at length", "flood 2000 what {rank} says"):
        cell = kernel.run(code)
        shown = sum(len(s["text"]) for s in cell.of("stream"))
        sent = sum(
            len(str(m["content"].get("text", m["content"].get("data", "")))) for m in cell.messages
        )
        assert sent <= 1.5 * shown


@pytest.mark.acceptance(8)
@needs_libsk
def test_flushed_lines_are_gathered(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, PROGRAM)
    kernel.run("pass")
    started = time.monotonic()
    cell = kernel.run(
        "import threading\n"
        "for i in range(1000):\n"
        "    print(i, flush=True); _ = threading.Event().wait(0.001)"
    )
    seconds = time.monotonic() - started
    assert cell.text() == "".join(f"{i}\n" for i in range(1000))
    assert len(cell.messages) <= MESSAGES_PER_SECOND * seconds + 4


@pytest.mark.acceptance(18)
@needs_libsk
def test_every_way_to_print_is_tagged_and_in_order(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM)
    cell = kernel.run(
        "import ctypes, os, subprocess, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "print('print', rank)\n"
        "libc.puts(f'puts {rank}'.encode())\n"
        "os.write(1, f'write {rank}\\n'.encode())\n"
        "subprocess.run(['echo', f'child {rank}'], check=True)\n"
        "print('stderr', rank, file=sys.stderr)\n"
        "os.write(2, f'write 2 {rank}\\n'.encode())\n"
        "subprocess.run(f'echo child 2 {rank} >&2', shell=True, check=True)\n"
    )
    for name, words in {
        "stdout": ("print", "puts", "write", "child"),
        "stderr": ("stderr", "write 2", "child 2"),
    }.items():
        expected = [f"[{rank}] {word} {rank}" for rank in range(3) for word in words]
        assert cell.text(name).splitlines() == expected


@pytest.mark.acceptance(18)
@needs_libsk
def test_a_loop_that_yields_to_nobody_is_heard(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, PROGRAM)
    message_id = kernel.start(
        "import os\nos.write(1, f'in the loop {rank}\\n'.encode())\nfor _ in range(10**12): pass"
    )
    text = kernel.wait_for_stream(message_id)
    while "[1] in the loop 1" not in text:
        text += kernel.wait_for_stream(message_id)
    assert "[0] in the loop 0\n" in text
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(message_id)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert cell.text() == "[0] in the loop 0\n[1] in the loop 1\n"


TQDM = (
    "import sys, threading\nfrom tqdm import tqdm\n"
    "for i in tqdm(range(40), desc='train', file=sys.stderr, ascii=True, ncols=60):\n"
    "    _ = threading.Event().wait(0.02 + 0.005 * rank)\n"
)


@pytest.mark.acceptance(19)
@needs_libsk
def test_tqdm_on_eight_ranks_is_one_live_row(start_kernel: StartKernel) -> None:
    pytest.importorskip("tqdm")
    kernel = start_kernel(8, PROGRAM)
    cell = kernel.run(TQDM)
    rows = [m for m in cell.messages if m["msg_type"] == "update_display_data"]
    assert rows, "the row moves while the cell runs"
    ids = {m["content"]["transient"]["display_id"] for m in rows}
    assert len(ids) == 1
    assert any(
        re.search(r"train: min \d+ % \(rank \d\) … max \d+ %", m["content"]["data"]["text/plain"])
        for m in rows
    )
    assert cell.of("display_data") == []
    lines = cell.text("stderr").splitlines()
    assert 1 <= len(lines) <= 8
    assert all("100%|####" in line and line.count("%|") == 1 for line in lines)


@needs_libsk
def test_tqdm_on_one_rank_looks_as_usual(start_kernel: StartKernel) -> None:
    pytest.importorskip("tqdm")
    kernel = start_kernel(1, PROGRAM)
    cell = kernel.run(TQDM)
    live = [m["content"] for m in cell.messages if m["msg_type"] == "stream"]
    assert any(content["text"].startswith("\r") for content in live), "written over in place"
    assert all(content["name"] == "stderr" for content in live)
    lines = cell.text("stderr").splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("train: 100%|####")


@pytest.mark.acceptance(12)
@needs_libsk
@pytest.mark.parametrize("how", ["plt.show()", "figure = plt.gcf(); plt.close(); figure"])
@pytest.mark.parametrize("same", [False, True])
def test_pictures_in_the_file_and_in_html(
    tmp_path: Path, start_kernel: StartKernel, same: bool, how: str
) -> None:
    pytest.importorskip("matplotlib")
    exporter = pytest.importorskip("nbconvert").HTMLExporter()
    start_kernel(4, PROGRAM).stop()
    specs = KernelSpecManager(kernel_dirs=[str(tmp_path / "kernels")])
    manager = AsyncKernelManager(kernel_name="under-test", kernel_spec_manager=specs)
    book = nbformat.v4.new_notebook()
    what = "[1, 2]" if same else "[rank, 2]"
    code = f"import matplotlib.pyplot as plt\nplt.plot({what})\n{how}"
    book.cells = [nbformat.v4.new_code_cell(code)]
    NotebookClient(book, km=manager, kernel_name="under-test", timeout=120).execute()
    nbformat.validate(book)
    pictures = [o for o in book.cells[0].outputs if "image/png" in o.get("data", {})]
    count = 1 if same else 4
    assert len(pictures) == count
    html, _ = exporter.from_notebook_node(book)
    assert len(re.findall(r'src="data:image/png;base64', html)) == count
    if not same:
        assert all(f"<b>rank {rank}</b>" in html for rank in range(4))


@needs_libsk
def test_results_keep_their_native_form(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM)
    cell = kernel.run(
        "class Slider:\n"
        "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        view = {'model_id': f'model {rank}', 'version_major': 2, 'version_minor': 0}\n"
        "        return {'text/plain': f'Slider {rank}', 'text/html': '<i>not here</i>',\n"
        "                'application/vnd.jupyter.widget-view+json': view}\n"
        "7 if rank == 1 else Slider()"
    )
    (result,) = cell.of("execute_result")
    assert result["data"]["text/plain"] == "[0] Slider 0\n[1] 7\n[2] Slider 2"
    assert "not here" not in result["data"]["text/html"]
    displays = [content["data"] for content in cell.of("display_data")]
    headings, shown = displays[::2], displays[1::2]
    assert [heading["text/plain"] for heading in headings] == ["rank 0", "rank 2"]
    views = [bundle["application/vnd.jupyter.widget-view+json"] for bundle in shown]
    assert [view["model_id"] for view in views] == ["model 0", "model 2"]
    (table,) = kernel.run("from IPython.display import HTML\nHTML(f'<i>{rank}</i>')").of(
        "execute_result"
    )
    assert "<i>2</i>" in table["data"]["text/html"]


@needs_libsk
def test_many_pictures_are_one_sheet(start_kernel: StartKernel) -> None:
    kernel = start_kernel(7, PROGRAM)
    cell = kernel.run(
        "from IPython.display import Image, display\n"
        "display(Image(data=b'\\x89PNG picture of %d' % rank, format='png', width=50))"
    )
    (sheet,) = cell.of("display_data")
    assert sheet["data"]["text/html"].count("<details") == 7
    assert "<script" not in sheet["data"]["text/html"]
    assert "rank 6: image/png" in sheet["data"]["text/plain"]
