"""A notebook in JupyterLab's page, by what a person sees and clicks."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, Page, expect

TIMEOUT_MS = 60_000
KERNELS = {"python": "SuperKernel (Python)", "julia": "SuperKernel (Julia)"}


class Notebook:
    """Cells are counted from 0, as they stand on the page."""

    def __init__(self, page: Page, pictures: Path, name: str, language: str = "python") -> None:
        self.page = page
        self._pictures = pictures
        self._name = name
        self._kernel = KERNELS[language]
        page.set_default_timeout(TIMEOUT_MS)
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        self.page.keyboard.press("Control+B")  # The file browser away: room for the notebook.
        self.wait_idle()

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(index)

    def wait_idle(self) -> None:
        """By the status bar: the notebook's own sign is there before the kernel is."""
        self.page.get_by_text(f"{self._kernel} | Idle").wait_for()

    def start(self, index: int) -> None:
        """Shift+Enter in the cell."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def finish(self, index: int) -> None:
        """Until the cell has its number."""
        prompt = self.cell(index).locator(".jp-InputPrompt").first
        expect(prompt).not_to_have_text("[*]:", timeout=TIMEOUT_MS)
        expect(prompt).not_to_have_text("[ ]:", timeout=TIMEOUT_MS)

    def is_finished(self, index: int) -> bool:
        """Whether the cell has its number."""
        prompt = self.cell(index).locator(".jp-InputPrompt").first.inner_text()
        return prompt.strip() not in ("[*]:", "[ ]:")

    def run(self, index: int) -> None:
        self.start(index)
        self.finish(index)

    def outputs(self, index: int) -> Locator:
        """The cell's outputs, one element each."""
        return self.cell(index).locator(".jp-OutputArea-child")

    def wait_for(self, index: int, text: str) -> None:
        """Until the cell has said so."""
        area = self.cell(index).locator(".jp-OutputArea")
        expect(area).to_contain_text(text, timeout=TIMEOUT_MS)

    def text(self, index: int) -> str:
        """What the cell's outputs say."""
        return "\n".join(self.outputs(index).all_inner_texts())

    def toolbar(self, command: str) -> None:
        """Presses a button of the notebook's toolbar."""
        self.page.locator(f'.jp-NotebookPanel-toolbar [data-command="{command}"]').click()

    def picture(self, what: str = "") -> None:
        """Takes a screenshot, down to the last cell, into build/lab."""
        name = f"{self._name}-{what}" if what else self._name
        size = self.page.viewport_size
        last = self.page.locator(".jp-Notebook .jp-Cell").last.bounding_box()
        assert size is not None
        height = size["height"]
        if last is not None:
            height = min(height, int(last["y"] + last["height"]) + 12)
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
        self.page.screenshot(path=self._pictures / f"{name}.png", clip=clip)
