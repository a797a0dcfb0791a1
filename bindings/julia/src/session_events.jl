# What a session's events say, and how they are read: by whoever waits, under the session's lock.
#
# No task of its own reads them, so none takes Ctrl-C from the program; where several wait, it is handed on
# (interrupts.jl).

"""All that a session was told."""
mutable struct Book
    state::Symbol  # :starting, :ready, :degraded, :over
    over::String  # Why no event comes any more.
    states_told::Int
    heard::Int  # So many events.
    adopts::Bool  # A session that attached still hears of the cells of before: up to its second state.
    lost::Dict{Int,String}
    notes::Dict{String,String}
    cells::Dict{UInt64,Any}  # Those that have not ended.
    told::Vector{Any}  # Of a session that attached: those that the one before it did not hand over.
    replies::Dict{UInt64,Any}  # By request: nothing until the answer comes.
end

Book() = Book(:starting, "", 0, 0, false, Dict(), Dict(), Dict(), [], Dict())

# enum sk_session_state, enum sk_rank_state
const STATES = (:starting, :ready, :degraded, :over)
const RANK_STUCK, RANK_DEAD = 2, 3
const WATCH_S = 0.05  # What closes a session waits as long for who watches its events.

"""Seconds on a clock that nobody sets."""
now_s() = time_ns() / 1e9

"""Reads events until `done()`, which is asked under the lock; false when it is `until`."""
function await_that(done, session, until = Inf)
    while true
        ended = lock(session.lock) do
            done() && return true
            open_handle(session)
            isempty(session.book.over) || throw(SKError(PEER_LOST, "this session is over: $(session.book.over)"))
            return false
        end
        ended && return true
        now_s() < until || return false
        if read_event(session)
            yield()  # Other tasks have their turn, and Ctrl-C.
            GC.safepoint()
        else
            interruptible(() -> watch(session, min(WATCH_S, max(until - now_s(), 0.001))))
        end
    end
end

"""
Waits for the next event, without the lock: at the descriptor, or until the task has looked that is there. Of two
that watched one descriptor the first to end would leave what it waited with to the other.
"""
function watch(session, seconds)
    fd = nothing
    try
        disable_sigint() do
            lock(session.lock) do
                isopen(session) && !session.is_watched || return
                session.is_watched = true
                fd = session.fd
            end
        end
        if fd === nothing
            await_look(session, seconds)
        else
            await_readable(fd, seconds)
        end
    finally
        fd === nothing || disable_sigint() do
            lock(session.lock) do
                session.is_watched = false
                notify(session.looked)
            end
        end
    end
    return nothing
end

"""Waits until who watches has looked, but no longer: its thread may be busy with something else."""
function await_look(session, seconds)
    timer, pressed = nothing, false
    try
        disable_sigint(() -> timer = Timer(seconds))
        @async try
            wait(timer)
            lock(() -> notify(session.looked), session.lock)
        catch error
            if error isa InterruptException  # Else the wait is over.
                pressed = true
                lock(() -> notify(session.looked), session.lock)
            end
        end
        lock(() -> session.is_watched && wait(session.looked), session.lock)
    finally
        timer === nothing || disable_sigint(() -> close(timer))
        yield()  # That task ends before this one waits again.
    end
    pressed && throw(InterruptException())
    return nothing
end

"""
As FileWatching.poll_fd(), whose task for the time outlives it: where that ends while nobody else can run,
Julia waits in what is left of it, and an InterruptException there ends the process.
"""
function await_readable(fd, seconds)
    over = Condition()
    sources = ()
    try
        disable_sigint(() -> sources = (Timer(seconds), FileWatching.FDWatcher(fd, true, false)))
        # Ctrl-C is thrown into the task that waits last. That one is closed is the end of its use.
        for source in sources
            @async try
                wait(source)
                notify(over)
            catch error
                error isa EOFError ? notify(over) : notify(over, error; error = true)
            end
        end
        wait(over)
    finally
        disable_sigint(() -> foreach(close, sources))
        yield()  # Both end before this one waits again.
    end
    return nothing
end

"""Takes the next event, if there is one. One that is read is not lost by Ctrl-C."""
function read_event(session)
    return disable_sigint() do
        lock(session.lock) do
            isopen(session) || return false
            event = blank(Event)
            status = @waits libsk.sk_session_poll(session.handle::Ptr{Cvoid}, 0::Int64, event::Ptr{Event})::Int32
            if status == PEER_LOST
                session.book.over = last_error(status).sentence
                return false
            end
            check(status)
            event[].kind == EVENT_NONE && return false
            take_event!(session, event[])
            return true
        end
    end
end

"""Takes what has come already."""
function catch_up(session)
    open_handle(session)
    while read_event(session)
    end
    return session.book
end

function take_event!(session, event::Event)
    book = session.book
    book.heard += 1
    if event.kind == EVENT_STATUS
        book.state = STATES[event.status]
        book.states_told += 1
        book.states_told >= 2 && (book.adopts = false)
        book.state == :over && (book.over = wire_text(event.text))
    elseif event.kind == EVENT_RANK
        for rank in ranks_of(wire_text(event.ranks))
            event.status in (RANK_STUCK, RANK_DEAD) ? book.lost[rank] = wire_text(event.text) : delete!(book.lost, rank)
        end
    elseif event.kind == EVENT_NOTE
        book.notes[wire_text(event.tag)] = wire_text(event.text, event.text_bytes)
    elseif event.kind == EVENT_REPLY
        haskey(book.replies, event.request) && (book.replies[event.request] = reply_of(event))
    else
        take_of_cell!(session, event)
    end
    return nothing
end

function take_of_cell!(session, event)
    book = session.book
    if event.kind == EVENT_CELL_START && book.adopts && !haskey(book.cells, event.cell)
        cell = Cell(session, event.cell, true, wire_text(event.tag))
        book.cells[event.cell] = cell
        push!(book.told, cell)
    end
    # Of one that has ended, what its tasks print behind that is in its log.
    cell = get(book.cells, event.cell, nothing)
    said = cell_event(event)
    cell === nothing || said === nothing || take_in!(cell, said)
    event.kind == EVENT_CELL_DONE && delete!(book.cells, event.cell)
    return nothing
end
