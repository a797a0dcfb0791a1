# What a cell of a session gives, as its events come.

# enum sk_event_kind
const EVENT_NONE, EVENT_STATUS, EVENT_RANK, EVENT_CELL_START, EVENT_STREAM, EVENT_DISPLAY = 0, 1, 2, 3, 4, 5
const EVENT_ERROR, EVENT_CELL_DONE, EVENT_REPLY, EVENT_NOTE = 6, 7, 8, 9
const EVENT_INPUT, EVENT_INPUT_END = 20, 21
# enum sk_display_kind
const DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT = 4, 5
const DISPLAYS = Dict(1 => :display, 2 => :result, 3 => :update, 6 => :page)
# enum sk_cell_status
const CELL_STATUSES = (:ok, :error, :aborted)
# enum sk_error_flags
const CONSEQUENCE = 1

"""One display of a cell: its bytes by MIME type, the ranks that it is of, and what it is: `:display`,
`:result`, `:update` of those with its `id`, `:page` (help)."""
struct CellDisplay
    data::Dict{String,Vector{UInt8}}
    ranks::Vector{Int}
    kind::Symbol
    id::String
end

"""
    RankFailure

How a cell failed on one rank, in the words of that rank alone: `rank`, `name`, `value`, `traceback`, and
whether it is a consequence (`is_consequence`): it failed only because a peer did.
"""
struct RankFailure
    rank::Int
    name::String
    value::String
    traceback::String
    is_consequence::Bool
end

"""
    CellFailure

What ended a cell, of all ranks that failed: `name`, `value`, `traceback` and `ranks`, where errors that
differ are told apart; and in `each`, from the lowest rank, a [`RankFailure`](@ref) of every one. A rank
that threw and then died has two.
"""
struct CellFailure
    name::String
    value::String
    traceback::String
    ranks::Vector{Int}
    each::Vector{RankFailure}
end

"""
    CellEvent

Something that a cell did, on `ranks`. `kind` says which of the other fields are set:

- `:start`: it left the queue;
- `:text`: `text` on `stream`, `:stdout` or `:stderr`;
- `:display`: `display`;
- `:clear`: its outputs so far are gone, once the next comes where `waits`;
- `:error`: `failure`;
- `:input`: its ranks wait for [`answer`](@ref LibSK.answer); `text` is the prompt, `password` whether the line is not
  to be shown;
- `:input_end`: they do not any more;
- `:done`: the last one; `status` says how it ended, `:ok`, `:error` or `:aborted`.
"""
struct CellEvent
    kind::Symbol
    ranks::Vector{Int}
    text::String
    stream::Symbol
    display::Union{Nothing,CellDisplay}
    waits::Bool
    failure::Union{Nothing,CellFailure}
    request::UInt64
    password::Bool
    status::Symbol
    times::Vector{Tuple{Int,Float64,Float64}}  # Of :done: rank, seconds, seconds of processors.
end

function CellEvent(
    kind, ranks; text = "", stream = :none, display = nothing, waits = false, failure = nothing,
    request = 0, password = false, status = :none, times = [],
)
    return CellEvent(
        kind, ranks, text, stream, display, waits, failure, request, password, status, times
    )
end

"""
    CellResult

What [`run`](@ref) gives. Fields:

- `cell`: its number in the session: 1, 2, 3;
- `status`: `:ok`, `:error`, or `:aborted` (never begun);
- `ranks`: those it ran on;
- `text`: all that it printed, as a notebook shows it: what ranks have in common once, and tags like
  `[0-2]` where they differ; `stdout` and `stderr` are its two parts;
- `value`: the text of the cell's last expression, or `nothing`;
- `displays`: each with `data`, bytes by MIME type, `ranks`, `kind` and `id`;
- `failure`: `nothing`, or what ended it, a [`CellFailure`](@ref);
- `seconds`, `cpu_seconds`: by rank, how long it took and how much of the processors, of those that came
  to the cell's end.
"""
struct CellResult
    cell::Int
    status::Symbol
    ranks::Vector{Int}
    text::String
    stdout::String
    stderr::String
    value::Union{Nothing,String}
    displays::Vector{CellDisplay}
    failure::Union{Nothing,CellFailure}
    seconds::Dict{Int,Float64}
    cpu_seconds::Dict{Int,Float64}
end

"""
    CellError <: Exception

A cell failed on the ranks that its `result.failure` names, or was never begun.
"""
struct CellError <: Exception
    result::CellResult
end

function Base.showerror(io::IO, error::CellError)
    failure = error.result.failure
    if failure === nothing
        return print(io, "CellError: the cell was not run: one before it failed, or was interrupted")
    end
    print(io, "CellError: ", failure.name, ": ", failure.value)
    isempty(failure.traceback) || print(io, "\n", failure.traceback)
end

"""The ranks of "0-3,5"."""
function ranks_of(text)
    ranks = Int[]
    for part in split(text, ','; keepempty = false)
        ends = parse.(Int, split(part, '-'))
        append!(ranks, ends[1]:ends[end])
    end
    return ranks
end

