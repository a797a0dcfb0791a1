# Sessions: cells on ranks of Julia.
include("common.jl")

thrown_text(error) = sprint(showerror, error)

@testset "cells on $size ranks" for size in (1, 2)
    Session(size) do session
        @test (session.world_size, isopen(session)) == (size, true)
        result = run(session, "println(\"rank \", rank)")
        tag(rank) = size == 1 ? "" : "[$rank] "
        @test result.text == join("$(tag(rank))rank $rank\n" for rank in 0:size-1)
        @test (result.status, result.ranks) == (:ok, collect(0:size-1))
        run(session, "kept = \"☃ ünïcode\"")
        @test run(session, "kept").value == "\"☃ ünïcode\""
        @test run(session, "kept"; ranks = 0).ranks == [0]
        lines = run(session, "for i in 1:1000 println(i) end").text
        @test lines == join("$i\n" for i in 1:1000)
        both = run(session, "println(\"out\"); println(stderr, \"err\")")
        @test (both.stdout, both.stderr) == ("out\n", "err\n")

        error = thrown(() -> run(session, "println(\"before\"); sqrt(-1)"))
        @test error isa CellError
        @test error.result.failure.name == "DomainError"
        @test (error.result.text, error.result.failure.ranks) == ("before\n", collect(0:size-1))
        @test occursin("DomainError", thrown_text(error))
        @test run(session, "undefined_name"; check = false).status == :error
        @test run(session, "1").value == "1"

        late = thrown(() -> run(session, "sleep(600)"; timeout = 0.2))
        @test late isa SKError && late.code == 30
        asked = String[]
        answered = run(session, "print(\"name? \"); println(\"got \", readline())";
                       input = prompt -> (push!(asked, prompt); "Ada ☃"))
        @test occursin("got Ada ☃\n", answered.text) && length(asked) == 1
        @test thrown(() -> run(session, "readline()")) isa CellError
    end
end

@testset "one rank's error, and one's death" begin
    Session(2) do session
        error = thrown(() -> run(session, "rank == 1 && error(\"no data\"); println(\"done\")"))
        @test error.result.failure.ranks == [1]
        @test error.result.text == "[0] done\n"
        dead = thrown(() -> run(session, "rank == 1 && ccall(:_exit, Cvoid, (Cint,), 3); barrier(comm)"))
        @test occursin("RankDied", thrown_text(dead))
        @test occursin("RankUnavailable", thrown_text(thrown(() -> run(session, "1"))))
        @test run(session, "1"; ranks = "alive").ranks == [0]
    end
end

@testset "Ctrl-C" begin
    Base.exit_on_sigint(false)
    Session(2) do session
        run(session, "kept = 1")
        code = "rank == 0 && ccall(:kill, Cint, (Cint, Cint), $(getpid()), 2); sleep(600)"
        @test thrown(() -> run(session, code)) isa InterruptException
        @test run(session, "kept").value == "1"
        # At any moment behind an event: no task that has ended may be where Julia waits.
        for wait_s in rand(12) ./ 8
            code = "rank == 0 && (println(1); sleep($wait_s); ccall(:kill, Cint, (Cint, Cint), $(getpid()), 2)); sleep(600)"
            @test thrown(() -> run(session, code)) isa InterruptException
        end
    end
end

@testset "the end" begin
    one, other = Session(1), Session(1)
    run(one, "x = 1")
    run(other, "x = 2")
    @test (run(one, "x").value, run(other, "x").value) == ("1", "2")
    close(one)
    close(one)
    error = thrown(() -> run(one, "x"))
    @test error isa SKError && error.code == 13
    @test run(other, "x").value == "2"
    close(other)
    failed = Session(1; command = ["/no/such/program"])
    @test occursin("RankUnavailable", thrown_text(thrown(() -> run(failed, "1"))))
    close(failed)
end

@testset "wrong arguments" begin
    @refused Session(0) "ranks is 0" "1 to 4096"
    @refused Session("two") "ranks"
    @refused Session(1; command = "x") "command" "Cmd or texts"
    @refused Session(1; command = String[]) "the rank program (argv) is empty"
    @refused Session(1; env = ["A=b"]) "env has" "pairs of texts"
    @refused Session(1; env = ["A=" => "b"]) "a name has no ="
    @refused Session(1; cwd = 3) "cwd is 3"
    Session(1) do session
        @refused run(session, "a\0b") "code has a NUL"
        @refused run(session, "1"; ranks = "x") "rank set"
        @refused run(session, "1"; ranks = "") "the rank set is empty"
        @refused run(session, "1"; check = 3) "check is 3"
    end
end
