# The structs of the C ABI, field by field as in include/sk; a test compares sizes and offsets.

"""`sk_tensor`: an array, borrowed for a call. Strides in elements, the innermost dimension last."""
struct Tensor
    struct_size::UInt32
    dtype::Int32
    data::Ptr{Cvoid}
    ndim::Int32
    device_type::Int32
    device_id::Int32
    reserved::Int32
    shape::NTuple{8,Int64}
    strides::NTuple{8,Int64}
end

"""`sk_run_options`."""
struct RunOptions
    struct_size::UInt32
    device_type::Int32
    device_id::Int32
    reserved::Int32
    stream::Ptr{Cvoid}
    timeout_ms::Int64
    waiting::Ptr{Cvoid}
    waiting_user::Ptr{Cvoid}
end

"""`sk_comm_config`."""
struct CommConfig
    struct_size::UInt32
    bootstrap::Int32
    rank::Int32
    world_size::Int32
    name::Ptr{UInt8}
    allgather::Ptr{Cvoid}
    bootstrap_user::Ptr{Cvoid}
    timeout_ms::Int64
    flags::UInt32
    workers::Int32
    symmetric_bytes_max::UInt64
    cancel_fd::Int32
    reserved::Int32
    device_type::Int32
    device_id::Int32
    waiting::Ptr{Cvoid}
    waiting_user::Ptr{Cvoid}
end

"""`sk_comm_info`."""
struct CommInfo
    struct_size::UInt32
    rank::Int32
    world_size::Int32
    local_rank::Int32
    local_size::Int32
    workers::Int32
    mapped::Int32
    symmetric_bytes::UInt64
    calls::UInt64
    plans::UInt64
    over::Int32
    reserved::Int32
end

"""`sk_topo_info`."""
struct TopoInfo
    struct_size::UInt32
    reserved::Int32
    hosts::Int64
    sockets::Int64
    numa_nodes::Int64
    cores::Int64
    threads::Int64
    gpus::Int64
    nics::Int64
    memory_bytes::UInt64
end

"""Zeros, but for the size: what the library fills, or a configuration that says nothing."""
function blank(::Type{T}) where {T}
    result = Ref{T}()
    GC.@preserve result begin
        at = Ptr{UInt8}(Base.unsafe_convert(Ptr{T}, result))
        ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), at, 0, sizeof(T))
        unsafe_store!(Ptr{UInt32}(at), sizeof(T))
    end
    return result
end

"""
A call that may wait. From Julia 1.12 on other threads may collect garbage meanwhile. Ctrl-C is heard within
it where `look_around` looks, and behind it: thrown by anything that allocates in what C calls back, be that
how its arguments come, it would pass through the library's own frames.
"""
macro waits(call)
    waits = VERSION >= v"1.12" ? :(@ccall gc_safe = true $call) : :(@ccall $call)
    ended = gensym()
    return esc(quote
        Base.sigatomic_begin()
        $ended = $waits
        Base.sigatomic_end()
        $ended
    end)
end
