"""What a person does first in JupyterLab, on four ranks; each leaves a picture in build/lab."""

from __future__ import annotations

import re
from collections.abc import Callable

from lab import Notebook
from playwright.sync_api import expect

Open = Callable[..., Notebook]


def test_a_cell_reads_as_one(open_notebook: Open) -> None:
    notebook = open_notebook(
        "print('hello')\nprint('I am rank', rank)\nrank, world_size", "!hostname"
    )
    notebook.run(0)
    notebook.run(1)
    text = notebook.text(0)
    assert text.count("hello") == 1
    for rank in range(4):
        assert f"[{rank}] I am rank {rank}" in text
        assert f"({rank}, 4)" in text
    notebook.picture()


def test_an_error_on_one_rank(open_notebook: Open) -> None:
    notebook = open_notebook(
        "def share(amounts):\n    return amounts[rank] / (rank - 2)\n\n"
        "print('before')\nshare([0.4, 0.3, 0.2, 0.1])",
        "print('rank', rank, 'is still here')",
    )
    notebook.run(0)
    assert notebook.outputs(0).first.inner_text().strip() == "before"
    assert notebook.text(0).count("Traceback (most recent call last)") == 1
    assert "ZeroDivisionError: float division by zero" in notebook.text(0)
    assert "rank 2" in notebook.text(0)
    notebook.run(1)
    assert "[2] rank 2 is still here" in notebook.text(1)
    notebook.picture()


def test_an_interrupt(open_notebook: Open) -> None:
    notebook = open_notebook(
        "import time\nkept = 7 * rank\nprint('asleep', flush=True)\ntime.sleep(600)", "kept"
    )
    notebook.start(0)
    notebook.wait_for(0, "asleep")
    notebook.toolbar("notebook:interrupt-kernel")
    notebook.finish(0)
    assert "KeyboardInterrupt" in notebook.text(0)
    assert "did not stop" not in notebook.text(0)
    notebook.run(1)
    assert "21" in notebook.text(1)
    notebook.picture()


def test_an_interrupt_of_a_barrier(open_notebook: Open) -> None:
    notebook = open_notebook(
        "from time import sleep\nkept = 7 * rank\nprint('waiting', flush=True)\n"
        "rank == 2 and sleep(600)\ncomm.barrier()",
        "print(kept, comm.allreduce(1))",
    )
    notebook.start(0)
    notebook.wait_for(0, "waiting")
    notebook.toolbar("notebook:interrupt-kernel")
    notebook.finish(0)
    assert "KeyboardInterrupt" in notebook.text(0)
    notebook.run(1)
    assert "[3] 21 4" in notebook.text(1)
    notebook.picture()


def test_a_dead_rank(open_notebook: Open) -> None:
    notebook = open_notebook(
        "kept = 7 * rank",
        "import os\nif rank == 1:\n    os.kill(os.getpid(), 9)",
        "print(kept)",
        "%%on alive\nprint(kept)",
        "%sk revive",
        "print('kept' in globals(), comm.allreduce(1))",
    )
    for index in range(6):
        notebook.run(index)
    assert "RankDied: rank 1: killed by signal 9 (SIGKILL)" in notebook.text(1)
    assert "rank 1 is dead" in notebook.text(2)
    assert "%sk revive" in notebook.text(2)
    assert "[3] 21" in notebook.text(3)
    assert "[0,2,3] True 4" in notebook.text(5)
    assert "[    1] False 4" in notebook.text(5)
    notebook.picture()


def test_figures(open_notebook: Open) -> None:
    draw = "figure = plt.figure(figsize=(2, 1.2))\nplt.plot(range(5), [x ** {} for x in range(5)]);"
    notebook = open_notebook(
        "import matplotlib.pyplot as plt\n" + draw.format("2"), draw.format("rank")
    )
    notebook.run(0)
    assert notebook.cell(0).locator("img").count() == 1
    notebook.run(1)
    assert notebook.cell(1).locator("img").count() == 4
    for rank in range(4):
        assert re.search(rf"\brank {rank}\b", notebook.text(1))
    notebook.picture()


def test_a_restart(open_notebook: Open) -> None:
    notebook = open_notebook("x = rank; 'set'", "'x' in globals()")
    notebook.run(0)
    notebook.toolbar("notebook:restart-kernel")
    notebook.page.locator(".jp-Dialog .jp-mod-accept").click()
    expect(notebook.page.locator(".jp-Dialog")).to_have_count(0)
    notebook.wait_idle()
    notebook.run(1)
    assert "False" in notebook.text(1)
    notebook.picture()


