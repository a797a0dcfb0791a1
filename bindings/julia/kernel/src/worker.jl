# This process's link to the controller: sk_worker with Julia's strings and vectors.
#
# Every call here is short, or ends with an interrupt: while one runs no task of the process does.

mutable struct Worker
    handle::Ptr{Cvoid}
    requests::Cint    # Descriptors: readable when there is a request,
    interrupts::Cint  # and when there is an interrupt.
end

const worker = Worker(C_NULL, -1, -1)

"""Where Julia keeps that a SIGINT waits to be thrown; NULL where it keeps that to itself."""
function signal_waits()
    try
        return Ptr{Int32}(cglobal(:jl_signal_pending, Int32))
    catch
        return Ptr{Int32}(C_NULL)
    end
end

function join_controller()
    language = "julia $VERSION"
    GC.@preserve language begin
        config = WorkerConfig(sizeof(WorkerConfig), CAPTURE | SIGINT | EVENT_LOOP,
                              pointer(language), STACK_SIGNAL, 0, 0, 0, signal_waits())
        handle = Ref{Ptr{Cvoid}}(C_NULL)
        check(@sk sk_worker_join(Ref(config)::Ref{WorkerConfig}, handle::Ref{Ptr{Cvoid}}))
        worker.handle = handle[]
    end
    requests, interrupts = Ref{Cint}(-1), Ref{Cint}(-1)
    check(@sk sk_worker_fds(worker.handle::Ptr{Cvoid}, requests::Ref{Cint}, interrupts::Ref{Cint}))
    worker.requests, worker.interrupts = requests[], interrupts[]
    return
end

"""A real-time signal by which libsk sees where the main thread is; Julia uses none of them."""
const STACK_SIGNAL = 40

struct Request
    kind::Int
    id::UInt64
    code::String
    cursor::Int           # Byte position in code.
    execution_count::Int  # 0: Julia's own.
    silent::Bool
    store_history::Bool
    detail::Int
    expressions::String
    comm_kind::Int
    comm::String
    target::String
end

text_at(pointer::Ptr{UInt8}) = pointer == C_NULL ? "" : unsafe_string(pointer)

"""What to do next, or nothing."""
function next_request()
    raw = Ref(blank(RawRequest))
    check(@sk sk_worker_next(worker.handle::Ptr{Cvoid}, 0::Int64, raw::Ref{RawRequest}))
    found = raw[]
    found.kind == 0 && return nothing
    code = found.code == C_NULL ? "" : unsafe_string(found.code, found.code_bytes)
    return Request(found.kind, found.id, code, found.cursor, found.execution_count,
                   found.silent != 0, found.store_history != 0, found.detail,
                   text_at(found.expressions), found.comm_kind, text_at(found.comm),
                   text_at(found.target))
end

"""An empty struct of the C ABI with its size filled in."""
@generated function blank(::Type{T}) where {T}
    values = [:(zero_of($each)) for each in fieldtypes(T)]
    values[1] = :(UInt32($(sizeof(T))))
    return :($T($(values...)))
end

zero_of(::Type{T}) where {T<:Integer} = zero(T)
zero_of(::Type{Ptr{T}}) where {T} = Ptr{T}(C_NULL)

"""Text as C has it: the NUL, which would end it there, as its picture."""
c_text(text::AbstractString) = '\0' in text ? replace(String(text), '\0' => '␀') : String(text)

# Whether the controller was left: what finalizers print in the process's last moments goes by its descriptors,
# which are captured to the end.
const has_left = Ref(false)

function stream(which::Integer, pointer::Ptr{UInt8}, bytes::Integer)
    if has_left[]
        ccall(:write, Cssize_t, (Cint, Ptr{UInt8}, Csize_t), which, pointer, bytes)
        return
    end
    status = put_out() do
        @sk sk_worker_stream(worker.handle::Ptr{Cvoid}, which::Int32, pointer::Ptr{UInt8}, bytes::UInt64)
    end
    # A rank whose controller is gone ends by itself; what is printed meanwhile is for nobody.
    status == ERR_PEER_LOST || check(status)
    return
end

