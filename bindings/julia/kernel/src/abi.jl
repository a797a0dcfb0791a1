# The C ABI of sk/worker.h and sk/talk.h, as far as a rank needs it: its structs, and its functions
# by their addresses. The library is opened when the rank starts, so an image of this module holds
# no address of it.
#
# LibSK has structs of its own (src/session_abi.jl), of which sk_mime is here, too. They share no file:
# a rank starts without that package, and the LibSK that its cells load is whichever the user's load
# path names. A test holds both to the library's layout (test/abi.jl).

# enum sk_request_kind
const EXECUTE, COMPLETE, INSPECT, IS_COMPLETE, SHUTDOWN = 1, 2, 3, 4, 5
const COMM, ACTION = 20, 50
# enum sk_cell_status
const CELL_OK, CELL_ERROR = 1, 2
# enum sk_worker_flags
const CAPTURE, SIGINT, EVENT_LOOP = 1, 2, 4
# enum sk_error_flags
const CONSEQUENCE, INTERRUPT = 1, 2
# enum sk_stream
const STDOUT, STDERR = 1, 2
# sk_status
const ERR_PEER_LOST, ERR_ABORTED = 20, 21

struct WorkerConfig
    struct_size::UInt32
    flags::UInt32
    language::Ptr{UInt8}
    stack_signal::Int32
    language_stack_signal::Int32
    language_stack_fd::Int32
    reserved::Int32
    signal_waits::Ptr{Int32}
end

struct Mime
    type::Ptr{UInt8}
    data::Ptr{UInt8}
    bytes::UInt64
end

# sk_request
struct RawRequest
    struct_size::UInt32
    kind::Int32
    id::UInt64
    code::Ptr{UInt8}
    code_bytes::UInt64
    cursor::UInt64
    execution_count::Int64
    silent::Int32
    store_history::Int32
    detail::Int32
    reserved::Int32
    expressions::Ptr{UInt8}
    comm_kind::Int32
    reserved2::Int32
    comm::Ptr{UInt8}
    target::Ptr{UInt8}
    metadata::Ptr{UInt8}
    buffers::Ptr{Mime}
    buffer_count::UInt64
end

struct RawReply
    struct_size::UInt32
    answer::Int32
    start::UInt64
    stop::UInt64
    strings::Ptr{Ptr{UInt8}}
    string_count::UInt64
    mimes::Ptr{Mime}
    mime_count::UInt64
end

struct RawInput
    struct_size::UInt32
    state::Int32
    text::Ptr{UInt8}
    bytes::UInt64
end

struct RawName
    name::Ptr{UInt8}
    help::Ptr{UInt8}
end

struct RawCommMessage
    struct_size::UInt32
    kind::Int32
    comm::Ptr{UInt8}
    target::Ptr{UInt8}
    data::Ptr{UInt8}
    data_bytes::UInt64
    metadata::Ptr{UInt8}
    buffers::Ptr{Mime}
    buffer_count::UInt64
end

struct RawGroup
    struct_size::UInt32
    missing_count::Int32
    first_missing::Int32
    wanted::Int32
    epoch::UInt64
    master_port::Int32
    coordinator_port::Int32
end

const FUNCTIONS = (
    :sk_last_error, :sk_host_facts, :sk_version,
    :sk_worker_join, :sk_worker_fds, :sk_worker_interrupted, :sk_worker_next, :sk_worker_stream,
    :sk_worker_display, :sk_worker_error, :sk_worker_code_ended, :sk_worker_done,
    :sk_worker_reply, :sk_worker_cancelled, :sk_worker_leave, :sk_worker_input, :sk_worker_comm,
    :sk_worker_cell_reply, :sk_worker_snapshot, :sk_worker_group, :sk_worker_regroup,
)

# The address of each function, in the order of FUNCTIONS.
const addresses = fill(C_NULL, length(FUNCTIONS))

function open_library(path::AbstractString)
    library = Libdl.dlopen(path)
    for (i, name) in enumerate(FUNCTIONS)
        addresses[i] = Libdl.dlsym(library, name)
    end
    return library
end

"""`@sk sk_name(arguments...)(types...)`: a call of libsk.so that returns a sk_status."""
macro sk(call, result = :Cint)
    # call is `name(arg::Type, ...)`, as in Julia's own @ccall, which 1.4 does not have.
    name, arguments = call.args[1], call.args[2:end]
    index = findfirst(==(name), FUNCTIONS)
    index === nothing && error("$name is not in FUNCTIONS")
    values = [esc(argument.args[1]) for argument in arguments]
    types = Expr(:tuple, [esc(argument.args[2]) for argument in arguments]...)
    return :(ccall(addresses[$index], $(esc(result)), $types, $(values...)))
end

last_error() = unsafe_string(@sk(sk_last_error(), Ptr{UInt8}))

"""libsk.so has refused or failed a call."""
struct WorkerError <: Exception
    code::Int
    sentence::String
end

Base.showerror(io::IO, error::WorkerError) = print(io, error.sentence)

function check(status::Integer)
    status == 0 && return
    status == ERR_ABORTED && raise_interrupt()
    throw(WorkerError(status, last_error()))
end
