"""Each example of docs/notebook runs as a reader would run it, and shows what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

sys.path.insert(0, str(Path(__file__).parent))

from pages import console_steps, matches, read_page, shown_by, text_of

ROOT = Path(__file__).resolve().parents[2]
# That of Julia is the suite julia's.
PAGES = sorted(p for p in (ROOT / "docs" / "notebook").glob("*.md") if p.stem != "julia")
RANKS = "4"
TIMEOUT_S = 120


class Notebook:
    """A kernel of four Python ranks in an empty folder, and a reader's hands."""

    def __init__(self, folder: Path) -> None:
        self._manager = KernelManager(kernel_name="superkernel-python")
        environment = {**os.environ, "SK_NRANKS": RANKS, "COLUMNS": "80"}
        self._manager.start_kernel(cwd=str(folder), env=environment)
        self._client: BlockingKernelClient = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=TIMEOUT_S)

    def stop(self) -> None:
        """Ends the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel()

    def run(self, code: str, hand: str) -> str:
        """Runs a cell; what it shows."""
        number = self._client.execute(code, allow_stdin=hand.startswith("input"))
        messages: list[dict[str, Any]] = []
        pressed = False
        while True:
            if hand.startswith("input: ") and not pressed and self._asks():
                self._client.input(hand.removeprefix("input: "))
                pressed = True
            message = self._message(number, 0.1 if hand.startswith("input") else TIMEOUT_S)
            if message is None:
                continue
            messages.append(message)
            if hand == "interrupt" and not pressed and text_of(message):
                self._manager.interrupt_kernel()
                pressed = True
            if message["content"].get("execution_state") == "idle":
                assert pressed or not hand, f"the cell ended before: {hand}"
                return shown_by([m for m in messages if m["msg_type"] != "execute_input"])

    def _asks(self) -> bool:
        from queue import Empty

        try:
            self._client.get_stdin_msg(timeout=0)
        except Empty:
            return False
        return True

    def _message(self, number: str, timeout_s: float) -> dict[str, Any] | None:
        from queue import Empty

        try:
            message = self._client.get_iopub_msg(timeout=timeout_s)
        except Empty:
            assert timeout_s < TIMEOUT_S, "the cell does not end"
            return None
        ours = message["parent_header"].get("msg_id") == number
        return message if ours else None


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """Ready for its first cell."""
    kernel = Notebook(tmp_path)
    yield kernel
    kernel.stop()


def run_command(command: str, folder: Path) -> str:
    """What a shell prints, both streams, in a home of its own."""
    (folder / "home").mkdir(exist_ok=True)
    keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        ["sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        cwd=folder,
        env={**keep, "HOME": str(folder / "home"), "COLUMNS": "80"},
    )
    return done.stdout


def test_there_are_pages() -> None:
    topics = {"cells", "errors", "faults", "install", "interrupts", "magics"}
    assert topics <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_true(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    examples = read_page(page)
    assert examples, "a page without examples"
    wrong = []
    for example in examples:
        where = f"{page.relative_to(ROOT)}:{example.line}"
        if example.kind == "console":
            for command, promised in console_steps(example.text):
                printed = run_command(command, tmp_path)
                if not matches(promised, printed):
                    wrong.append(
                        f"{where}: $ {command}\n--- promised\n{promised}--- shown\n{printed}"
                    )
            continue
        shown = request.getfixturevalue("notebook").run(example.text, example.hand)
        if not matches(example.promised, shown):
            wrong.append(
                f"{where}\n{example.text}\n--- promised\n{example.promised}--- shown\n{shown}"
            )
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    ("promised", "shown", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a", True),
        ("", "", True),
        ("", "a\n", False),
        ("a\n", "", False),
        ("a\n", "a\nb\n", False),
        ("a … c\n", "a 12.3 s c\n", True),
        ("a … c\n", "a\nc\n", False),
        ("a.c\n", "abc\n", False),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nb\n", False),
        ("took …\n", "took \n", True),
        ("[0] a\n[1] b\n", "[1] b\n[0] a\n", False),
    ],
)
def test_what_counts_as_the_same(promised: str, shown: str, same: bool) -> None:
    assert matches(promised, shown) is same


def test_how_a_page_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# T\n\n```python\nprint(1)\n```\nshows\n```output\n1\n```\n\n<!-- interrupt -->\n"
        "```python\nx\n```\n```toml\nno = 1\n```\n```console\n$ a\nb\n$ c\n```\n"
    )
    first, second, third = read_page(page)
    assert (first.text, first.promised, first.line) == ("print(1)", "1\n", 3)
    assert (second.text, second.promised, second.hand) == ("x", "", "interrupt")
    assert list(console_steps(third.text)) == [("a", "b\n"), ("c", "")]
