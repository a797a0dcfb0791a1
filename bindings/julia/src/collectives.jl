# What ranks do together: for each its struct of arguments, its function, its help.
#
# Written by tools/make_julia_ops.py from the library's schemas.

export barrier, allreduce, allreduce!, allgather, allgather!, reduce_scatter, reduce_scatter!, send,
    recv, recv!, alltoall, alltoall!, reduce!, gather, gather!, scatter!, allreduce_gemm,
    allreduce_gemm!, allgather_gemm, allgather_gemm!

"""
    barrier(comm; timeout)

Returns once every rank has called it.

On a GPU what the ranks enqueue behind it waits, too, for all that they had enqueued before it.

Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref); with a `code`
below 20 nothing was changed.
"""
function barrier(comm::Ranks; timeout = nothing)
    sk_call(comm, 1, Ref((UInt32(8), Int32(1))), timeout)
    return nothing
end

struct AllreduceArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    op::Int32
end

"""
    allreduce!(comm, out, x; op = :sum, timeout)
    allreduce!(comm, x; ...)
    allreduce(comm, x; ...)

out[i] = op over ranks of x[i], on every rank.

The result has the same bits on all of them. Ranks compare counts and types, not shapes: elements
are joined in the order in which they lie. Indices count from 0 here, elements in the order in which
they lie. Averages are for floating types.

- `x`: an array of any size, the same on every rank, of any type
- `out`: as `x`, of its type, may be `x`
- `op`: `+`, `*`, `min`, `max`, or `:sum`, `:prod`, `:min`, `:max`, `:avg`; how elements are joined;
  averages are for floating types
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function allreduce!(comm::Ranks, out, x; op = :sum, timeout = nothing)
    holds("x", x, ANY)
    holds("out", out, kind(eltype(x)))
    same_size(comm, out, x)
    tensors = Ref((vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = AllreduceArgs(sizeof(AllreduceArgs), 2, at[1], at[2], redop(op))
        sk_call(comm, 2, Ref(args), timeout)
    end
    return out
end
allreduce!(comm::Ranks, x; keywords...) = allreduce!(comm, x, x; keywords...)
allreduce(comm::Ranks, x; keywords...) = allreduce!(comm, like_x(comm, x), x; keywords...)

struct AllgatherArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
end

"""
    allgather!(comm, out, x; timeout)
    allgather(comm, x; ...)

out[r * count + i] = x[i] of rank r, on every rank.

Indices count from 0 here, elements in the order in which they lie.

