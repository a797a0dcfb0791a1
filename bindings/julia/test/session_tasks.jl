# Sessions that several tasks use: whose Ctrl-C is, whose timeout, and what one task's cell is to another's.
include("common.jl")

Base.exit_on_sigint(false)

"""Ctrl-C for this process, as a terminal gives it, after so many seconds."""
press_after(seconds) = run(`sh -c "sleep $seconds; kill -INT $(getpid())"`; wait = false)

interrupted(call) = thrown(call) isa InterruptException

@testset "what was made is undone where Ctrl-C came meanwhile" begin
    undone = Ref(0)
    make() = (ccall(:kill, Cint, (Cint, Cint), getpid(), 2); Libc.systemsleep(0.2); 7)
    @test interrupted(() -> LibSK.made_whole(make, undo = made -> undone[] = made))
    @test undone[] == 7
    @test LibSK.made_whole(() -> 8, undo = made -> undone[] = made) == 8
    @test thrown(() -> LibSK.made_whole(() -> error("mine"), undo = made -> undone[] = made)) == ErrorException("mine")
    @test undone[] == 7
end

Session(1) do session
    run(session, "1")

    @testset "Ctrl-C is the program's, whoever waits beside it" begin
        Session(1) do other
            run(other, "1")
            aside = run(other, "sleep(600)"; wait = false)
            beside = [@async(wait(aside)), @async(wait(aside)), @async(foreach(identity, Channel(aside)))]
            calls = (
                () -> run(session, "sleep(600)"),
                () -> fetch(run(session, "sleep(600)"; wait = false)),
                () -> foreach(identity, Channel(run(session, "sleep(600)"; wait = false))),
                () -> sleep(600),
            )
            for call in calls, _ in 1:3
                press_after(0.3 + rand() / 8)
                @test interrupted(call)
                LibSK.interrupt(session)
                @test !any(istaskdone, beside)
            end
            LibSK.interrupt(aside)
            foreach(wait, beside)
            @test fetch(aside; check = false).failure.name == "InterruptException"
            @test run(other, "2").value == "2"
        end
        @test run(session, "2").value == "2"
    end

    @testset "a timeout is of one cell" begin
        long = run(session, "sleep(2); 7"; wait = false)
        late = thrown(() -> run(session, "2"; timeout = 0.3))
        @test late isa SKError && late.code == 30 && occursin("has not begun", late.sentence)
        @test thrown(() -> run(event -> error("mine"), session, "3")) == ErrorException("mine")
        @test fetch(long).value == "7"
        late = thrown(() -> run(session, "sleep(600)"; timeout = 0.3))
        @test late.code == 30 && occursin("has not ended", late.sentence)
        @test run(session, "2").value == "2"
    end

    @testset "a cell that is interrupted alone" begin
        first, second = run(session, "sleep(600)"; wait = false), run(session, "2"; wait = false)
        third = run(session, "3"; wait = false)
        LibSK.interrupt(second)
        LibSK.interrupt(first)
        @test fetch(first; check = false).status == :error
        @test fetch(second; check = false).status == :aborted
        @test fetch(third).value == "3"
        @test LibSK.interrupt(third) === nothing
    end

    @testset "cells that have nothing to do with each other" begin
        failed = run(session, "sleep(0.5); error(\"x\")"; wait = false)
        behind = run(session, "2"; wait = false)
        @test fetch(failed; check = false).status == :error && fetch(behind; check = false).status == :aborted
        failed = run(session, "sleep(0.5); error(\"x\")"; wait = false, go_on = true)
        @test run(session, "2").value == "2"
        @test fetch(failed; check = false).status == :error
        @refused run(session, "1"; go_on = 3) "go_on is 3"
    end

    @testset "an answer runs no cells" begin
        ended = run(session, "1"; wait = false)
        wait(ended)
        refused = Any[]
        result = run(session, "readline()"; input = prompt -> begin
            for call in (() -> run(session, "1"), () -> wait(run(session, "1"; wait = false)))
                push!(refused, thrown(call))
            end
            push!(refused, thrown(() -> fetch(ended)))
            "a line"
        end)
        @test result.value == "\"a line\""
        @test [each isa SKError && each.code for each in refused] == [14, 14, false]
        @test occursin("waits for what this function, its input, returns", refused[1].sentence)
        @test run(session, "2").value == "2"
    end

    @testset "many tasks" begin
        results = asyncmap(i -> run(session, "$i"; go_on = true).value, 1:20; ntasks = 5)
        @test results == string.(1:20)
        waiting = run(session, "sleep(600)"; wait = false)
        readers = [@async(wait(waiting; timeout = 2)) for _ in 1:4]
        @test all(task -> thrown(() -> fetch(task)) !== nothing, readers)
        LibSK.interrupt(session)
        wait(waiting)
        @test !session.is_watched && isempty(LibSK.waiters)
    end
end

@testset "what will not come is not waited for" begin
    session = Session(1)
    cell = run(session, "sleep(600)"; wait = false)
    @test !isready(cell)
    close(session)
    @test thrown(() -> isready(cell)).code == 13
    @test thrown(() -> fetch(cell)).code == 13
end

@testset "the packages that are active here" begin
    before = Base.ACTIVE_PROJECT[]
    project = mktempdir()
    Base.ACTIVE_PROJECT[] = project
    try
        Session(session -> (@test startswith(run(session, "print(Base.active_project())").text, project)), 1)
    finally
        Base.ACTIVE_PROJECT[] = before
    end
    @refused Session(1; command = setenv(`true`, "A" => "b")) "give that as env"
    @refused Session(1; command = Cmd(`true`; dir = "/")) "give that as cwd"
end

@testset "Ctrl-C in attach() leaves the session to its lease" begin
    name, token = "tasks-" * string(rand(RandomDevice(), UInt32); base = 16), "a token that nobody guesses"
    first = "using LibSK; session = Session(1; name = \"$name\", token = \"$token\", lease = 600); run(session, \"kept = 7\")"
    # The controller hears a moment later that nobody is attached.
    attached() =
        while true
            try
                return attach(name, token)
            catch error
                error isa SKError && error.code == 14 || rethrow()
                GC.gc()  # Ctrl-C may come where attach() returns, and what it has made is dropped.
            end
        end
    # Its ranks go on, and with them whatever it has written to.
    run(pipeline(`$(Base.julia_cmd()) --startup-file=no -O0 -e $first`; stdout = devnull, stderr = devnull))
    for _ in 1:8
        session = nothing
        try
            pressing = press_after(rand() / 20)
            session = attached()
            wait(pressing)
            sleep(1)
        catch error
            error isa InterruptException || rethrow()
        end
        session === nothing || LibSK.leave(session)
    end
    session = attached()
    GC.gc()
    @test run(session, "kept").value == "7"
    close(session)
end
