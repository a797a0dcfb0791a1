# What can be asked of a session beside running cells: its state, its logs, its ranks' names.

const ANSWER_S = 60.0  # Ranks that are busy are not waited for, so an answer takes less.
const LOG_TEXT, LOG_DISPLAY = 1, 2
const PIECE_BYTES = 8 << 20
# enum sk_tag_mode
const TAGS = (set = 1, none = 2, spec = 3, host = 4)
# enum sk_request_kind, enum sk_is_complete
const ASK_COMPLETE, ASK_INSPECT, ASK_IS_COMPLETE = 2, 3, 4
const COMPLETENESS = (:unknown, :complete, :incomplete, :invalid)

"""An answer, copied out of its event."""
struct Reply
    status::Int32
    answer::Int32
    first::Int
    last::Int
    total::Int
    text::String
    strings::Vector{String}
    display::CellDisplay
end

function reply_of(event::Event)
    ranks = ranks_of(wire_text(event.ranks))
    return Reply(
        event.status, event.answer, event.start, event.end_, event.total,
        wire_text(event.text, event.text_bytes), wire_lines(event.strings, event.string_count),
        display_of(event, ranks),
    )
end

"""Sends a question by `send(handle, out)` and waits for its answer."""
function ask(send, session, call)
    replies = session.book.replies
    request = lock(session.lock) do
        out = Ref{UInt64}(0)
        check(send(open_handle(session), out))
        replies[out[]] = nothing
        return out[]
    end
    try
        if !await_that(() -> replies[request] !== nothing, session, now_s() + ANSWER_S)
            throw(SKError(TIMEOUT, "$call: no answer within $ANSWER_S s"))
        end
        reply = lock(() -> replies[request], session.lock)
        reply.status == 0 && return reply
        throw(SKError(reply.status, isempty(reply.text) ? "$call: no rank can answer now" : reply.text))
    finally
        lock(() -> delete!(replies, request), session.lock)
    end
end

"""By a function that takes a set of ranks."""
macro ask_ranks(name, session, ranks, call)
    return esc(quote
        chosen = rank_set($ranks)
        ask($session, $call) do handle, out
            GC.@preserve chosen begin
                at = chosen === nothing ? Ptr{UInt8}(C_NULL) : pointer(chosen)
                @waits libsk.$name(handle::Ptr{Cvoid}, at::Ptr{UInt8}, out::Ptr{UInt64})::Int32
            end
        end
    end)
end

"""
    LibSK.status(session)

What the session and each of its ranks are doing, also while a cell runs: a dictionary with `"world_size"`,
`"running_cell"` (0: none), `"queued_cells"`, `"host"` and `"ranks"`, a vector of dictionaries with `"rank"`,
`"state"` (`"starting"`, `"idle"`, `"busy"`, `"interrupting"`, `"stuck"`, `"dead"`, `"reviving"`), `"pid"`, `"cause"`
(of dead or stuck), `"rss_bytes"`, `"waits_in"`, `"waits_for"` and so on.
"""
function status(session::Session)
    reply = ask(session, "status") do handle, out
        @waits libsk.sk_session_status(handle::Ptr{Cvoid}, out::Ptr{UInt64})::Int32
    end
    return read_json(reply.text)
end

"""
    LibSK.state(session)

`:starting`, `:ready`, `:degraded` (not every rank can run cells), `:over`, or `:closed`.
"""
state(session::Session) = isopen(session) ? (book = catch_up(session); isempty(book.over) ? book.state : :over) : :closed

"""
    LibSK.lost(session)

Why ranks are dead or stuck, by rank.
"""
function lost(session::Session)
    catch_up(session)
    return lock(() -> copy(session.book.lost), session.lock)
end

"""
    wait(session::Session; timeout)

Waits until all ranks can run cells. Cells do so by themselves; this says why not: an `SKError` with `code` 20
if some cannot, and with 30 after `timeout` seconds.
"""
function Base.wait(session::Session; timeout = nothing)
    until = timeout === nothing ? Inf : now_s() + milliseconds(timeout) / 1000
    if !await_that(() -> session.book.state != :starting, session, until)
        throw(SKError(TIMEOUT, "wait: ranks are still starting after $timeout s"))
    end
    why = sort!(collect(lock(() -> copy(session.book.lost), session.lock)))
    isempty(why) && return nothing
    said = join(["rank $rank: $text" for (rank, text) in why[1:min(end, 4)]], "; ")
    more = length(why) > 4 ? "; and $(length(why) - 4) more" : ""
    throw(SKError(PEER_LOST, "wait: $said$more"))
end

"""
    revive(session; ranks)

Starts dead and stuck ranks again, by default all of them; returns which those are. They come back empty,
the others keep what they have. Does not wait for them: cells do.
"""
revive(session::Session; ranks = nothing) =
    ranks_of(@ask_ranks(sk_session_revive, session, ranks, "revive").strings[1])

"""
    LibSK.stack(session; ranks)

Where the ranks' main threads are, also while they are busy, as a text; equal stacks once.
"""
stack(session::Session; ranks = nothing) = @ask_ranks(sk_session_stack, session, ranks, "stack").text

"""Of a cell, its result, or the number itself; 0 is the newest."""
cell_number(::Nothing) = 0
cell_number(cell::Cell) = cell.number
cell_number(result::CellResult) = result.cell
cell_number(number) = whole(number, "cell", 1, typemax(Int64))

function ask_log(session, what, cell, chosen, offset, limit)
    return ask(session, "cell_log") do handle, out
        GC.@preserve chosen begin
            set = chosen === nothing ? Ptr{UInt8}(C_NULL) : pointer(chosen)
            query = LogQuery(sizeof(LogQuery), what, cell, 0, set, offset, limit)
            @waits libsk.sk_session_log(handle::Ptr{Cvoid}, Ref(query)::Ptr{LogQuery}, out::Ptr{UInt64})::Int32
        end
    end
