# Sessions: rank processes that run cells of source text, for a script or a library.

"""
    Session(ranks; command, env, cwd, start_timeout, interrupt_timeout)
    Session(f, ranks; ...)

Starts `ranks` processes on this host that run cells, as a notebook's do. The second form calls
`f(session)` and closes it.

```julia
Session(4) do session
    print(run(session, "println(\\"rank \\", rank)").text)
end
```

- `command`: the rank program and its arguments, a `Cmd` or texts. By default Julia, from a checkout
  of libsk or an installed kernel's folder; `\`python3 -m libsk.kernel\`` is Python's;
- `env`: variables over this process's, pairs of texts; `cwd`: where ranks start;
- `start_timeout`: the longest wait for a rank to come up, in seconds; 60 by default;
- `interrupt_timeout`: from an interrupt to the end of its cell without the ranks that do not stop;
  1.5 by default.

One task at a time may use a session. Errors: [`SKError`](@ref).
"""
mutable struct Session
    handle::Ptr{Cvoid}
    world_size::Int
    interrupt_s::Float64
    count::Int
end

const POLL_MS = 50  # Tasks and Ctrl-C have their turn as often.
const PRESSES = 3

function Session(
    ranks;
    command = nothing,
    env = (),
    cwd = nothing,
    start_timeout = nothing,
    interrupt_timeout = nothing,
)
    count = whole(ranks, "ranks", typemin(Int32), typemax(Int32))
    words = command === nothing ? julia_command() : words_of(command)
    lines = String[lines_of(env)...]
    place = cwd === nothing ? nothing : c_text(cwd, "cwd")
    start_ms, interrupt_ms = milliseconds(start_timeout), milliseconds(interrupt_timeout)
    session_close[] == C_NULL && start()
    free_dropped()
    return disable_sigint() do
        open_session(count, words, lines, place, start_ms, interrupt_ms)
    end
end

function Session(f, ranks; config...)
    session = Session(ranks; config...)
    try
        return f(session)
    finally
        close(session)
    end
end

function open_session(count, words, lines, place, start_ms, interrupt_ms)
    made = Ref{Ptr{Cvoid}}(C_NULL)
    argv = [pointer.(words); Ptr{UInt8}(C_NULL)]
    env = [pointer.(lines); Ptr{UInt8}(C_NULL)]
    status = GC.@preserve words lines place argv env begin
        config = SessionConfig(
            sizeof(SessionConfig), count, pointer(argv), pointer(env),
            place === nothing ? C_NULL : pointer(place), C_NULL,
            start_ms, 0, 0, 0, interrupt_ms, C_NULL, C_NULL,
        )
        @waits libsk.sk_session_open(Ref(config)::Ptr{SessionConfig}, made::Ptr{Ptr{Cvoid}})::Int32
    end
    check(status)
    grace = interrupt_ms == 0 ? 1.5 : interrupt_ms / 1000
    session = Session(made[], count, grace, 0)
    return finalizer(each -> free_later(session_close[], each.handle), session)
end

"""What starts a rank of Julia."""
function julia_command()
    # Of a checkout, and of the folder of an installed kernel.
    places = (joinpath(@__DIR__, "..", "kernel", "rank.jl"), joinpath(@__DIR__, "..", "..", "rank.jl"))
    found = findfirst(isfile, places)
    if found === nothing
        invalid(
            "command is nothing, and there is no rank program of Julia beside this package; give one: " *
            "`python3 -m libsk.kernel`, or what follows -- in the kernel that " *
            "`sk install --language julia` makes",
        )
    end
    return [String.(Base.julia_cmd().exec); "--startup-file=no"; normpath(places[found]); library_path()]
end

words_of(command::Cmd) = words_of(command.exec)
function words_of(command)
    command isa AbstractVector || invalid("command is $(shown(command)); it must be a Cmd or texts")
    return String[c_text(word, "a word of command") for word in command]
end

function lines_of(env)
    return map(collect(env)) do each
        each isa Pair || invalid("env has $(shown(each)); it must have pairs of texts")
        name = c_text(first(each), "a name in env")
        '=' in name && invalid("env has $(shown(name)); a name has no =")
        return string(name, '=', c_text(last(each), "the value of $name in env"))
    end
end

function open_handle(session::Session)
    session.handle == C_NULL && closed("session")
    return session.handle
end

Base.isopen(session::Session) = session.handle != C_NULL

function Base.show(io::IO, session::Session)
    print(io, "Session of ", session.world_size, " ranks", isopen(session) ? "" : ", closed")
end

"""
    close(session::Session)

Ends the ranks and waits until they are gone, at most 10 s. Once is enough.
"""
function Base.close(session::Session)
    session.handle == C_NULL && return nothing
    handle, session.handle = session.handle, C_NULL
    return check(@waits libsk.sk_session_close(handle::Ptr{Cvoid})::Int32)
