"""The README's first picture, from a real run: build/lab/demo.png goes to docs/img."""

from __future__ import annotations

from collections.abc import Callable

from conftest import PICTURES
from film import Film
from lab import Notebook
from PIL import Image

Open = Callable[..., Notebook]

WIDTH, HEIGHT = 860, 640
CELLS = (
    "print('rank', rank, 'of', world_size)",
    "import numpy as np\nshare = np.full(4, rank + 1.0)\ncomm.allreduce(share)",
    "import matplotlib.pyplot as plt\n"
    "mine = np.random.default_rng(rank).normal(size=200).cumsum()\n"
    "every = comm.allgather(mine).reshape(world_size, -1)\n"
    "plt.figure(figsize=(6, 2))\n"
    "plt.plot(every.T, alpha=0.5)\n"
    "plt.plot(every.mean(0), 'k');",
    "1 / (rank - 2)",
)
SEEN = ("[3] rank 3 of 4", "array([10., 10., 10., 10.])", "", "ZeroDivisionError")


def test_the_demo(open_notebook: Open) -> None:
    notebook = open_notebook(*([""] * len(CELLS)))
    page = notebook.page
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    film = Film(page, WIDTH, HEIGHT)
    for index, (code, words) in enumerate(zip(CELLS, SEEN, strict=True)):
        editor = notebook.cell(index).locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        film.shoot(400)
        film.write(code)
        film.hold(500)
        page.keyboard.press("Shift+Enter")
        film.until(lambda at=index: notebook.is_finished(at), 60)
        notebook.wait_for(index, words)
        last = notebook.outputs(index).last
        last.wait_for()
        last.scroll_into_view_if_needed()
        film.shoot(2500)
    film.hold(2500)
    assert notebook.cell(2).locator("img").count() == 1  # Four that are alike are one.
    film.save(PICTURES / "demo.png")
    with Image.open(PICTURES / "demo.png") as made:
        assert made.is_animated and made.n_frames == len(film) > 30
    assert (PICTURES / "demo.png").stat().st_size < 2_000_000
    assert film.shown_ms < 90_000
