"""What a rank does as a process among others: the children that it starts, its threads, its end."""

from __future__ import annotations

from pathlib import Path

import pytest
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
        write = f'write("{tmp_path}/kept$rank", "x")'
        kernel.run(f"kept = finalizer(_ -> (println(1); {write}), Ref(1)); nothing")
    finally:
        kernel.stop()
    left = sorted(path.name for path in tmp_path.iterdir())
    hooks = ("first", "kept", "last", "prints")
    assert left == [f"{hook}{rank}" for hook in hooks for rank in (0, 1)]


def test_threads_print_whole_lines(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JULIA_NUM_THREADS", "2")
    kernel = start(spec, 1)
    try:
        cell = kernel.run(
            "Threads.@threads for i in 1:400\n"
            '    println("line ", i, " of thread ", Threads.threadid() > 0)\n'
            "end"
        )
        assert cell.reply["status"] == "ok", cell.reply
        assert sorted(cell.text().splitlines()) == sorted(
            f"line {i} of thread true" for i in range(1, 401)
        )
        assert shown(kernel, "Threads.nthreads()") == "2"
    finally:
        kernel.stop()


def test_a_task_prints_whole_lines(kernels: Kernels) -> None:
    kernel = kernels(1)
    kernel.run("struct Slow end; Base.show(io::IO, ::Slow) = (yield(); print(io, 1))")
    cell = kernel.run('@sync for i in 1:3; @async println(Slow(), "-", Slow(), "-", Slow()); end')
    assert cell.text() == "1-1-1\n" * 3


def test_a_print_that_was_interrupted_keeps_no_lock(kernels: Kernels) -> None:
    kernel = kernels(1)
    # As an interrupt leaves it between the taking and what gives it back.
    kernel.run("lock(stdout)\nthrow(InterruptException())")
    assert kernel.run("wait(@async println(1))").text() == "1\n"
