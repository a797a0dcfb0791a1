"""A moving picture of a page: screenshots while something happens, as one animated PNG."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

COLOURS = 128
"""Enough for a page with figures, and a fraction of the bytes."""


class Film:
    """Frames of one part of a page. A frame is kept where it differs from the one before."""

    def __init__(self, page: Page, width: int, height: int) -> None:
        self._page = page
        self._clip = {"x": 0, "y": 0, "width": width, "height": height}
        self._frames: list[Image.Image] = []
        self._shown_ms: list[int] = []

    def shoot(self, shown_ms: int) -> None:
        """One frame, which is shown that long."""
        picture = Image.open(io.BytesIO(self._page.screenshot(clip=self._clip))).convert("RGB")
        if self._frames and self._frames[-1].tobytes() == picture.tobytes():
            self._shown_ms[-1] += shown_ms
            return
        self._frames.append(picture)
        self._shown_ms.append(shown_ms)

    def write(self, text: str, each_ms: int = 60) -> None:
        """Types it as a person does: a frame for every few letters."""
        for at in range(0, len(text), 3):
            self._page.keyboard.insert_text(text[at : at + 3])
            self.shoot(3 * each_ms)

    def until(self, is_done: Callable[[], bool], limit_s: float, each_ms: int = 100) -> None:
        """Frames until it is so, shown as long as they took."""
        end = time.monotonic() + limit_s
        while not is_done():
            assert time.monotonic() < end
            before = time.monotonic()
            self.shoot(0)
            self._page.wait_for_timeout(each_ms)
            self._shown_ms[-1] += int(1000 * (time.monotonic() - before))
        self.shoot(0)

    def hold(self, shown_ms: int) -> None:
        """The last frame, for somebody to read."""
        self._shown_ms[-1] += shown_ms

    def save(self, path: Path) -> None:
        """All of it, for ever from the beginning."""
        palette = self._all_colours().quantize(COLOURS, dither=Image.Dither.NONE)
        frames = [
            frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self._frames
        ]
        frames[0].save(
            path,
            format="PNG",
            save_all=True,
            append_images=frames[1:],
            duration=self._shown_ms,
            loop=0,
            optimize=True,
        )

    def _all_colours(self) -> Image.Image:
        """Frames from the whole of it, side by side."""
        some = self._frames[:: max(1, len(self._frames) // 12)] + self._frames[-1:]
        width, height = some[0].size
        together = Image.new("RGB", (width * len(some), height))
        for at, frame in enumerate(some):
            together.paste(frame, (at * width, 0))
        return together

    @property
    def shown_ms(self) -> int:
        """From the first frame to the last."""
        return sum(self._shown_ms)

    def __len__(self) -> int:
        return len(self._frames)