def test_a_progress_bar(open_notebook: Open) -> None:
    notebook = open_notebook(
        "import threading\nfrom tqdm import tqdm\ngate = threading.Event()\n"
        "for step in tqdm(range(40), desc='training'):\n"
        "    gate.wait(0.05 * (1 + rank / 8))\n"
        "    if step == 25 and rank == 0: print('most of it')",
    )
    notebook.start(0)
    notebook.wait_for(0, "most of it")
    notebook.picture("live")
    notebook.finish(0)
    text = notebook.text(0)
    assert text.count("100%") in (1, 4)  # Alike on all ranks, or a row for each.
    assert "40/40" in text
    notebook.picture()


def test_completion_while_a_cell_runs(open_notebook: Open) -> None:
    notebook = open_notebook(
        "globals()['far_' + 'away'] = 1",  # A word of the page would be offered without a kernel.
        "import threading\nprint('busy', flush=True)\nthreading.Event().wait(600)",
        "far_a",
    )
    notebook.run(0)
    notebook.start(1)
    notebook.wait_for(1, "busy")
    notebook.cell(2).locator(".cm-content").click()
    notebook.page.keyboard.press("End")
    notebook.page.keyboard.press("Tab")
    expect(notebook.page.locator(".jp-Completer-item")).to_contain_text("far_away")
    notebook.picture()
    notebook.page.keyboard.press("Enter")
    expect(notebook.cell(2).locator(".cm-content")).to_have_text("far_away")
    notebook.toolbar("notebook:interrupt-kernel")
    notebook.finish(1)


def test_a_question(open_notebook: Open) -> None:
    notebook = open_notebook("name = input('Who is there? ')\nprint(f'rank {rank} greets {name}')")
    notebook.start(0)
    question = notebook.cell(0).locator(".jp-Stdin-input")
    question.fill("Ada")
    notebook.picture("asked")
    question.press("Enter")
    notebook.finish(0)
    for rank in range(4):
        assert f"[{rank}] rank {rank} greets Ada" in notebook.text(0)
    notebook.picture()


def test_a_slider_of_one_rank(open_notebook: Open) -> None:
    notebook = open_notebook(
        "from ipywidgets import IntSlider\n"
        "slider = IntSlider(value=10 * rank, description=f'rank {rank}')\ndisplay(slider)",
        "slider.value",
    )
    notebook.run(0)
    sliders = notebook.cell(0).locator(".widget-slider")
    expect(sliders).to_have_count(4)
    notebook.picture()
    reading = sliders.nth(1).locator(".widget-readout")
    reading.fill("42")
    reading.press("Enter")
    notebook.run(1)
    for value in (0, 42, 20, 30):
        assert str(value) in notebook.text(1).split()
    notebook.picture("moved")


def test_an_output_widget_of_each_rank(open_notebook: Open) -> None:
    notebook = open_notebook(
        "from ipywidgets import Button, Output, VBox\n"
        "out, button = Output(), Button(description=f'on rank {rank}')\n"
        "@out.capture()\n"
        "def pressed(_):\n    print('pressed on', rank)\n"
        "button.on_click(pressed)\n"
        "with out:\n    print('first line of', rank)\n"
        "display(VBox([button, out]))",
        "out.outputs[-1]['text'].split('\\n')[-2]",
    )
    notebook.run(0)
    widgets = notebook.cell(0).locator(".widget-output")
    expect(widgets).to_have_count(4)
    for rank in range(4):
        expect(widgets.nth(rank)).to_have_text(re.compile(f"^\\s*first line of {rank}\\s*$"))
    notebook.cell(0).get_by_role("button", name="on rank 2").click()
    expect(widgets.nth(2)).to_have_text(re.compile(r"first line of 2\s*pressed on 2"))
    expect(widgets.nth(1)).to_have_text(re.compile(r"^\s*first line of 1\s*$"))
    notebook.run(1)
    assert "pressed on 2" in notebook.text(1)
    notebook.picture()


def test_a_collective_that_one_rank_leaves_out(open_notebook: Open) -> None:
    notebook = open_notebook(
        "if rank == 2:\n    raise ValueError('no data')\ntotal = comm.allreduce(rank)",
        "comm.allreduce(rank)",
    )
    notebook.run(0)
    assert "ValueError: no data" in notebook.text(0)
    assert "rank 2 will not come to allreduce" in notebook.text(0)
    notebook.run(1)
    assert "6" in notebook.text(1)
    notebook.picture()
