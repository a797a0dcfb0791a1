# Sessions: rank processes that run cells of source text, for a script or a library.

"""
    Session(ranks; command, env, cwd, name, token, lease, ...)
    Session(f, ranks; ...)

Starts `ranks` processes on this host that run cells, as a notebook's do. The second form calls
`f(session)` and closes it.

```julia
Session(4) do session
    print(run(session, "println(\\"rank \\", rank)").text)
end
```

- `command`: the rank program and its arguments, a `Cmd` or texts. By default Julia, from a checkout
  of libsk or an installed kernel's folder; `\`python3 -m libsk.kernel\`` is Python's. With `fork = true`
  it is started once, and ranks are forked from it: Python's can be;
- `env`: variables over this process's, pairs of texts; `cwd`: where ranks start;
- `name`, `token`, `lease`: with these the session outlives a process that ends without closing it, for
  `lease` seconds, in which [`attach`](@ref) goes on with it. `token` is what that must show, a text of 16
  bytes or more; one is made up (`session.token`) where none is given;
- `start_timeout`: the longest wait for a rank to come up, in seconds; 60 by default;
- `interrupt_timeout`: from an interrupt to the end of its cell without the ranks that do not stop;
  1.5 by default;
- `program`: the `sk` that becomes the session's controller; by default the one beside the library.

Any task may use it, and so may several. Events are read while somebody waits: for a cell, an answer, or the
session itself. Errors: [`SKError`](@ref).
"""
mutable struct Session
    handle::Ptr{Cvoid}
    world_size::Int
    token::Union{Nothing,String}
    has_name::Bool  # Then it keeps what is not acknowledged.
    fd::RawFD
    stop_s::Float64  # How long a cell may take to end once it is interrupted.
    count::Union{Nothing,Int}  # Of its cells; nobody who attaches knows it.
    book::Book
    lock::ReentrantLock  # Of the handle's events and of the book.
    looked::Threads.Condition  # Under the lock: whoever watched the descriptor does so no more.
    is_watched::Bool
end

# From an interrupt to the end: the controller gives a rank that ends its cell four times as long as one
# that does not, and 5 s are for its end to come here.
stop_seconds(interrupt_s) = 4 * interrupt_s + 5
const INTERRUPT_S = 1.5
const ATTACHED_STOP_S = 60.0  # Whoever attaches does not know what the session was opened with.
const TOLD_S = 10.0  # Longest wait for what a session tells those who attach.

function Session(
    ranks;
    command = nothing,
    fork = false,
    env = (),
    cwd = nothing,
    name = nothing,
    token = nothing,
    lease = nothing,
    start_timeout = nothing,
    interrupt_timeout = nothing,
    program = nothing,
)
    count = whole(ranks, "ranks", typemin(Int32), typemax(Int32))
    words = command === nothing ? julia_command() : words_of(command)
    fork isa Bool || invalid("fork is $(shown(fork)); allowed is true or false")
    lines = String[lines_of(env)...]
    text(x, what) = x === nothing ? nothing : c_text(x, what)
    shows = token === nothing && name !== nothing ? random_token() : text(token, "token")
    texts = (cwd = text(cwd, "cwd"), sk = text(program, "program"), name = text(name, "name"), token = shows)
    times = (
        start = milliseconds(start_timeout, "start_timeout"), lease = milliseconds(lease, "lease"),
        interrupt = milliseconds(interrupt_timeout, "interrupt_timeout"),
    )
    session_close[] == C_NULL && start()
    free_dropped()
    return made_whole(undo = close) do
        handle = open_session(count, words, fork, lines, texts, times)
        interrupt_s = times.interrupt == 0 ? INTERRUPT_S : times.interrupt / 1000
        session_on(handle, count, shows, name !== nothing, stop_seconds(interrupt_s), 0)
    end
end

Session(f, ranks; config...) = closing(f, Session(ranks; config...))

"""
    attach(name, token)
    attach(f, name, token)

Goes on with a [`Session`](@ref) that was opened with this `name` and a lease, by a process that is gone: its
ranks have kept what they have, and a cell that runs goes on. `session.cells` are those whose results that
process has not taken, each a [`Cell`](@ref), and `session.notes` what it has left
([`LibSK.keep`](@ref)). The second form calls `f(session)` and closes it. Where it fails, or Ctrl-C ends it, the
session goes on for its lease, and can be attached again.

```julia
attach("night-run", token) do session
    for cell in session.cells
        print(fetch(cell).text)
    end
end
```
"""
function attach(name, token)
    said, shows = c_text(name, "name"), c_text(token, "token")
    session_close[] == C_NULL && start()
    free_dropped()
    session = nothing
    try
        disable_sigint() do
            made, ranks = Ref{Ptr{Cvoid}}(C_NULL), Ref{Int32}(0)
            status = GC.@preserve said shows begin
                @waits libsk.sk_session_attach(
                    pointer(said)::Ptr{UInt8}, pointer(shows)::Ptr{UInt8}, made::Ptr{Ptr{Cvoid}},
                    ranks::Ptr{Int32}
                )::Int32
            end
            check(status)
            session = session_on(made[], Int(ranks[]), shows, true, ATTACHED_STOP_S, nothing)
            session.book.adopts = true
        end
        while session.book.states_told < 2
            heard = session.book.heard
            await_that(() -> session.book.heard != heard, session, now_s() + TOLD_S) ||
                throw(SKError(TIMEOUT, "attach: the session told nothing of itself for $TOLD_S s"))
        end
        return session
    catch
        session === nothing || leave(session)
        rethrow()
    end
