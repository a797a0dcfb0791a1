# Sessions: whose error is whose, cells that are started, their events, and what can be asked.
include("common.jl")

const SIZE = 2
thrown_text(error) = sprint(showerror, error)

@testset "each rank's own error" begin
    Session(3) do session
        run(session, "using LibSK")
        code = "rank == 1 && error(\"no data\"); rank == 2 && sqrt(-1)"
        failure = thrown(() -> run(session, code)).result.failure
        @test (failure.name, failure.ranks) == ("MultiRankError", [1, 2])
        @test [own.rank for own in failure.each] == [1, 2]
        @test [own.name for own in failure.each] == ["ErrorException", "DomainError"]
        @test failure.each[1].value == "no data"
        @test occursin("no data", failure.each[1].traceback) && !occursin("Domain", failure.each[1].traceback)
        @test !any(own.is_consequence for own in failure.each)
        # Equal ones are told once, and are each rank's nevertheless.
        failure = run(session, "error(\"x\")"; check = false).failure
        @test (failure.name, failure.value) == ("ErrorException", "x [ranks 0-2]")
        @test [(own.rank, own.value) for own in failure.each] == [(rank, "x") for rank in 0:2]
        failure = run(session, "rank == 0 ? error(\"root\") : barrier(comm)"; check = false).failure
        @test [own.is_consequence for own in failure.each] == [false, true, true]
        done = run(session, "1")
        @test done.failure === nothing && sort!(collect(keys(done.seconds))) == 0:2
        @test all(seconds >= 0 for seconds in values(done.cpu_seconds))
    end
end

