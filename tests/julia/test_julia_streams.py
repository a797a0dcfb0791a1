"""Where Julia's own C prints, whatever a cell has made of the streams."""

from __future__ import annotations

import pytest
from conftest import Kernel


@pytest.mark.parametrize("back", ["redirect_stderr(old); ", ""])
def test_what_julia_itself_prints_goes_to_no_stream_that_is_gone(kernel: Kernel, back: str) -> None:
    begins, ends = (
        "old = stderr; (reads, writes) = redirect_stderr()",
        "close(writes); close(reads)",
    )
    kernel.run("place() = unsafe_load(cglobal(:jl_uv_stderr, Ptr{Cvoid})); before = place()")
    kernel.run(f"{begins}; {back}{ends}; nothing")
    # What was freed may lie there as it was, so that nothing else shows.
    assert kernel.run("print(place() == before)").text() == "true"
    kernel.run("redirect_stderr(old); reads = writes = nothing; GC.gc()")
    assert kernel.run("print(place() == before)").text() == "true"
    kernel.run("module Twice end")
    cell = kernel.run("module Twice end")
    assert cell.reply["status"] == "ok"
    assert "replacing module Twice" in cell.text("stderr")
    assert kernel.run("1").reply["status"] == "ok"
