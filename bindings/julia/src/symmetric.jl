# Symmetric memory as arrays: peers read and write it without a copy.

"""What operations take as their first argument: a communicator, or what keeps a call of one."""
abstract type Ranks end

"""
    SymmetricArray{T}(comm, dims...)

An array of zeros in symmetric memory, which peers reach without a copy (`sk_alloc()`). Collective:
the same number of bytes on every rank. `T` is any type of plain bits; operations take Float32,
Float64, Float16, BFloat16, Int32 and Int64.

The memory lives until [`free!`](@ref), collectively, or until `close(comm)`. The array is empty from
then on; it and views of it throw an [`SKError`](@ref) with `code` 13 where they are indexed. Dropping
the array alone gives nothing back, for that would not be collective.
"""
mutable struct SymmetricArray{T,N} <: DenseArray{T,N}
    pointer::Ptr{T}
    size::NTuple{N,Int}
    comm::Ranks  # It keeps the memory.
end

Base.size(x::SymmetricArray) = x.size
Base.IndexStyle(::Type{<:SymmetricArray}) = IndexLinear()
Base.elsize(::Type{SymmetricArray{T,N}}) where {T,N} = sizeof(T)
Base.strides(x::SymmetricArray) = Base.size_to_strides(1, x.size...)

"""Where the elements are. A view knows its parent alone, so each use asks, also one of `@inbounds`."""
@inline address(x::SymmetricArray) = is_gone(x) ? gone() : x.pointer

@noinline gone() = throw(SKError(BAD_HANDLE, "the memory of this SymmetricArray was given back"))

Base.unsafe_convert(::Type{Ptr{T}}, x::SymmetricArray{T}) where {T} = address(x)

@inline function Base.getindex(x::SymmetricArray, i::Int)
    at = address(x)
    @boundscheck checkbounds(x, i)
    return unsafe_load(at, i)
end

@inline function Base.setindex!(x::SymmetricArray{T}, value, i::Int) where {T}
    at = address(x)
    @boundscheck checkbounds(x, i)
    unsafe_store!(at, convert(T, value)::T, i)
    return x
end

function Base.showarg(io::IO, x::SymmetricArray{T,N}, toplevel) where {T,N}
    print(io, "SymmetricArray{", T, ",", N, "}")
    return is_gone(x) ? print(io, ", freed") : nothing
end

is_gone(x::SymmetricArray) = x.pointer == C_NULL

"""From here on no index is within the array."""
function forget!(x::SymmetricArray{T,N}) where {T,N}
    x.size = ntuple(_ -> 0, Val(N))
    x.pointer = C_NULL
    return nothing
end