end

attach(f, name, token) = closing(f, attach(name, token))

function closing(f, session)
    try
        return f(session)
    finally
        close(session)
    end
end

function session_on(handle, ranks, token, has_name, stop_s, count)
    fd = Ref{Int32}(-1)
    check(@waits libsk.sk_session_fd(handle::Ptr{Cvoid}, fd::Ptr{Int32})::Int32)
    own = ReentrantLock()
    session = Session(
        handle, ranks, token, has_name, RawFD(fd[]), stop_s, count, Book(), own, Threads.Condition(own), false
    )
    precompile(hand_on_interrupt, (Waiter,))  # Else the first Ctrl-C waits for that, and a second breaks it off.
    # What attached and is dropped has not ended what it was to rescue.
    end_ = count === nothing ? session_leave : session_close
    return finalizer(each -> free_later(end_[], each.handle), session)
end

function open_session(count, words, fork, lines, texts, times)
    made = Ref{Ptr{Cvoid}}(C_NULL)
    argv = [pointer.(words); Ptr{UInt8}(C_NULL)]
    env = [pointer.(lines); Ptr{UInt8}(C_NULL)]
    at(text) = text === nothing ? Ptr{UInt8}(C_NULL) : pointer(text)
    status = GC.@preserve words lines texts argv env begin
        config = SessionConfig(
            sizeof(SessionConfig), count, pointer(argv), pointer(env), at(texts.cwd), at(texts.sk),
            times.start, times.lease, fork ? SESSION_TEMPLATE : 0, 0, times.interrupt, at(texts.name),
            at(texts.token),
        )
        @waits libsk.sk_session_open(Ref(config)::Ptr{SessionConfig}, made::Ptr{Ptr{Cvoid}})::Int32
    end
    check(status)
    return made[]
end

const SESSION_TEMPLATE = 1  # enum sk_session_flags

random_token() = bytes2hex(open(file -> read(file, 16), "/dev/urandom"))

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
    # What is active here finds the same packages there.
    project = Base.ACTIVE_PROJECT[] === nothing ? String[] : ["--project=$(dirname(Base.active_project()))"]
    words = [String.(Base.julia_cmd().exec); project; "--startup-file=no"]
    return [words; normpath(places[found]); library_path()]
end

function words_of(command::Cmd)
    command.env === nothing || invalid("command is a Cmd with an environment; give that as env")
    isempty(command.dir) || invalid("command is a Cmd with a folder; give that as cwd")
    return words_of(command.exec)
end
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

function Base.getproperty(session::Session, name::Symbol)
    name === :cells && return lock(() -> copy(session.book.told), session.lock)
    name === :notes && return lock(() -> copy(session.book.notes), session.lock)
    return getfield(session, name)
end

Base.propertynames(::Session) = (:world_size, :token, :cells, :notes)

function Base.show(io::IO, session::Session)
    print(io, "Session of ", session.world_size, " ranks", isopen(session) ? "" : ", closed")
end

"""
    close(session::Session)

Ends the ranks and waits until they are gone, at most 10 s. Once is enough.
"""
function Base.close(session::Session)
    give_up(session) do handle
        @waits libsk.sk_session_close(handle::Ptr{Cvoid})::Int32
    end
end

"""Leaves the session to its lease, as the end of this process would."""
function leave(session::Session)
    give_up(session) do handle
        @waits libsk.sk_session_leave(handle::Ptr{Cvoid})::Int32
    end
end

"""Frees it by `free(handle)`; where that is refused, or Ctrl-C comes before, it stays as it was."""
function give_up(free, session)
    handle, is_free = C_NULL, false
    try
        disable_sigint() do
            lock(session.lock) do
                handle, session.handle = session.handle, C_NULL
            end
        end
        handle == C_NULL && return nothing
        # Nobody may watch a descriptor that is closed.
        until = now_s() + CLOSE_S
        while session.is_watched && now_s() < until
            sleep(0.005)
        end
        disable_sigint() do
            status = free(handle)
            is_free = status != BUSY
            check(status)
        end
    catch
        is_free || handle == C_NULL || lock(() -> session.handle = handle, session.lock)
        rethrow()
    end
    return nothing
end

const CLOSE_S = 5.0  # Longest wait for who watches its events, which looks up each 50 ms.
