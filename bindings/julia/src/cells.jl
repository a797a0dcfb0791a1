# What a cell of a session gives, as its events come.

# enum sk_event_kind
const EVENT_STATUS, EVENT_CELL_START, EVENT_STREAM, EVENT_DISPLAY = 1, 3, 4, 5
const EVENT_ERROR, EVENT_CELL_DONE, EVENT_INPUT = 6, 7, 20
# enum sk_display_kind
const DISPLAY_RESULT, DISPLAY_UPDATE, DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT = 2, 3, 4, 5

"""One display of a cell: its bytes by MIME type, and the ranks that it is of."""
struct CellDisplay
    data::Dict{String,Vector{UInt8}}
    ranks::Vector{Int}
    is_result::Bool
    id::String
end

"""
    CellResult

What [`run`](@ref) gives. Fields:

- `status`: `:ok`, `:error`, or `:aborted` (never begun);
- `ranks`: those it ran on;
- `text`: all that it printed, as a notebook shows it: what ranks have in common once, and tags like
  `[0-2]` where they differ; `stdout` and `stderr` are its two parts;
- `value`: the text of the cell's last expression, or `nothing`;
- `displays`: each with `data`, bytes by MIME type, and `ranks`;
- `failure`: `nothing`, or what ended it, with `name`, `value`, `traceback` and `ranks`.
"""
struct CellResult
    status::Symbol
    ranks::Vector{Int}
    text::String
    stdout::String
    stderr::String
    value::Union{Nothing,String}
    displays::Vector{CellDisplay}
    failure::Union{Nothing,NamedTuple{(:name, :value, :traceback, :ranks),Tuple{String,String,String,Vector{Int}}}}
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

"""The outputs of a cell up to now."""
mutable struct Outputs
    texts::Vector{Tuple{Int,String}}
    displays::Vector{CellDisplay}
    failure::Any
    ranks::Vector{Int}
    clears::Bool  # Once the next output comes.
    result::Union{Nothing,CellResult}
end

Outputs() = Outputs([], [], nothing, Int[], false, nothing)

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
plain_text(text) = replace(text, r"\e\[[0-9;]*m" => "")

function take_in!(outputs::Outputs, event::Event)
    ranks = ranks_of(wire_text(event.ranks))
    if event.kind == EVENT_CELL_START
        outputs.ranks = ranks
    elseif event.kind == EVENT_STREAM
        clear_if_due!(outputs)
        push!(outputs.texts, (event.stream, unsafe_string(event.text, event.text_bytes)))
    elseif event.kind == EVENT_DISPLAY && event.display in (DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT)
        outputs.clears = true
        event.display == DISPLAY_CLEAR && clear_if_due!(outputs)
    elseif event.kind == EVENT_DISPLAY
        clear_if_due!(outputs)
        show_display!(outputs, event, ranks)
    elseif event.kind == EVENT_ERROR
        lines = [wire_text(unsafe_load(event.traceback, i)) for i in 1:event.traceback_count]
        outputs.failure = (
            name = wire_text(event.ename), value = plain_text(wire_text(event.evalue)),
            traceback = plain_text(join(lines, "\n")), ranks = ranks,
        )
    elseif event.kind == EVENT_CELL_DONE
        outputs.result = result_of(outputs, event.status, ranks)
    end
    return nothing
end

function clear_if_due!(outputs)
    outputs.clears || return
    outputs.clears = false
    empty!(outputs.texts)
    empty!(outputs.displays)
end

function show_display!(outputs, event, ranks)
    data = Dict{String,Vector{UInt8}}()
    for i in 1:event.mime_count
        mime = unsafe_load(event.mimes, i)
        # A text without bytes may lie nowhere.
        bytes = Vector{UInt8}(undef, mime.bytes)
        mime.bytes > 0 && unsafe_copyto!(pointer(bytes), mime.data, mime.bytes)
        data[wire_text(mime.type)] = bytes
    end
    id = wire_text(event.display_id)
    shown = CellDisplay(data, ranks, event.display == DISPLAY_RESULT, id)
    event.display == DISPLAY_UPDATE || return push!(outputs.displays, shown)
    for (i, each) in enumerate(outputs.displays)
        each.id == id && (outputs.displays[i] = CellDisplay(data, ranks, each.is_result, id))
    end
end

function result_of(outputs, status, ranks)
    of(streams...) = join(text for (stream, text) in outputs.texts if stream in streams)
    value = nothing
    for each in outputs.displays
        each.is_result && haskey(each.data, "text/plain") || continue
        value = String(copy(each.data["text/plain"]))
    end
    name = status == 1 ? :ok : status == 2 ? :error : :aborted
    known = isempty(ranks) ? outputs.ranks : ranks
    return CellResult(
        name, known, of(1, 2), of(1), of(2), value, copy(outputs.displays), outputs.failure
    )
end