"""A line on stderr, whatever the cell has made of that."""
function tell(line::AbstractString)
    text = c_text(line) * "\n"
    GC.@preserve text stream(STDERR, pointer(text), sizeof(text))
end

"""Calls `f(pointer, count)` with the MIME types as C has them."""
function with_mimes(f, bundle)
    types = [c_text(kind) for (kind, _) in bundle]
    data = Vector{UInt8}[bytes for (_, bytes) in bundle]
    GC.@preserve types data begin
        mimes = [Mime(pointer(kind), pointer(bytes), length(bytes))
                 for (kind, bytes) in zip(types, data)]
        GC.@preserve mimes f(pointer(mimes), length(mimes))
    end
end

function send_display(kind::Integer, bundle, display_id = nothing)
    id = display_id === nothing ? nothing : c_text(string(display_id))
    with_mimes(bundle) do mimes, count
        GC.@preserve id begin
            name = id === nothing ? Ptr{UInt8}(C_NULL) : pointer(id)
            status = put_out() do
                @sk sk_worker_display(worker.handle::Ptr{Cvoid}, kind::Int32, mimes::Ptr{Mime},
                                      count::UInt64, name::Ptr{UInt8}, C_NULL::Ptr{UInt8})
            end
            check(status)
        end
    end
end

"""Calls `f(pointer, count)` with an array of C strings."""
function with_strings(f, strings)
    texts = [c_text(each) for each in strings]
    GC.@preserve texts begin
        pointers = Ptr{UInt8}[pointer(each) for each in texts]
        GC.@preserve pointers f(pointer(pointers), length(pointers))
    end
end

function send_error(name::AbstractString, value::AbstractString, traceback, flags::Integer)
    name, value = c_text(name), c_text(value)
    with_strings(traceback) do lines, count
        check(@sk sk_worker_error(worker.handle::Ptr{Cvoid}, name::Cstring, value::Cstring,
                                  lines::Ptr{Ptr{UInt8}}, count::UInt64, flags::UInt32))
    end
end

"""The cell's code is left: the error that follows is of this moment."""
code_ended() = @sk sk_worker_code_ended(worker.handle::Ptr{Cvoid})

cell_done(status::Integer) = check(@sk sk_worker_done(worker.handle::Ptr{Cvoid}, status::Int32))

is_cancelled() = @sk(sk_worker_cancelled(worker.handle::Ptr{Cvoid}), Int32) != 0

"""Whether libsk has sent SIGINT for the cell's last interrupt."""
is_signalled() = @sk(sk_worker_cancelled(worker.handle::Ptr{Cvoid}), Int32) == 2

function cell_reply(json::AbstractString)
    text = String(json)
    GC.@preserve text check(@sk sk_worker_cell_reply(worker.handle::Ptr{Cvoid},
        pointer(text)::Ptr{UInt8}, sizeof(text)::UInt64))
end

"""Takes an interrupt over; the cell that it is for, or 0."""
function take_interrupt()
    cell = Ref{UInt64}(0)
    check(@sk sk_worker_interrupted(worker.handle::Ptr{Cvoid}, cell::Ref{UInt64}))
    return cell[]
end

function send_reply(id::Integer; answer = 0, start = 0, stop = 0, strings = (), bundle = ())
    with_strings(strings) do lines, line_count
        with_mimes(bundle) do mimes, mime_count
            reply = Ref(RawReply(sizeof(RawReply), answer, start, stop, lines, line_count, mimes,
                                 mime_count))
            check(@sk sk_worker_reply(worker.handle::Ptr{Cvoid}, id::UInt64, reply::Ref{RawReply}))
        end
    end
end

function host_facts()
    size = Ref{Csize_t}(0)
    buffer = Vector{UInt8}(undef, 1 << 16)
    check(@sk sk_host_facts(buffer::Ptr{UInt8}, length(buffer)::Csize_t, size::Ref{Csize_t}))
    return String(resize!(buffer, size[]))
end

function leave_controller()
    has_left[] = true
    @sk sk_worker_leave(worker.handle::Ptr{Cvoid})
    worker.handle = C_NULL
    return
end
