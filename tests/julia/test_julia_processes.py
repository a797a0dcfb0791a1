"""What a rank does as a process among others: the children that it starts, its threads, its end."""

from __future__ import annotations

from pathlib import Path

from conftest import Kernel, Kernels

ERROR = "try error(1) catch; print(:caught) end"


def shown(kernel: Kernel, code: str) -> str:
    """The text of a cell's value."""
    cell = kernel.run(code)
    assert cell.reply["status"] == "ok", cell.reply
    (result,) = cell.of("execute_result")
    return str(result["data"]["text/plain"])


def test_a_child_that_is_julia_runs_as_the_rank_does(kernels: Kernels) -> None:
    code = f'read(`$(Base.julia_cmd()) --startup-file=no -e "{ERROR}"`, String)'
    assert shown(kernels(1), code) == '"caught"'


def test_a_package_that_catches_while_it_is_loaded_is_precompiled(
    kernels: Kernels, tmp_path: Path
) -> None:
    kernel = kernels(1)
    source = "module Catches; const found = (try error(1) catch; 42 end); end"
    (tmp_path / "Catches.jl").write_text(source)
    kernel.run(f'pushfirst!(LOAD_PATH, "{tmp_path}"); pushfirst!(DEPOT_PATH, "{tmp_path}/depot")')
    try:
        assert shown(kernel, "using Catches; Catches.found") == "42"
    finally:
        kernel.run("popfirst!(LOAD_PATH); popfirst!(DEPOT_PATH); nothing")
    assert list((tmp_path / "depot").rglob("*.ji"))