end

"""
    cell_log(session, cell = nothing; ranks)

All that a cell has printed, by default the newest, also while it runs. Of one rank as it came, of several merged
as the cell shows it; but whole, where a [`CellResult`](@ref) has at most 10,000 lines
([`LibSK.configure`](@ref)). `cell` is a [`Cell`](@ref), a result or a number. The newest 256 cells are kept.
"""
function cell_log(session::Session, cell = nothing; ranks = nothing)
    number, chosen = cell_number(cell), rank_set(ranks)
    text = IOBuffer()
    while true
        at = position(text)
        reply = ask_log(session, LOG_TEXT, number, chosen, at, PIECE_BYTES)
        write(text, reply.text)
        (reply.last >= reply.total || position(text) == at) && return String(take!(text))
    end
end

"""
    LibSK.cell_displays(session, rank, cell = nothing)

The displays of one rank in a cell, each as the rank made it. Throws an `SKError` if it made none there.
"""
function cell_displays(session::Session, rank, cell = nothing)
    number, chosen = cell_number(cell), string(whole(rank, "rank", 0, session.world_size - 1))
    found = CellDisplay[]
    while true
        reply = ask_log(session, LOG_DISPLAY, number, chosen, length(found), 0)
        shown = reply.display
        push!(found, CellDisplay(shown.data, [Int(rank)], shown.kind, shown.id))
        length(found) >= reply.total && return found
    end
end

"""
    LibSK.configure(session; tag, shown_lines, shown_bytes, kept_bytes)

Changes how outputs are shown and kept, from the next cell that starts. `tag` says how lines are marked that not
all ranks have: `:set` as `[0-3,5]`, which is so at first, `:none`, `:spec` (each line of each rank), `:host`.
`shown_lines` and `shown_bytes` bound what a cell's result has of its text, 10,000 and 1 MiB at first;
`kept_bytes` what [`cell_log`](@ref) has of each rank, 64 MiB at first. What is not given stays.
"""
function configure(session::Session; tag = nothing, shown_lines = 0, shown_bytes = 0, kept_bytes = 0)
    if !(tag === nothing || tag isa Symbol && haskey(TAGS, tag))
        invalid("tag is $(shown(tag)); allowed is :set, :none, :spec, :host, or nothing")
    end
    limits = (
        whole(shown_lines, "shown_lines", 0, typemax(Int64)),
        whole(shown_bytes, "shown_bytes", 0, typemax(Int64)),
        whole(kept_bytes, "kept_bytes", 0, typemax(Int64)),
    )
    settings = SessionSettings(sizeof(SessionSettings), tag === nothing ? 0 : TAGS[tag], limits...)
    handle = open_handle(session)
    return check(@waits libsk.sk_session_configure(
        handle::Ptr{Cvoid}, Ref(settings)::Ptr{SessionSettings}
    )::Int32)
end

"""
    LibSK.keep(session, name, text)

Leaves a text for whoever attaches to this session later; `nothing` takes it away.
"""
function keep(session::Session, name, text)
    said = c_text(name, "name")
    kept = text === nothing ? nothing : c_text(text, "text")
    handle = open_handle(session)
    GC.@preserve said kept begin
        at = kept === nothing ? Ptr{UInt8}(C_NULL) : pointer(kept)
        check(@waits libsk.sk_session_keep(
            handle::Ptr{Cvoid}, pointer(said)::Ptr{UInt8}, at::Ptr{UInt8},
            (kept === nothing ? 0 : sizeof(kept))::UInt64
        )::Int32)
    end
end

function ask_code(session, call, kind, code, cursor, detail)
    text = c_text(code, "code")
    at = cursor === nothing ? sizeof(text) : whole(cursor, "cursor", 0, sizeof(text))
    return ask(session, call) do handle, out
        GC.@preserve text begin
            @waits libsk.sk_session_ask(
                handle::Ptr{Cvoid}, kind::Int32, pointer(text)::Ptr{UInt8}, sizeof(text)::UInt64,
                at::UInt64, detail::Int32, out::Ptr{UInt64}
            )::Int32
        end
    end
end

"""
    LibSK.complete(session, code, cursor = sizeof(code))

Names that continue `code` behind its first `cursor` bytes, as `(matches, range)`: each may stand for the bytes
`range` of `code`. One rank answers; where all are busy, from what it knew when its cell began.
"""
function complete(session::Session, code, cursor = nothing)
    reply = ask_code(session, "complete", ASK_COMPLETE, code, cursor, 0)
    return (matches = reply.strings, range = reply.first+1:reply.last)
end

"""
    LibSK.inspect(session, code, cursor = sizeof(code); detail = 0)

What the name behind the first `cursor` bytes of `code` is, bytes by MIME type; `nothing` if nothing is known of it.
With `detail = 1` its source, too.
"""
function inspect(session::Session, code, cursor = nothing; detail = 0)
    level = whole(detail, "detail", 0, 1)
    reply = ask_code(session, "inspect", ASK_INSPECT, code, cursor, level)
    return reply.answer == 1 ? reply.display.data : nothing
end

"""
    LibSK.is_complete(session, code)

Whether `code` can be run as it is, as `(status, indent)`: `:complete`, `:incomplete`, with the indent of its next
line, `:invalid` or `:unknown`.
"""
function is_complete(session::Session, code)
    reply = ask_code(session, "is_complete", ASK_IS_COMPLETE, code, nothing, 0)
    return (status = COMPLETENESS[reply.answer+1], indent = isempty(reply.strings) ? "" : reply.strings[1])
end
