# Cells of a session: run and waited for, or started, with their events.

"""
    Cell

A cell that `run(session, code; wait = false)` has queued, or that [`attach`](@ref) found. `fetch(cell)` waits
for its end and gives its [`CellResult`](@ref); `wait(cell)` only waits; `isready(cell)` says whether it has
ended. `Channel(cell)` has each [`CellEvent`](@ref) as it comes, from the first:

```julia
cell = run(session, "for step in 1:3 println(step) end"; wait = false)
for event in Channel(cell)
    event.kind == :text && print(event.text)
end
```

Fields: `number` in the session, and `tag`, what it was started with.
"""
mutable struct Cell
    session::Session
    number::Int
    tag::String
    keeps::Bool  # All events, for those who read them.
    events::Vector{CellEvent}
    outputs::Outputs
    prompt::Union{Nothing,CellEvent}  # The one that is open.
    result::Union{Nothing,CellResult}
end

Cell(session, number, keeps, tag) = Cell(session, number, tag, keeps, [], Outputs(), nothing, nothing)

function Base.show(io::IO, cell::Cell)
    print(io, "Cell ", cell.number, ": ", cell.result === nothing ? "not ended" : cell.result.status)
end

function take_in!(cell::Cell, event::CellEvent)
    cell.keeps && push!(cell.events, event)
    if event.kind == :input
        cell.prompt = event
    elseif event.kind == :input_end
        cell.prompt !== nothing && cell.prompt.request == event.request && (cell.prompt = nothing)
    elseif event.kind == :done
        cell.prompt = nothing
        cell.result = result_of(cell.outputs, cell.number, event)
    else
        take_in!(cell.outputs, event)
    end
    return nothing
end

"""
    run(session, code; ranks, check = true, timeout, input, silent = false, go_on = false)
    run(f, session, code; ...)
    run(session, code; wait = false, ranks, input = false, silent = false, go_on = false, tag)

Runs `code` as one cell on all ranks of a [`Session`](@ref), waits for its end, and returns a
[`CellResult`](@ref). Throws a [`CellError`](@ref) if the cell failed, unless `check` is false. The second
form calls `f(event)` with each [`CellEvent`](@ref) meanwhile. The third queues the cell and returns a
[`Cell`](@ref) at once.

- `ranks`: a set as text (`"0-3,5"`, `"!0"`, `"alive"`, `"one"`), a number, or several (`0:2`);
- `timeout`: after so many seconds this cell is interrupted, or dropped if it has not begun, and an `SKError`
  with `code` 30 thrown; other tasks' cells are run;
- `input`: a function that is called with the prompt where a rank asks, and returns the line, or
  `nothing` for the end of input. Without it questions are refused. A cell that is not waited for takes
  `true`, and somebody has to call [`LibSK.answer`](@ref). The function cannot run cells of this session,
  which would wait for its answer;
- `silent`: the cell is not in the ranks' history, and shows no value;
- `go_on`: cells behind it are run though it fails: for cells that have nothing to do with each other;
- `tag`: the caller's own text, which a session that attaches finds at the cell.

Ctrl-C interrupts what runs on all ranks, which stay, and throws `InterruptException`; where several tasks wait,
in the program's own: that of a script or of the prompt. What others wait for goes on, until
[`LibSK.interrupt`](@ref). (In a script only after `Base.exit_on_sigint(false)`.)
"""
function Base.run(
    session::Session,
    code::AbstractString;
    wait = true,
    ranks = nothing,
    check = true,
    timeout = nothing,
    input = nothing,
    silent = false,
    go_on = false,
    tag = nothing,
)
    for (name, value) in ("wait" => wait, "check" => check, "silent" => silent, "go_on" => go_on)
        value isa Bool || invalid("$name is $(shown(value)); allowed is true or false")
    end
    if !wait
        timeout === nothing || invalid("timeout is $(shown(timeout)); with wait = false give it to fetch()")
        check || invalid("check is false; with wait = false give it to fetch()")
        asks = input === nothing ? false : input
        asks isa Bool || invalid("input is $(shown(input)); with wait = false allowed is true or false")
        start() = execute(session, code, ranks, asks, silent, go_on, tag, true)
        return made_whole(start, undo = interrupt)
    end
    input isa Bool && invalid("input is $input; give a function of the prompt, or nothing")
    return run_cell(nothing, session, code, ranks, check, timeout, input, silent, go_on, tag)
end