- `x`: an array of any size, the same on every rank, of any type
- `out`: `(size(x)..., world_size)`, or `x` for each rank along its last dimension, of its type
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function allgather!(comm::Ranks, out, x; timeout = nothing)
    holds("x", x, ANY)
    holds("out", out, kind(eltype(x)))
    all_parts(comm, out, x)
    tensors = Ref((vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = AllgatherArgs(sizeof(AllgatherArgs), 3, at[1], at[2])
        sk_call(comm, 3, Ref(args), timeout)
    end
    return out
end
allgather(comm::Ranks, x; keywords...) = allgather!(comm, like_all_parts(comm, x), x; keywords...)

struct ReduceScatterArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    op::Int32
end

"""
    reduce_scatter!(comm, out, x; op = :sum, timeout)
    reduce_scatter(comm, x; ...)

out[i] = op over ranks of x[rank * count + i].

Indices count from 0 here, elements in the order in which they lie. Averages are for floating types.

- `x`: an array whose last dimension is that of `out` for each rank, in their order, of any type
- `out`: this rank's part of `x`, of its type, may be `x`
- `op`: `+`, `*`, `min`, `max`, or `:sum`, `:prod`, `:min`, `:max`, `:avg`; how elements are joined;
  averages are for floating types
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function reduce_scatter!(comm::Ranks, out, x; op = :sum, timeout = nothing)
    holds("x", x, ANY)
    holds("out", out, kind(eltype(x)))
    own_part(comm, out, x)
    tensors = Ref((vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = ReduceScatterArgs(sizeof(ReduceScatterArgs), 4, at[1], at[2], redop(op))
        sk_call(comm, 4, Ref(args), timeout)
    end
    return out
end
reduce_scatter(comm::Ranks, x; keywords...) =
    reduce_scatter!(comm, like_own_part(comm, x), x; keywords...)

struct BroadcastArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    root::Int32
end

"""
    broadcast!(comm, out, x; root = 0, timeout)
    broadcast!(comm, x; ...)
    broadcast(comm, x; ...)

out[i] = x[i] of rank root, on every rank.

Indices count from 0 here, elements in the order in which they lie.

- `x`: an array of any size, the same on every rank, of any type, read on rank `root`; on others it
  only says size and type
- `out`: as `x`, of its type, may be `x`
- `root`: the number of a rank, from 0; whose elements all get
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function Base.broadcast!(
    comm::Ranks, out::AbstractArray, x::AbstractArray;
    root = 0,
    timeout = nothing,
)
    holds("x", x, ANY)
    holds("out", out, kind(eltype(x)))
    same_size(comm, out, x)
    tensors = Ref((vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = BroadcastArgs(
            sizeof(BroadcastArgs),
            5,
            at[1],
            at[2],
            rank_number(comm, "root", root),
        )
        sk_call(comm, 5, Ref(args), timeout)
    end
    return out
end
Base.broadcast!(comm::Ranks, x::AbstractArray; keywords...) = broadcast!(comm, x, x; keywords...)
Base.broadcast(comm::Ranks, x::AbstractArray; keywords...) =
    broadcast!(comm, like_x(comm, x), x; keywords...)

struct SendRecvArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    root::Int32
    peer::Int32
end

"""
    send(comm, x, peer; timeout)

out[i] of the receiver = x[i] of the sender.

Only these two call. The sender waits until the other one receives, for nothing is buffered. Two
that send to each other are both refused at once (`SK_ERR_DESYNC`); a ring in which all send first
waits until the timeout, and ends: let even ranks send first and odd ranks receive first. Counts and
types must match on both sides. Indices count from 0 here, elements in the order in which they lie.

- `x`: an array of any size, of any type
- `peer`: the number, from 0, of the rank that calls [`recv!`](@ref)
- `timeout`: the longest wait, in seconds

Returns nothing. Arrays are used where they lie, and only during the call. Errors:
[`SKError`](@ref); with a `code` below 20 nothing was changed.
"""
function send(comm::Ranks, x, peer; timeout = nothing)
    holds("x", x, ANY)
    tensors = Ref((vector("x", x),))
    GC.@preserve tensors x begin
        at = places(tensors)
        args = SendRecvArgs(
            sizeof(SendRecvArgs),
            6,
            at[1],
            C_NULL,
            Int32(comm.rank),
            other_rank(comm, "peer", peer),
        )
        sk_call(comm, 6, Ref(args), timeout)
    end
    return nothing
end

"""
    recv!(comm, out, peer; timeout)
    recv(comm, T, dims, peer; timeout)

out[i] of the receiver = x[i] of the sender.

Only these two call. The sender waits until the other one receives, for nothing is buffered. Two
that send to each other are both refused at once (`SK_ERR_DESYNC`); a ring in which all send first
waits until the timeout, and ends: let even ranks send first and odd ranks receive first. Counts and
types must match on both sides. Indices count from 0 here, elements in the order in which they lie.

- `out`: an array of any size, of any type
- `peer`: the number, from 0, of the rank that calls [`send`](@ref)
- `timeout`: the longest wait, in seconds

Returns `out`, in the second form a new array of such a type and size. Arrays are used where they
lie, and only during the call. Errors: [`SKError`](@ref); with a `code` below 20 nothing was
changed.
"""
function recv!(comm::Ranks, out, peer; timeout = nothing)
    holds("out", out, ANY)
    tensors = Ref((vector("out", out),))
    GC.@preserve tensors out begin
        at = places(tensors)
        args = SendRecvArgs(
            sizeof(SendRecvArgs),
            6,
            C_NULL,
            at[1],
            other_rank(comm, "peer", peer),
            Int32(comm.rank),
        )
        sk_call(comm, 6, Ref(args), timeout)
    end
    return out
end
recv(comm::Ranks, T::Type, dims, peer; keywords...) =
    recv!(comm, new_array(T, dims), peer; keywords...)

struct AlltoallArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
end

"""
    alltoall!(comm, out, x; timeout)
    alltoall(comm, x; ...)

out[r * count + i] = x[rank * count + i] of rank r: each rank has a part for each.

Indices count from 0 here, elements in the order in which they lie.

- `x`: an array whose last dimension has a part for each rank, in their order, of any type
- `out`: as `x`, of its type
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function alltoall!(comm::Ranks, out, x; timeout = nothing)
    holds("x", x, ANY)
    holds("out", out, kind(eltype(x)))
    parts_alike(comm, out, x)
    tensors = Ref((vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = AlltoallArgs(sizeof(AlltoallArgs), 13, at[1], at[2])
        sk_call(comm, 13, Ref(args), timeout)
    end
    return out
end
alltoall(comm::Ranks, x; keywords...) = alltoall!(comm, like_x(comm, x), x; keywords...)

struct ReduceArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    op::Int32
    root::Int32
end

"""
    reduce!(comm, out, x; op = :sum, root = 0, timeout)
    reduce(comm, x; ...)

out[i] of rank root = op over ranks of x[i], in the order of ranks.

Indices count from 0 here, elements in the order in which they lie. Averages are for floating types.

- `x`: an array of any size, the same on every rank, of any type
- `out`: as `x`, of its type, on rank `root`; on others it may be `nothing`
- `op`: `+`, `*`, `min`, `max`, or `:sum`, `:prod`, `:min`, `:max`, `:avg`; how elements are joined;
  averages are for floating types
- `root`: the number of a rank, from 0; who gets it
- `timeout`: the longest wait, in seconds

Returns `out` on rank `root`, `nothing` on others. Arrays are used where they lie, and only during
the call. Errors: [`SKError`](@ref); with a `code` below 20 nothing was changed.
"""
function reduce!(comm::Ranks, out, x; op = :sum, root = 0, timeout = nothing)
    holds("x", x, ANY)
    if comm.rank == rank_number(comm, "root", root)
        holds("out", out, kind(eltype(x)))
        same_size(comm, out, x)
    else
        out = nothing
    end
    tensors = Ref((vector("x", x), out === nothing ? NO_TENSOR : vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = ReduceArgs(
            sizeof(ReduceArgs),
            14,
            at[1],
            out === nothing ? C_NULL : at[2],
            redop(op),
            rank_number(comm, "root", root),
        )
        sk_call(comm, 14, Ref(args), timeout)
    end
    return out
end
function Base.reduce(comm::Ranks, x::AbstractArray; root = 0, keywords...)
    out = comm.rank == root ? like_x(comm, x) : nothing
    return reduce!(comm, out, x; root = root, keywords...)
end

struct GatherArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    root::Int32
end

"""
    gather!(comm, out, x; root = 0, timeout)
    gather(comm, x; ...)

out[r * count + i] of rank root = x[i] of rank r.

Indices count from 0 here, elements in the order in which they lie.

- `x`: an array of any size, the same on every rank, of any type
- `out`: `(size(x)..., world_size)`, or `x` for each rank along its last dimension, of its type, on
  rank `root`; on others it may be `nothing`
- `root`: the number of a rank, from 0; who gets all
- `timeout`: the longest wait, in seconds

Returns `out` on rank `root`, `nothing` on others. Arrays are used where they lie, and only during
the call. Errors: [`SKError`](@ref); with a `code` below 20 nothing was changed.
"""
function gather!(comm::Ranks, out, x; root = 0, timeout = nothing)
    holds("x", x, ANY)
    if comm.rank == rank_number(comm, "root", root)
        holds("out", out, kind(eltype(x)))
        all_parts(comm, out, x)
    else
        out = nothing
    end
    tensors = Ref((vector("x", x), out === nothing ? NO_TENSOR : vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = GatherArgs(
            sizeof(GatherArgs),
            15,
            at[1],
            out === nothing ? C_NULL : at[2],
            rank_number(comm, "root", root),
        )
        sk_call(comm, 15, Ref(args), timeout)
    end
    return out
end
function gather(comm::Ranks, x; root = 0, keywords...)
    out = comm.rank == root ? like_all_parts(comm, x) : nothing
    return gather!(comm, out, x; root = root, keywords...)
end

struct ScatterArgs
    struct_size::UInt32
    operation::Int32
    in_::Ptr{Tensor}
    out::Ptr{Tensor}
    root::Int32
end

"""
    scatter!(comm, out, x; root = 0, timeout)

out[i] = x[rank * count + i] of rank root.

Indices count from 0 here, elements in the order in which they lie.

- `x`: an array whose last dimension is that of `out` for each rank, in their order, of any type,
  read on rank `root`; on others it may be `nothing`
- `out`: this rank's part of `x`, of its type
- `root`: the number of a rank, from 0; whose elements they are
- `timeout`: the longest wait, in seconds

Returns `out`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function scatter!(comm::Ranks, out, x; root = 0, timeout = nothing)
    holds("out", out, ANY)
    if comm.rank == rank_number(comm, "root", root)
        holds("x", x, kind(eltype(out)))
        own_part(comm, out, x)
    else
        x = nothing
    end
    tensors = Ref((x === nothing ? NO_TENSOR : vector("x", x), vector("out", out)))
    GC.@preserve tensors x out begin
        at = places(tensors)
        args = ScatterArgs(
            sizeof(ScatterArgs),
            16,
            x === nothing ? C_NULL : at[1],
            at[2],
            rank_number(comm, "root", root),
        )
        sk_call(comm, 16, Ref(args), timeout)
    end
    return out
end

struct AllreduceGemmArgs
    struct_size::UInt32
    operation::Int32
    a::Ptr{Tensor}
    c::Ptr{Tensor}
    b::Ptr{Tensor}
    b_packed::Ptr{Cvoid}
    transpose_a::Int32
    transpose_b::Int32
end

"""
    allreduce_gemm!(comm, c, b, a; timeout)
    allreduce_gemm(comm, b, a; out_type, timeout)

c = the sum over ranks of b * a, on every rank: a product, then an all-reduce, overlapped.

m: columns of a; n: rows of b and c; k: rows of a, columns of b.

- `c`: size `(n, m)`, of a's type or Float32
- `b`: size `(n, k)`, of a's type, or a `transpose` of such a matrix, or what [`pack`](@ref) made of
  it, laid out, turned and packed alike on every rank
- `a`: size `(k, m)`, Float32, Float64, BFloat16 or Float16, or a `transpose` of such a matrix, laid
  out, turned and packed alike on every rank
- `out_type`: that of the new array
- `timeout`: the longest wait, in seconds

Columns may lie apart, as those of `view(A, 1:3, :)`.

Returns `c`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function allreduce_gemm!(comm::Ranks, c, b, a; timeout = nothing)
    holds_factor("a", a, FLOAT)
    holds_weights("b", b, kind(eltype(a)))
    holds_matrix("c", c, kind(eltype(a)) | kind(Float32))
    a_ = factor("a", a)
    b_ = factor("b", b)
    k, m = a_.size
    n, _ = b_.size
    fits("b", b_.size, (n, k), "(n, k)")
    fits("c", size(c), (n, m), "(n, m)")
    tensors = Ref((a_.tensor, columns("c", c), b_.tensor))
    GC.@preserve tensors b a c begin
        at = places(tensors)
        args = AllreduceGemmArgs(
            sizeof(AllreduceGemmArgs),
            7,
            at[1],
            at[2],
            b_.packed == C_NULL ? at[3] : C_NULL,
            b_.packed,
            a_.turned,
            b_.turned,
        )
        sk_call(comm, 7, Ref(args), timeout)
    end
    return c
end
function allreduce_gemm(comm::Ranks, b, a; out_type = eltype(a), timeout = nothing)
    c = new_array(out_type, (factor_size("b", b)[1], factor_size("a", a)[2]))
    return allreduce_gemm!(comm, c, b, a; timeout = timeout)
end

struct AllgatherGemmArgs
    struct_size::UInt32
    operation::Int32
    a::Ptr{Tensor}
    c::Ptr{Tensor}
    b::Ptr{Tensor}
    b_packed::Ptr{Cvoid}
    transpose_a::Int32
    transpose_b::Int32
end

"""
    allgather_gemm!(comm, c, b, a; timeout)
    allgather_gemm(comm, b, a; out_type, timeout)

c = the own b, times the ranks' a, one beside the other: tiles begin as shards arrive, the own
first.

m: columns of a; n: rows of b and c; k: rows of a, columns of b.

- `c`: size `(n, world_size * m)`, of a's type or Float32
- `b`: size `(n, k)`, of a's type, or a `transpose` of such a matrix, or what [`pack`](@ref) made of
  it, laid out, turned and packed alike on every rank
- `a`: size `(k, m)`, Float32, Float64, BFloat16 or Float16, or a `transpose` of such a matrix, laid
  out, turned and packed alike on every rank, peers read it there where it is symmetric
- `out_type`: that of the new array
- `timeout`: the longest wait, in seconds

Columns may lie apart, as those of `view(A, 1:3, :)`.

Returns `c`. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref);
with a `code` below 20 nothing was changed.
"""
function allgather_gemm!(comm::Ranks, c, b, a; timeout = nothing)
    holds_factor("a", a, FLOAT)
    holds_weights("b", b, kind(eltype(a)))
    holds_matrix("c", c, kind(eltype(a)) | kind(Float32))
    a_ = factor("a", a)
    b_ = factor("b", b)
    k, m = a_.size
    n, _ = b_.size
    fits("b", b_.size, (n, k), "(n, k)")
    fits("c", size(c), (n, comm.world_size * m), "(n, world * m)")
    tensors = Ref((a_.tensor, columns("c", c), b_.tensor))
    GC.@preserve tensors b a c begin
        at = places(tensors)
        args = AllgatherGemmArgs(
            sizeof(AllgatherGemmArgs),
            8,
            at[1],
            at[2],
            b_.packed == C_NULL ? at[3] : C_NULL,
            b_.packed,
            a_.turned,
            b_.turned,
        )
        sk_call(comm, 8, Ref(args), timeout)
    end
    return c
end
function allgather_gemm(comm::Ranks, b, a; out_type = eltype(a), timeout = nothing)
    c = new_array(out_type, (factor_size("b", b)[1], comm.world_size * factor_size("a", a)[2]))
    return allgather_gemm!(comm, c, b, a; timeout = timeout)
end
