# Sessions that outlive their process: another one goes on with them.
include("common.jl")

const NAME = "julia-" * string(rand(RandomDevice(), UInt32); base = 16)
const TOKEN = "a token that nobody guesses"

# What ends without closing its session, with a cell that nobody has taken and one that still runs.
const FIRST = """
using LibSK
session = Session(2; name = "$NAME", token = "$TOKEN", lease = 600)
run(session, "kept = rank")
LibSK.keep(session, "place", "page 7 ☃")
ended = run(session, "println(\\"not taken\\")"; wait = false, tag = "one")
wait(ended)
run(session, "println(\\"begun\\"); sleep(1); println(\\"goes on\\")"; wait = false, tag = "two")
println("left")
"""

@testset "another process goes on" begin
    julia = Base.julia_cmd()
    said, out = mktemp()  # A pipe would stay open as long as the ranks.
    run(pipeline(`$julia --startup-file=no -O0 -e $FIRST`; stdout = out))
    @test strip(read(said, String)) == "left"
    @test thrown(() -> attach(NAME, "another token, long enough")).code in (14, 20)
    attach(NAME, TOKEN) do session
        @test (session.world_size, session.token) == (2, TOKEN)
        @test session.notes == Dict("place" => "page 7 ☃")
        @test [cell.tag for cell in session.cells] == ["one", "two"]
        @test [fetch(cell).text for cell in session.cells] == ["not taken\n", "begun\ngoes on\n"]
        kept = run(session, "println(kept)")
        @test kept.text == "[0] 0\n[1] 1\n"
        @test kept.cell > session.cells[2].number
    end
    gone = thrown(() -> attach(NAME, TOKEN))
    @test gone isa SKError && gone.code == 20
end

@testset "a name and its token" begin
    session = Session(1; name = NAME, lease = 5)
    @test length(session.token) >= 16
    busy = thrown(() -> attach(NAME, session.token))
    @test busy isa SKError && busy.code == 14
    @test run(session, "1").value == "1"
    close(session)
    @refused Session(1; name = "No Name", token = TOKEN) "session: name is \"No Name\""
    @refused Session(1; name = NAME, token = "short") "a token of 5 bytes"
    @refused Session(1; name = 3) "name is 3"
    @refused Session(1; lease = -1) "lease is -1"
    @refused Session(1; fork = 3) "fork is 3"
    @refused attach(3, TOKEN) "name is 3"
    @refused attach(NAME, 3) "token is 3"
end

@testset "forked ranks of Python" begin
    python = get(ENV, "SK_PYTHON", "")
    if isempty(python)
        println("no Python with libsk.kernel here: SK_PYTHON names it")
    else
        Session(2; command = [python, "-m", "libsk.kernel"], fork = true) do session
            @test run(session, "print(rank)").text == "[0] 0\n[1] 1\n"
            failure = run(session, "{}[rank]"; check = false).failure
            @test [own.value for own in failure.each] == ["0", "1"]
        end
    end
end