function Base.run(
    f::Function,
    session::Session,
    code::AbstractString;
    ranks = nothing,
    check = true,
    timeout = nothing,
    input = nothing,
    silent = false,
    go_on = false,
    tag = nothing,
)
    for (name, value) in ("check" => check, "silent" => silent, "go_on" => go_on)
        value isa Bool || invalid("$name is $(shown(value)); allowed is true or false")
    end
    return run_cell(f, session, code, ranks, check, timeout, input, silent, go_on, tag)
end

function run_cell(f, session, code, ranks, check, timeout, input, silent, go_on, tag)
    limit_s = timeout === nothing ? Inf : milliseconds(timeout) / 1000
    refuse_inside_input("run", session)
    until = now_s() + limit_s
    cell = nothing
    try
        disable_sigint() do
            cell = execute(session, code, ranks, input !== nothing, silent, go_on, tag, f !== nothing)
        end
        attend(f, cell, input, until)
    catch error
        Base.sigatomic_begin()
        # Ctrl-C is for what runs, other errors are of this cell.
        stop(cell, error isa InterruptException ? session : cell)
        rethrow()
    end
    if cell.result === nothing
        Base.sigatomic_begin()
        stop(cell, cell)
        never = cell.result !== nothing && cell.result.status == :aborted
        how = never ? "begun within $timeout s, so it was dropped" : "ended within $timeout s, so it was interrupted"
        throw(SKError(TIMEOUT, "run: the cell has not $how"))
    end
    return handed_over(cell, check)
end

"""While `answer()` runs, which the ranks of a cell wait for."""
inside_input(answer, cell) = task_local_storage(answer, :LibSK_asks, cell)

"""Throws where the end of a cell, by default of one to come, waits for what this task answers."""
function refuse_inside_input(call, session, number = typemax(Int))
    asks = get(task_local_storage(), :LibSK_asks, nothing)
    (asks === nothing || asks.session !== session || number < asks.number) && return nothing
    throw(SKError(
        BUSY, "$call: cell $(asks.number) waits for what this function, its input, returns, and other cells " *
        "wait for that",
    ))
end

"""A set of ranks as the library reads it."""
rank_set(::Nothing) = nothing
rank_set(ranks::AbstractString) = c_text(ranks, "ranks")
function rank_set(ranks)
    each = ranks isa Integer ? (ranks,) : ranks
    allowed = "a set as \"0-3,5\", a rank, several, or nothing for all"
    several = each isa Union{AbstractVector,AbstractSet,Tuple} && !isempty(each)
    if !several || !all(rank -> rank isa Integer && !(rank isa Bool), each)
        invalid("ranks is $(shown(ranks)); give $allowed")
    end
    return join(each, ',')
end

function execute(session, code, ranks, asks, silent, go_on, tag, keeps)
    text, chosen = c_text(code, "code"), rank_set(ranks)
    said = tag === nothing ? nothing : c_text(tag, "tag")
    # None of its events is read before it is known.
    return lock(session.lock) do
        handle = open_handle(session)
        made = Ref{UInt64}(0)
        # All ranks count a cell alike: else their tracebacks differ.
        count = silent || session.count === nothing ? 0 : session.count + 1
        status = GC.@preserve text chosen said begin
            options = ExecOptions(
                sizeof(ExecOptions), silent, 0, go_on, count, 0, asks, C_NULL,
                said === nothing ? C_NULL : pointer(said),
            )
            set = chosen === nothing ? Ptr{UInt8}(C_NULL) : pointer(chosen)
            @waits libsk.sk_exec(
                handle::Ptr{Cvoid}, set::Ptr{UInt8}, pointer(text)::Ptr{UInt8},
                sizeof(text)::UInt64, Ref(options)::Ptr{ExecOptions}, made::Ptr{UInt64}
            )::Int32
        end
        check(status)
        session.count = Int(made[])
        cell = Cell(session, made[], keeps, something(said, ""))
        session.book.cells[made[]] = cell
        return cell
    end
end

"""Hands on events and answers questions until the cell has ended, or the time is over."""
function attend(f, cell, input, until)
    seen = 0
    asks() = input !== nothing && cell.prompt !== nothing
    while true
        news() = cell.result !== nothing || asks() || f !== nothing && length(cell.events) > seen
        await_that(news, cell.session, until) || return
        while f !== nothing && length(cell.events) > seen
            seen += 1
            f(cell.events[seen])
        end
        cell.result === nothing || return
        asks() && answer(cell, inside_input(() -> input(cell.prompt.text), cell))
    end
end