wire_text(at::Ptr{UInt8}) = at == C_NULL ? "" : unsafe_string(at)
# Bytes of none may lie nowhere.
wire_text(at::Ptr{UInt8}, bytes) = bytes == 0 ? "" : unsafe_string(at, bytes)
wire_lines(at::Ptr{Ptr{UInt8}}, count) = String[wire_text(unsafe_load(at, i)) for i in 1:count]
plain_text(text) = replace(text, r"\e\[[0-9;]*m" => "")

function display_of(event::Event, ranks)
    data = Dict{String,Vector{UInt8}}()
    for i in 1:event.mime_count
        mime = unsafe_load(event.mimes, i)
        data[wire_text(mime.type)] = Vector{UInt8}(codeunits(wire_text(Ptr{UInt8}(mime.data), mime.bytes)))
    end
    return CellDisplay(data, ranks, get(DISPLAYS, event.display, :display), wire_text(event.display_id))
end

function failure_of(event::Event, ranks)
    each = map(1:event.error_count) do i
        own = unsafe_load(event.errors, i)
        lines = wire_lines(own.traceback, own.traceback_count)
        RankFailure(
            own.rank, wire_text(own.ename), plain_text(wire_text(own.evalue)),
            plain_text(join(lines, "\n")), own.flags & CONSEQUENCE != 0,
        )
    end
    lines = wire_lines(event.traceback, event.traceback_count)
    return CellFailure(
        wire_text(event.ename), plain_text(wire_text(event.evalue)), plain_text(join(lines, "\n")),
        ranks, each,
    )
end

"""An event of a cell; `nothing` of one that says nothing here (a widget's)."""
function cell_event(event::Event)
    ranks, kind = ranks_of(wire_text(event.ranks)), event.kind
    text() = wire_text(event.text, event.text_bytes)
    kind == EVENT_CELL_START && return CellEvent(:start, ranks)
    if kind == EVENT_STREAM
        return CellEvent(:text, ranks; text = text(), stream = event.stream == 2 ? :stderr : :stdout)
    elseif kind == EVENT_DISPLAY && event.display in (DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT)
        return CellEvent(:clear, ranks; waits = event.display == DISPLAY_CLEAR_WAIT)
    elseif kind == EVENT_DISPLAY
        return CellEvent(:display, ranks; display = display_of(event, ranks))
    elseif kind == EVENT_ERROR
        return CellEvent(:error, ranks; failure = failure_of(event, ranks))
    elseif kind == EVENT_INPUT
        secret = event.answer == 1
        return CellEvent(:input, ranks; text = text(), request = event.request, password = secret)
    elseif kind == EVENT_INPUT_END
        return CellEvent(:input_end, ranks; request = event.request)
    elseif kind == EVENT_CELL_DONE
        times = map(1:event.time_count) do i
            time = unsafe_load(event.times, i)
            (Int(time.rank), time.wall_ns / 1e9, time.cpu_ns / 1e9)
        end
        return CellEvent(:done, ranks; status = CELL_STATUSES[event.status], times = times)
    end
    return nothing
end

"""The outputs of a cell up to now."""
mutable struct Outputs
    texts::Vector{Tuple{Symbol,String}}
    displays::Vector{CellDisplay}
    failure::Union{Nothing,CellFailure}
    ranks::Vector{Int}
    clears::Bool  # Once the next output comes.
end

Outputs() = Outputs([], [], nothing, Int[], false)

function take_in!(outputs::Outputs, event::CellEvent)
    if event.kind == :start
        outputs.ranks = event.ranks
    elseif event.kind == :text
        clear_if_due!(outputs)
        push!(outputs.texts, (event.stream, event.text))
    elseif event.kind == :clear
        outputs.clears = true
        event.waits || clear_if_due!(outputs)
    elseif event.kind == :display
        clear_if_due!(outputs)
        show_display!(outputs, event.display)
    elseif event.kind == :error
        outputs.failure = event.failure
    end
    return nothing
end

function clear_if_due!(outputs)
    outputs.clears || return
    outputs.clears = false
    empty!(outputs.texts)
    empty!(outputs.displays)
end

function show_display!(outputs, shown)
    shown.kind == :update || return push!(outputs.displays, shown)
    for (i, each) in enumerate(outputs.displays)
        each.id == shown.id &&
            (outputs.displays[i] = CellDisplay(shown.data, shown.ranks, each.kind, each.id))
    end
end

function result_of(outputs, cell, done)
    of(streams...) = join(text for (stream, text) in outputs.texts if stream in streams)
    value = nothing
    for each in outputs.displays
        each.kind == :result && haskey(each.data, "text/plain") || continue
        value = String(copy(each.data["text/plain"]))
    end
    known = isempty(done.ranks) ? outputs.ranks : done.ranks
    return CellResult(
        cell, done.status, known, of(:stdout, :stderr), of(:stdout), of(:stderr), value,
        copy(outputs.displays), outputs.failure,
        Dict(rank => wall for (rank, wall, _) in done.times),
        Dict(rank => cpu for (rank, _, cpu) in done.times),
    )
end
