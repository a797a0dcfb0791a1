"""Cells that are hostile to whatever looks at them: no rank ends, and later cells are right."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from conftest import Kernel, Kernels


class Case(NamedTuple):
    """A hostile cell, and the name of the error that it ends with."""

    code: str
    ename: str | None = None


CASES = {
    "a show that throws": Case(
        'struct NoShow end; Base.show(io::IO, ::NoShow) = error("no"); NoShow()', "ErrorException"
    ),
    "a rich show that throws": Case(
        'struct NoHtml end\nBase.show(io::IO, ::MIME"text/html", ::NoHtml) = error("no")\nNoHtml()'
    ),
    "a showable that throws": Case(
        'struct Shy end\nBase.showable(::MIME"image/png", ::Shy) = error("no")\nShy()'
    ),
    "a show that throws no exception": Case(
        "struct Odd end; Base.show(io::IO, ::Odd) = throw(5); Odd()", "Int64"
    ),
    "a value that compares badly": Case(
        "struct Eq end\n"
        'Base.:(==)(::Eq, ::Any) = error("no"); Base.:(==)(::Any, ::Eq) = error("no")\n'
        'Base.isequal(::Eq, ::Any) = error("no"); Base.hash(::Eq, ::UInt) = error("no")\n'
        "incomparable = Eq(); nothing"
    ),
    "properties that throw": Case(
        "struct Prop; x; end\n"
        'Base.getproperty(::Prop, ::Symbol) = error("no")\n'
        'Base.propertynames(::Prop) = error("no")\nprop = Prop(1); nothing'
    ),
    "a length that throws": Case(
        'struct Len <: AbstractVector{Int} end; Base.size(::Len) = error("no"); Len()',
        "ErrorException",
    ),
    "a finalizer that throws": Case(
        'mutable struct Fin end\nf() = (finalizer(_ -> error("in a finalizer"), Fin()); nothing)\n'
        "f(); GC.gc(); GC.gc()"
    ),
    "a showerror that throws": Case(
        "struct BadError <: Exception end\n"
        'Base.showerror(io::IO, ::BadError) = error("no")\nthrow(BadError())',
        "BadError",
    ),
    "a showerror that never ends its text": Case(
        "struct LongError <: Exception end\n"
        'Base.showerror(io::IO, ::LongError) = print(io, "x"^3_000_000)\nthrow(LongError())',
        "LongError",
    ),
    "what is thrown is no exception": Case("throw(1)", "Int64"),
    "what is thrown is nothing": Case("throw(nothing)", "Nothing"),
    "a rethrow of nothing": Case("rethrow()", "ErrorException"),
    "an interrupt of its own": Case("throw(InterruptException())", "InterruptException"),
    "recursion without end": Case("deep(n) = 1 + deep(n + 1); deep(1)", "StackOverflowError"),
    "too much memory": Case("zeros(10^14)", "OutOfMemoryError"),
    "text that is no UTF-8": Case('print("\\xff\\xfe\\n"); "\\xff"'),
    "an error that is no UTF-8": Case('error("a\\0b\\xffc")', "ErrorException"),
    "a display that is no UTF-8": Case('display("text/html", "\\xff")'),
    "odd names": Case('var"a b" = 1; var"ä.ö" = 2; var"=" = 3; nothing'),
    "a name that is no UTF-8": Case('Core.eval(Main, :($(Symbol("\\xff")) = 1)); nothing'),
    "no stdout": Case("Core.eval(Base, :(stdout = 5)); nothing"),
    "a closed stdout": Case("close(stdout); close(stdin); close(stderr)"),
    "closed descriptors": Case("for fd in 0:2; ccall(:close, Cint, (Cint,), fd); end"),
    "no display": Case("empty!(Base.Multimedia.displays); nothing"),
    "no environment": Case("foreach(name -> delete!(ENV, name), collect(keys(ENV)))"),
    "a logger that throws": Case(
        "using Logging; struct BadLogger <: AbstractLogger end\n"
        'Logging.min_enabled_level(::BadLogger) = error("no")\n'
        "global_logger(BadLogger())",
        "ErrorException",
    ),
    "a task that fails": Case('@async error("unseen"); yield()'),
    "a task that is waited for and fails": Case(
        'wait(@async error("seen"))', "TaskFailedException"
    ),
    "an exit": Case("exit()", "ExitError"),
    "own names for ours": Case("print_ = println; Base_ = Base; sk = 5; nothing"),
    "a macro that throws": Case('macro m(); error("no"); end; @m', "LoadError"),
    "a type that shows badly": Case(
        'struct Par{T} end\nBase.show(io::IO, ::Type{<:Par}) = error("no")\nPar{1}()',
        "ErrorException",
    ),
    "a module of its own": Case("module Own; export x; x = 1; end; nothing"),
    "a module inside itself": Case("module Inner; const itself = Inner; end; nothing"),
    "deferred signals": Case("Base.sigatomic_begin()"),
    "a huge value": Case('"x"^5_000_000;'),
    "a wait on itself": Case("wait(current_task())", "ErrorException"),
}


def check_later(kernel: Kernel, ranks: int) -> None:
    """A cell like any other: its print, its result and its error are what they should be."""
    cell = kernel.run('println(6 * 7); println("of ", rank)\n[world_size]')
    assert cell.reply["status"] == "ok", cell.messages
    tags = [f"[{rank}] " if ranks > 1 else "" for rank in range(ranks)]
    first = " " * len(tags[0]) + "42"
    assert cell.text().splitlines() == [first, *(f"{tag}of {i}" for i, tag in enumerate(tags))]
    assert cell.text("stderr") == ""
    (shown,) = cell.of("execute_result")
    assert shown["data"]["text/plain"] == f"1-element Array{{Int64,1}}:\n {ranks}"
    assert kernel.run('@on 0 error("later")').reply["ename"] == "ErrorException"


def test_hostile_cells_end_no_rank(kernel: Kernel, ranks: int) -> None:
    processes = kernel.ranks()
    for name, case in CASES.items():
        try:
            cell = kernel.run(case.code)
            ended = cell.reply["ename"] if cell.reply["status"] == "error" else None
            assert ended == case.ename, cell.messages
            check_later(kernel, ranks)
        except AssertionError as error:
            raise AssertionError(name) from error
    assert kernel.ranks() == processes


def test_a_cell_of_fifty_megabytes(kernels: Kernels) -> None:
    kernel = kernels(1)
    code = 'text = "' + "é" * (25 << 20) + '"; length(text)'
    (shown,) = kernel.run(code).of("execute_result")
    assert shown["data"]["text/plain"] == str(25 << 20)
    kernel.run("text = nothing; GC.gc()")


def test_output_that_floods(kernel: Kernel) -> None:
    cell = kernel.run("for i in 1:200_000; println(i); end")
    assert cell.reply["status"] == "ok"
    assert "lines elided" in str(cell.messages)
    assert kernel.run("print(1)").text() == "1"


@pytest.mark.parametrize("code", ["ccall(:abort, Cvoid, ())", "ccall(:_exit, Cvoid, (Cint,), 7)"])
def test_what_ends_a_rank_is_told_and_it_comes_back(kernel: Kernel, ranks: int, code: str) -> None:
    cell = kernel.run(f"rank == {ranks - 1} && {code}")
    assert cell.reply["ename"] == "RankDied" and f"rank {ranks - 1}" in cell.reply["evalue"]
    if ranks > 1:
        assert kernel.run("%%on alive\nprint(1)").text() == "1"
    back = kernel.run('%sk revive\nprint("all")')
    assert back.reply["status"] == "ok" and back.text().endswith("all"), back.messages