"""
Interrupts `what`, the cell alone or its session, and waits for its end; the session for each Ctrl-C meanwhile. Such
as have come behind the caller's sigatomic_begin() are thrown here.
"""
function stop(cell, what)
    is_first = true
    for _ in 1:PRESSES
        try
            is_first && (is_first = false; Base.sigatomic_end())
            (cell === nothing || !isopen(cell.session)) && return nothing
            session = cell.session
            interrupt(what)
            return await_that(() -> cell.result !== nothing, session, now_s() + session.stop_s)
        catch error
            if error isa InterruptException
                cell === nothing || (what = cell.session)
                continue
            end
            error isa SKError && return nothing  # The session is over.
            rethrow()
        end
    end
end

const PRESSES = 3

"""From here on its reader has it, so that a session that attaches need not tell it anew."""
function handed_over(cell, checks)
    session = cell.session
    if session.has_name && isopen(session) && isempty(session.book.over)
        # Where this fails, nobody is left to tell it anew.
        @waits libsk.sk_session_ack(session.handle::Ptr{Cvoid}, cell.number::UInt64)::Int32
    end
    checks && cell.result.status != :ok && throw(CellError(cell.result))
    return cell.result
end

"""
    fetch(cell::Cell; check = true, timeout)

Waits for the cell's end and returns its [`CellResult`](@ref); throws a [`CellError`](@ref) if it failed,
unless `check` is false. After `timeout` seconds an `SKError` with `code` 30 is thrown, and the cell goes on, as it
does where Ctrl-C ends the wait: [`LibSK.interrupt`](@ref) ends it.
"""
function Base.fetch(cell::Cell; check = true, timeout = nothing)
    check isa Bool || invalid("check is $(shown(check)); allowed is true or false")
    wait(cell; timeout = timeout)
    return handed_over(cell, check)
end

"""
    wait(cell::Cell; timeout)

Waits for the cell's end, however it ends.
"""
function Base.wait(cell::Cell; timeout = nothing)
    until = timeout === nothing ? Inf : now_s() + milliseconds(timeout) / 1000
    cell.result === nothing && refuse_inside_input("wait", cell.session, cell.number)
    await_that(() -> cell.result !== nothing, cell.session, until) && return nothing
    throw(SKError(TIMEOUT, "cell $(cell.number) has not ended within $timeout s; it goes on"))
end

"""
    isready(cell::Cell)

Whether the cell has ended, as far as has come. Where its end will not come, an [`SKError`](@ref) says why.
"""
function Base.isready(cell::Cell)
    cell.result === nothing || return true
    over = catch_up(cell.session).over
    cell.result === nothing || return true
    isempty(over) || throw(SKError(PEER_LOST, "this session is over: $over"))
    return false
end

"""
    Channel(cell::Cell)

Each [`CellEvent`](@ref) of a cell as it comes, from the first to its end, for any number of readers. Where Ctrl-C
ends the reading, the cell goes on.
"""
function Base.Channel(cell::Cell)
    cell.result === nothing && refuse_inside_input("Channel", cell.session, cell.number)
    return Channel{CellEvent}(16) do channel
        at = 1
        while true
            await_that(() -> length(cell.events) >= at, cell.session)
            put!(channel, cell.events[at])
            cell.events[at].kind == :done && break
            at += 1
        end
        handed_over(cell, false)
    end
end

"""
    LibSK.answer(cell, line)

Answers the question that the cell's ranks wait with (an event `:input`); `nothing` is the end of input.
"""
function answer(cell::Cell, line)
    text = line === nothing ? nothing : c_text(line, "line")
    prompt = lock(cell.session.lock) do
        was, cell.prompt = cell.prompt, nothing
        return was
    end
    prompt === nothing && invalid("line is $(shown(line)); cell $(cell.number) asks for nothing")
    handle = open_handle(cell.session)
    GC.@preserve text begin
        at = text === nothing ? Ptr{UInt8}(C_NULL) : pointer(text)
        bytes = text === nothing ? 0 : sizeof(text)
        check(@waits libsk.sk_session_answer(
            handle::Ptr{Cvoid}, prompt.request::UInt64, at::Ptr{UInt8}, bytes::UInt64
        )::Int32)
    end
    return nothing
end

"""
    LibSK.interrupt(cell)

Interrupts this cell alone, on all of its ranks, or drops it if it has not begun. What is queued behind it is run.
Nothing happens where it has ended. Does not wait for that.
"""
function interrupt(cell::Cell)
    handle = open_handle(cell.session)
    return check(@waits libsk.sk_session_cancel(handle::Ptr{Cvoid}, cell.number::UInt64)::Int32)
end

"""
    LibSK.interrupt(session)

Interrupts the cell that runs, on all of its ranks, and drops those that wait. Does not wait for that.
"""
function interrupt(session::Session)
    handle = open_handle(session)
    return check(@waits libsk.sk_session_interrupt(handle::Ptr{Cvoid})::Int32)
end
