# Traces: when each task of this rank waited and ran.

"""
    trace(f, comm; event_count_max = 0)

Calls `f()` and records this rank's tasks meanwhile: at most `event_count_max` events (0: 65,536);
later ones are dropped. Returns a text in the JSON of Chrome and Perfetto; write it to a file and open
it there. Times are microseconds of the host's monotonic clock, so ranks of one host share an axis.
Not collective; each rank has its own text, and [`gather_trace`](@ref) joins them.

Errors: what `f` throws, and [`SKError`](@ref).
"""
function trace(f, comm::Comm; event_count_max = 0)
    limit = whole(event_count_max, "event_count_max", 0, typemax(Int64))
    check(@ccall libsk.sk_trace_start(open_handle(comm)::Ptr{Cvoid}, limit::UInt64)::Int32)
    try
        f()
    finally
        # A communicator that f has closed has no trace any more.
        isopen(comm) && check(ccall((:sk_trace_stop, libsk), Int32, (Ptr{Cvoid},), comm.handle))
    end
    handle = open_handle(comm)
    return text_of() do buffer, capacity, size
        @ccall libsk.sk_trace_dump(
            handle::Ptr{Cvoid}, buffer::Ptr{UInt8}, capacity::Csize_t, size::Ptr{Csize_t}
        )::Int32
    end
end

"""
    gather_trace(comm, text)

One trace of all ranks' texts of [`trace`](@ref). Collective.
"""
function gather_trace(comm::Comm, text)
    text isa AbstractString || invalid("text is $(shown(text)); it must be what trace() returned")
    bytes = codeunits(String(text))
    sizes = vec(allgather(comm, [length(bytes)]))
    words = zeros(Int64, cld(maximum(sizes), 8))
    copyto!(reinterpret(UInt8, words), bytes)
    rows = allgather(comm, words)
    texts = [String(reinterpret(UInt8, rows[:, r])[1:sizes[r]]) for r in 1:comm.world_size]
    return "{\"traceEvents\": [" * join(filter(!isempty, map(events_of, texts)), ",\n") * "]}"
end

"""What is between the brackets; the texts are libsk's own, whose form is known."""
function events_of(text)
    opening, closing = findfirst('[', text), findlast(']', text)
    opening === nothing && invalid("text is $(shown(text)); it must be what trace() returned")
    return strip(SubString(text, nextind(text, opening), prevind(text, closing)))
end
