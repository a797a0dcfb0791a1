"""What differs between Julias in the rank's program, as far as the one here can show it: what later
ones have is put into its Base before the program is read."""

from __future__ import annotations

import re
import subprocess
import textwrap

import pytest
from conftest import ROOT

KERNEL = ROOT / "bindings" / "julia" / "kernel"

LATER = """
isdefined(Base, :RedirectStdStream) || Core.eval(Base, quote  # 1.7
    struct RedirectStdStream <: Function
        unix_fd::Int
        writable::Bool
    end
    current_exceptions(task = current_task(); backtrace = true) =
        [(exception = backtrace ? each[1] : each, backtrace = backtrace ? each[2] : nothing)
         for each in catch_stack(task, include_bt = backtrace)]
end)
isdefined(Core, :FieldError) || Core.eval(Core, quote  # 1.12
    struct FieldError <: Exception
        type::DataType
        field::Symbol
    end
end)
"""

READ = f"""
Base.include(Base.__toplevel__, {str(KERNEL / "src" / "SuperKernelRank.jl")!r})
const rank_program = Base.loaded_modules[Base.PkgId("SuperKernelRank")]
using .rank_program: RankStream, RankInput
""".replace("'", '"')

CHECKS = {
    "redirections are put back": """
        place(fd) = readlink("/proc/self/fd/$fd")
        folder = mktempdir()
        files = [open(joinpath(folder, name), "w") for name in ("1", "2")]
        for (which, file) in enumerate(files)
            rank_program.kept_descriptors[which] = fd(file)
        end
        nothing_to_read = open("/dev/null")
        rank_program.kept_stdin[] = fd(nothing_to_read)
        for (which, stream) in ((1, RankStream(1)), (2, RankStream(2)), (0, RankInput(IOBuffer())))
            redirects = isdefined(Base, :RedirectStdStream) ?
                Base.RedirectStdStream(which, which > 0) :
                (redirect_stdin, redirect_stdout, redirect_stderr)[which + 1]
            @assert redirects(stream) === stream
        end
        @assert Base.stdout === RankStream(1) && Base.stderr === RankStream(2)
        @assert Base.stdin isa RankInput
        @assert place.(0:2) == ["/dev/null"; joinpath.(folder, ["1", "2"])]
    """,
    "exceptions of the current task, and of one that waits": """
        stack = try; try; error("a"); catch; error("b"); end; catch; rank_program.exceptions(); end
        @assert [each.msg for (each, _) in stack] == ["a", "b"]
        @assert all(!isempty(trace) for (_, trace) in stack)
        answers(task) = rank_program.is_answered(rank_program.exceptions_of(task))
        handles(error) = (task = @async try; throw(error); catch; sleep(60); end; yield();
                          (answers(task), answers(task), istaskdone(task)))
        @assert handles(InterruptException()) == (true, false, false)
        @assert handles(ErrorException("x")) == (false, false, false)
        task = @async sleep(0.01)
        yield()
        @assert !answers(task)
        wait(task)
    """,
    "a byte is put back": """
        mutable struct Holder
            before::Int
            _state::UInt8
            behind::UInt8
        end
        holder = Holder(-1, 0x00, 0xff)
        seen = rank_program.with_byte(() -> holder._state, holder, :_state, 0x02)
        @assert (seen, holder._state, holder.before, holder.behind) == (0x02, 0x00, -1, 0xff)
    """,
    "an interrupt that ended a task": """
        ended(error) = (task = @async throw(error); try; wait(task); catch failure; failure; end)
        @assert rank_program.is_interrupt(ended(InterruptException()))
        @assert !rank_program.is_interrupt(ended(ErrorException("x")))
        module Distributed  # Of which a rank knows no more than the name.
            struct RemoteException; captured; end
        end
        for error in (InterruptException(), ErrorException("x"))
            captured = CapturedException(error, [])
            included = LoadError("g.jl", 1, error)
            for wrapped in (included, LoadError("f.jl", 1, included), InitError(:M, error),
                            captured, Distributed.RemoteException(captured),
                            CompositeException([ErrorException("y"), error]))
                @assert rank_program.is_interrupt(wrapped) == (error isa InterruptException)
            end
        end
    """,
    "a signal where a task has ended": """
        Base.exit_on_sigint(false)
        Base.sigatomic_begin()
        @async nothing  # It waits for what comes, in its end.
        run(`sh -c "sleep 0.3; kill -INT $(getpid())"`, wait = false)
        sleep(1)
        @assert rank_program.take_signal()
    """,
    "words of the parser": """
        words = rank_program.words_of_problem
        @assert words("syntax: missing") == "missing"
        @assert words(Meta.ParseError("missing")) == "missing"
        @assert words(Meta.ParseError("ParseError:\\n# Error @ In[1]:1:4")) == "# Error @ In[1]:1:4"
    """,
    "where a cell looks at signals": """
        using Test
        count(ex, what) = ex == what ? 1 :
            ex isa Expr ? reduce(+, [count(each, what) for each in ex.args], init = 0) : 0
        read_cell(text) = rank_program.parse_cell(text, "In[1]")
        points(text) = count(read_cell(text), rank_program.SAFE_POINT)
        looks(text) = count(read_cell(text), rank_program.look(true))
        loop = "for i in 1:3; i; end"
        for text in (loop, "rank == 0 && $loop", "rank == 0 || $loop", "f($loop)", "f(x = $loop)",
                     "($loop, 1)", "const a = begin; $loop; end", "a += begin; $loop; end",
                     "x::Any = begin; $loop; end", "[begin; $loop; end]", "return $loop",
                     "@on 0 $loop", "@views $loop", "@async begin; $loop; end",
                     "Test.@testset \\"t\\" begin; $loop; end", "module M; $loop; end")
            @assert points(text) == 1 text
        end
        for text in ("f() = $loop", "f(x::T)::Int where T = $loop", "function f(); $loop; end",
                     "() -> $loop", "map(1:2) do x; $loop; end", "macro m(); $loop; end",
                     "quote; $loop; end", "@simd $loop")
            @assert points(text) == 0 text
        end
        caught = "try; 1; catch; 2; end"
        for text in (caught, "@on 0 begin; $caught; end", "@eval $caught",
                     "@testset begin; $caught; end", "f() = $caught", "map(1:2) do x; $caught; end")
            @assert looks(text) == 1 text
        end
        cd(mktempdir())
        write("part.jl", "module Part; include(\\"inner.jl\\"); end")
        write("inner.jl", "for i in 1:3; i; end; inner = @__FILE__")
        include_of(text) = read_cell(text).args[end].args[end]  # Behind its softscope.
        @assert include_of("include(\\"part.jl\\")").args[2] === rank_program.with_safe_points
        Core.eval(Main, include_of("include(\\"part.jl\\")"))
        @assert basename(Main.Part.inner) == "inner.jl"
        @assert include_of("include(files...)").args[2] !== rank_program.with_safe_points
    """,
    "names of Main": """
        rank_program.set_in_main(:fresh, 7)
        rank_program.set_in_main(:fresh, "eight")
        @assert fresh == "eight"
        @assert rank_program.is_in(Main, :fresh) && !rank_program.is_in(Main, :absent)
        @assert rank_program.of_module(Main, :fresh) == "eight"
        @assert :fresh in rank_program.names_of(Main, true) && :exit in rank_program.names_of(Base)
        rank_program.add_own_names()
        @assert rank == 0 && world_size == 1 && (@on 0 7) == 7
    """,
    "what is called with more": """
        @assert hasmethod(Base.getpass, Tuple{RankInput,IO,String}, (:with_suffix,))
        @assert !rank_program.refuse_editor(`code`, "file", 1)
        @assert !rank_program.refuse_editor(`code`, "file", 1, 0)
        struct Comm end
        asked = isdefined(Core, :FieldError) ? Core.FieldError(Comm, :barrier) :
            ErrorException("type Comm has no field barrier")
        @assert rank_program.field_of_comm(asked) === :barrier
        @assert rank_program.field_of_comm(KeyError(1)) === nothing
    """,
}


@pytest.mark.parametrize("later", ["", LATER], ids=["as it is", "with what later ones have"])
@pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS))
def test_the_ranks_program_serves_julia(julia: str, check: str, later: str) -> None:
    done = subprocess.run(
        [julia, "--startup-file=no", "-e", later + READ + textwrap.dedent(check)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


IN_AN_OLD_WORLD = r"\b(?:isdefined|getfield|isconst|names)\((?:Main|holder)\b|jl_set_global"


def test_what_cells_define_is_asked_in_the_world_of_now() -> None:
    """Since 1.12 a world has bindings of its own, which no Julia here can show."""
    for file in KERNEL.rglob("*.jl"):
        lines = file.read_text().splitlines()
        found = [line for line in lines if re.search(IN_AN_OLD_WORLD, line)]
        assert not found or file.name == "names.jl", (file.name, found)
