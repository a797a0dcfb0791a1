"""Each example of docs/notebook/julia.md, as a reader would run it, and what the page says."""

from __future__ import annotations

import sys

from conftest import ROOT, Kernels

sys.path.append(str(ROOT / "tests" / "docs"))

from pages import matches, read_page, shown_by

PAGE = ROOT / "docs" / "notebook" / "julia.md"


def test_the_page_is_true(kernels: Kernels) -> None:
    kernel = kernels(4)
    wrong = []
    for example in read_page(PAGE, "julia"):
        if example.kind == "console":
            continue  # It installs what the reader has by now.
        sent = kernel.start(example.text, allow_stdin=example.hand.startswith("input"))
        if example.hand.startswith("input: "):
            kernel.prompt(sent)
            kernel.client.input(example.hand.removeprefix("input: "))
        elif example.hand == "interrupt":
            kernel.wait_for_stream(sent)
            kernel.manager.interrupt_kernel()
        shown = shown_by(kernel.finish(sent).messages)
        if not matches(example.promised, shown):
            wrong.append(
                f"{PAGE.name}:{example.line}\n{example.text}\n"
                f"--- promised\n{example.promised}--- shown\n{shown}"
            )
    assert not wrong, "\n\n".join(wrong)