Session(SIZE) do session
    @testset "a cell that is started" begin
        cell = run(session, "for i in 1:3 println(i) end"; wait = false, tag = "mine")
        @test (cell.tag, cell.number) == ("mine", 1)
        @test fetch(cell).text == "1\n2\n3\n"
        @test isready(cell) && fetch(cell) === fetch(cell)
        text = ""  # What a quick rank alone has printed is shown at first, and replaced.
        for event in Channel(cell)
            event.kind == :clear && (text = "")
            event.kind == :text && (text *= event.text)
        end
        @test text == "1\n2\n3\n"
        kinds = [event.kind for event in Channel(cell)]  # A second reader has them all.
        @test (first(kinds), last(kinds)) == (:start, :done)
        failed = run(session, "error(\"x\")"; wait = false)
        @test wait(failed) === nothing
        @test thrown(() -> fetch(failed)) isa CellError
        @test fetch(failed; check = false).status == :error
    end

    @testset "other tasks go on meanwhile" begin
        cell = run(session, "sleep(600)"; wait = false)
        behind = run(session, "1"; wait = false)
        turns = Ref(0)
        counter = @async while !isready(cell)
            turns[] += 1
            sleep(0.01)
        end
        late = thrown(() -> fetch(cell; timeout = 0.5))
        @test late isa SKError && late.code == 30 && !isready(cell)
        @test turns[] > 3
        @test occursin("sleep", LibSK.stack(session)) || !isempty(LibSK.stack(session))
        LibSK.interrupt(session)
        @test fetch(cell; check = false).failure.name == "InterruptException"
        @test fetch(behind; check = false).status == :aborted
        wait(counter)
        @test run(session, "1").value == "1"
    end

    @testset "events while it runs" begin
        seen = CellEvent[]
        result = run(session, "println(\"a\"); display(\"text/html\", HTML(\"<b>\")); 7") do event
            push!(seen, event)
        end
        @test result.value == "7"
        @test (first(seen).kind, last(seen).kind) == (:start, :done)
        @test any(event -> event.kind == :text && event.stream == :stdout, seen)
        @test any(event -> event.kind == :display && haskey(event.display.data, "text/html"), seen)
        @test_throws ErrorException run(event -> error("mine"), session, "sleep(600)")
        @test run(session, "1").value == "1"
    end

    @testset "a question of a cell that is started" begin
        cell = run(session, "println(\"got \", readline())"; wait = false, input = true)
        for event in Channel(cell)
            event.kind == :input && LibSK.answer(cell, "Ada ☃")
        end
        @test occursin("got Ada ☃\n", fetch(cell).text)
        @refused LibSK.answer(cell, "again") "asks for nothing"
    end

    @testset "what can be asked" begin
        run(session, "value_of_mine = 1; for i in 1:20_000 println(i) end; display(\"text/html\", HTML(\"<i>\"))")
        @test endswith(cell_log(session), "20000\n") && count("\n", cell_log(session)) == 20_000
        @test cell_log(session; ranks = 1) == cell_log(session)
        number = run(session, "println(\"rank \", rank)"; silent = true).cell
        @test cell_log(session, number; ranks = 1) == "rank 1\n"
        shown = LibSK.cell_displays(session, 1, number - 1)
        @test [String(copy(each.data["text/html"])) for each in shown if haskey(each.data, "text/html")] == ["<i>"]
        # A rank that is slow to answer is answered for, by what is known of it outside.
        soon(call) = any(_ -> call(), 1:100)
        @test soon(() -> LibSK.complete(session, "1 + value_of_mi") == (matches = ["value_of_mine"], range = 5:15))
        @test soon(() -> LibSK.inspect(session, "value_of_mine") !== nothing)
        @test LibSK.inspect(session, "no_such_name_here") === nothing
        @test soon(() -> LibSK.is_complete(session, "1 + 1").status == :complete)
        @test soon(() -> LibSK.is_complete(session, "for i in 1:2").status == :incomplete)
        LibSK.configure(session; tag = :none)
        @test run(session, "println(rank)").text == "0\n1\n"
        LibSK.configure(session; tag = :set, shown_lines = 16)
        shown = run(session, "foreach(println, 1:999)").displays
        @test any(each -> occursin("elided, in the log of cell", String(copy(each.data["text/plain"]))), shown)
    end

    @testset "ranks that are lost" begin
        wait(session; timeout = 60)
        @test (LibSK.state(session), LibSK.lost(session)) == (:ready, Dict())
        @test [each["state"] for each in LibSK.status(session)["ranks"]] == ["idle", "idle"]
        run(session, "kept = 1; rank == 1 && ccall(:_exit, Cvoid, (Cint,), 3)"; check = false)
        error = thrown(() -> wait(session))
        @test error isa SKError && error.code == 20 && error.rank == 1
        @test LibSK.state(session) == :degraded && collect(keys(LibSK.lost(session))) == [1]
        refused = thrown(() -> run(session, "1"))
        @test occursin("The call \"revive\" starts again what is lost", thrown_text(refused))
        @test isempty(refused.result.failure.each)
        @test revive(session) == [1]
        @test run(session, "isdefined(Main, :kept)").displays[1].ranks == [0, 1]
        @test isempty(LibSK.lost(session))
        again = thrown(() -> revive(session; ranks = 1))
        @test again isa SKError && occursin("rank 1", again.sentence)
    end

    @testset "wrong arguments" begin
        @refused run(session, "1"; wait = 3) "wait is 3"
        @refused run(session, "1"; wait = false, timeout = 3) "timeout is 3" "fetch()"
        @refused run(session, "1"; wait = false, input = identity) "input is"
        @refused run(session, "1"; input = true) "a function of the prompt"
        @refused run(session, "1"; silent = "x") "silent is"
        @refused run(session, "1"; tag = 3) "tag is 3"
        @refused run(session, "1"; ranks = (0, true)) "ranks is"
        @refused run(session, "1"; ranks = Int[]) "ranks is"
        @refused run(session, "1"; ranks = 1.5) "ranks is 1.5"
        @refused fetch(run(session, "1"; wait = false); timeout = -1) "timeout is -1"
        @refused cell_log(session, 0) "cell is 0"
        @refused LibSK.cell_displays(session, 2) "rank is 2"
        @refused LibSK.configure(session; tag = :other) "tag is :other"
        @refused LibSK.configure(session; shown_lines = -1) "shown_lines is -1"
        @refused LibSK.complete(session, "x", 2) "cursor is 2"
        @refused LibSK.inspect(session, "x"; detail = 2) "detail is 2"
        @refused LibSK.keep(session, 3, "x") "name is 3"
        for call in (() -> LibSK.configure(session; shown_lines = 3), () -> cell_log(session, 9999))
            error = thrown(call)
            @test error isa SKError && error.code == 11
            @test !occursin("sk_", error.sentence)
        end
        @test run(session, "1").value == "1"
    end
end