end

"""
    run(session, code; ranks, check = true, timeout, input)

Runs `code` as one cell on all ranks of a [`Session`](@ref), waits for its end, and returns a
[`CellResult`](@ref). Throws a [`CellError`](@ref) if the cell failed, unless `check` is false.

- `ranks`: a set as text (`"0-3,5"`, `"!0"`, `"alive"`, `"one"`) or a number;
- `timeout`: after so many seconds the cell is interrupted and an `SKError` with `code` 30 thrown;
- `input`: a function that is called with the prompt where a rank asks, and returns the line, or
  `nothing` for the end of input. Without it questions are refused.

Ctrl-C interrupts the cell on all ranks, which stay, and throws `InterruptException`. (In a script only
after `Base.exit_on_sigint(false)`.)
"""
function Base.run(
    session::Session,
    code::AbstractString;
    ranks = nothing,
    check = true,
    timeout = nothing,
    input = nothing,
)
    check isa Bool || invalid("check is $(shown(check)); allowed is true or false")
    limit_s = timeout === nothing ? Inf : milliseconds(timeout) / 1000
    text = c_text(code, "code")
    chosen = ranks === nothing ? nothing : c_text(ranks isa Integer ? string(ranks) : ranks, "ranks")
    outputs = Outputs()
    cell = disable_sigint(() -> execute(session, text, chosen, input !== nothing))
    try
        attend(session, cell, outputs, input, time() + limit_s)
    catch
        isopen(session) && stop(session, cell, outputs)
        rethrow()
    end
    if outputs.result === nothing
        stop(session, cell, outputs)
        throw(SKError(TIMEOUT, "run: the cell has not ended within $timeout s, so it was interrupted"))
    end
    check && outputs.result.status != :ok && throw(CellError(outputs.result))
    return outputs.result
end

function execute(session, text, chosen, asks)
    made = Ref{UInt64}(0)
    handle = open_handle(session)
    # All ranks count a cell alike: else their tracebacks differ.
    options = ExecOptions(
        sizeof(ExecOptions), 0, 0, 0, session.count + 1, 0, asks, C_NULL, C_NULL
    )
    status = GC.@preserve text chosen begin
        set = chosen === nothing ? Ptr{UInt8}(C_NULL) : pointer(chosen)
        @waits libsk.sk_exec(
            handle::Ptr{Cvoid}, set::Ptr{UInt8}, pointer(text)::Ptr{UInt8},
            sizeof(text)::UInt64, Ref(options)::Ptr{ExecOptions}, made::Ptr{UInt64}
        )::Int32
    end
    check(status)
    session.count += 1
    return made[]
end

"""Takes events and answers questions until the cell has ended, or the time is over."""
function attend(session, cell, outputs, input, until)
    while outputs.result === nothing && time() < until
        asked = disable_sigint(() -> take_event!(session, cell, outputs))
        yield()
        GC.safepoint()
        asked === nothing && continue
        line = input(asked.prompt)
        answer(session, asked.request, line === nothing ? nothing : c_text(line, "the answer of input"))
    end
end

"""The next event. A question, where it is one; an event that is read is not lost by Ctrl-C."""
function take_event!(session, cell, outputs)
    event = blank(Event)
    handle = open_handle(session)
    check(@waits libsk.sk_session_poll(
        handle::Ptr{Cvoid}, POLL_MS::Int64, event::Ptr{Event}
    )::Int32)
    each = event[]
    if each.kind == EVENT_STATUS && each.status == 4  # SK_SESSION_OVER
        throw(SKError(20, "this session is over: $(wire_text(each.text))"))
    end
    each.cell == cell || return nothing
    if each.kind == EVENT_INPUT
        return (prompt = unsafe_string(each.text, each.text_bytes), request = each.request)
    end
    take_in!(outputs, each)
    return nothing
end

function answer(session, request, line)
    handle = open_handle(session)
    GC.@preserve line begin
        at = line === nothing ? Ptr{UInt8}(C_NULL) : pointer(line)
        bytes = line === nothing ? 0 : sizeof(line)
        check(@waits libsk.sk_session_answer(
            handle::Ptr{Cvoid}, request::UInt64, at::Ptr{UInt8}, bytes::UInt64
        )::Int32)
    end
end

"""Interrupts the cell and waits for its end; again for each Ctrl-C meanwhile."""
function stop(session, cell, outputs)
    for _ in 1:PRESSES
        try
            handle = open_handle(session)
            check(@waits libsk.sk_session_interrupt(handle::Ptr{Cvoid})::Int32)
            # The controller gives a rank that ends its cell four times as long as one that does not.
            return attend(session, cell, outputs, _ -> nothing, time() + 4 * session.interrupt_s + 5)
        catch error
            error isa InterruptException && continue
            error isa SKError && return nothing  # The session is over.
            rethrow()
        end
    end
end
