# The structs of include/sk/exec.h and output.h, field by field; a test compares sizes and offsets.
#
# A rank's program has its own of sk/worker.h (kernel/src/abi.jl). They share no file: a rank starts
# without this package, from an image that holds no address of it, and the LibSK that its cells load is
# whichever the user's load path names. What both have is sk_mime alone.

"""`sk_session_config`."""
struct SessionConfig
    struct_size::UInt32
    ranks::Int32
    argv::Ptr{Ptr{UInt8}}
    env::Ptr{Ptr{UInt8}}
    cwd::Ptr{UInt8}
    sk_path::Ptr{UInt8}
    start_timeout_ms::Int64
    lease_ms::Int64
    flags::UInt32
    reserved::UInt32
    interrupt_ms::Int64
    name::Ptr{UInt8}
    token::Ptr{UInt8}
end

"""`sk_exec_options`."""
struct ExecOptions
    struct_size::UInt32
    silent::Int32
    no_history::Int32
    go_on_after_error::Int32
    execution_count::Int64
    kind::Int32
    allow_input::Int32
    expressions::Ptr{UInt8}
    tag::Ptr{UInt8}
end

"""`sk_mime`."""
struct Mime
    type::Ptr{UInt8}
    data::Ptr{UInt8}
    bytes::UInt64
end

"""`sk_rank_error`."""
struct WireError
    rank::Int32
    flags::UInt32
    ename::Ptr{UInt8}
    evalue::Ptr{UInt8}
    traceback::Ptr{Ptr{UInt8}}
    traceback_count::UInt64
end

"""`sk_rank_time`."""
struct WireTime
    rank::Int32
    reserved::Int32
    wall_ns::Int64
    cpu_ns::Int64
end

"""`sk_session_settings`."""
struct SessionSettings
    struct_size::UInt32
    tag::Int32
    shown_lines::UInt64
    shown_bytes::UInt64
    kept_bytes::UInt64
end

"""`sk_log_query`."""
struct LogQuery
    struct_size::UInt32
    what::Int32
    cell::UInt64
    execution_count::Int64
    ranks::Ptr{UInt8}
    offset::UInt64
    limit::UInt64
end

"""`sk_event`."""
struct Event
    struct_size::UInt32
    kind::Int32
    seq::UInt64
    cell::UInt64
    request::UInt64
    ranks::Ptr{UInt8}
    all_ranks::Int32
    status::Int32
    stream::Int32
    display::Int32
    text::Ptr{UInt8}
    text_bytes::UInt64
    ename::Ptr{UInt8}
    evalue::Ptr{UInt8}
    traceback::Ptr{Ptr{UInt8}}
    traceback_count::UInt64
    mimes::Ptr{Mime}
    mime_count::UInt64
    display_id::Ptr{UInt8}
    answer::Int32
    reserved::Int32
    start::UInt64
    end_::UInt64
    strings::Ptr{Ptr{UInt8}}
    string_count::UInt64
    metadata::Ptr{UInt8}
    times::Ptr{WireTime}
    time_count::UInt64
    comm::Ptr{UInt8}
    target::Ptr{UInt8}
    total::UInt64
    tag::Ptr{UInt8}
    errors::Ptr{WireError}
    error_count::UInt64
end
