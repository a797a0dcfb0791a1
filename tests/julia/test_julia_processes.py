"""What a rank does as a process among others: the children that it starts, its threads, its end."""

from __future__ import annotations

from pathlib import Path

from conftest import Kernel, Kernels, start

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


def test_every_hook_of_exit_runs_though_one_prints_and_one_fails(
    spec: Path, tmp_path: Path
) -> None:
    kernel = start(spec, 2)
    # Compiled here: ranks that take longer than 2 s to end are ended.
    kernel.run("showerror(stderr, ErrorException(string(1)), backtrace())")
    try:
        for hook in (
            f'write("{tmp_path}/first$rank", "x")',
            f'(println("bye"); println(stderr, "bye"); write("{tmp_path}/prints$rank", "x"))',
            "exit()",
            f'write("{tmp_path}/last$rank", "x")',
        ):
            assert kernel.run(f"atexit(() -> {hook})").reply["status"] == "ok"
        # One that runs behind the hooks, when nobody takes output any more.
        kernel.run(f'finalizer(_ -> (println("gone"); write("{tmp_path}/gone$rank", "x")), Ref(1))')
        kernel.run(
            f'kept = finalizer(_ -> (println(1); write("{tmp_path}/kept$rank", "x")), Ref(1))'
        )
    finally:
        kernel.stop()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [
        f"{hook}{rank}" for hook in ("first", "gone", "kept", "last", "prints") for rank in (0, 1)
    ]
