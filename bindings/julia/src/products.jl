# Factors of products: matrices, transposes of them, and packed weights.

"""
    Packed

Weights laid out once for the tiles of this CPU by [`pack`](@ref), for many products. Immutable; it
may outlive its communicator. `close(packed)` frees it; dropping it does so at some time later.
"""
mutable struct Packed
    handle::Ptr{Cvoid}
    size::NTuple{2,Int}
    type::DataType
end

Base.size(b::Packed) = b.size
Base.eltype(b::Packed) = b.type
Base.isopen(b::Packed) = b.handle != C_NULL
Base.show(io::IO, b::Packed) = print(io, join(b.size, "×"), " Packed{", b.type, "}")

"""A factor as C gets it: a tensor or packed weights, and how Julia sees it."""
struct Factor
    tensor::Tensor
    turned::Int32  # Whether memory holds the transpose.
    packed::Ptr{Cvoid}
    size::NTuple{2,Int}
end

const Turned = Union{Transpose,Adjoint}

@inline function holds_matrix(name, x, allowed)
    holds(name, x, allowed)
    ndims(x) == 2 || no_matrix(name, x)
    return nothing
end
@noinline no_matrix(name, x) = invalid("$name is $(shown(x)); it must be a matrix")

# Of a transpose memory is asked, and the transpose of a vector is a matrix of one row.
@inline holds_factor(name, x, allowed) = holds_matrix(name, x, allowed)
holds_factor(name, x::Turned, allowed) = holds(name, parent(x), allowed)
holds_factor(name, x::Packed, allowed) =
    invalid("$name is packed; only weights may be, as pack() says")

@inline holds_weights(name, x, allowed) = holds_factor(name, x, allowed)
holds_weights(name, x::Packed, allowed) = holds_type(name, x.type, allowed)

"""A matrix where it lies. What lies by rows is the transpose of what lies by columns."""
@inline function factor(name, x::Union{Array,SymmetricArray})
    return Factor(columns(name, x), 0, C_NULL, size(x))
end

factor(name, x::Turned) = turn(factor_of(name, parent(x)))
factor(name, x::Packed) = Factor(NO_TENSOR, 0, x.handle == C_NULL ? closed("Packed") : x.handle, x.size)

function factor(name, x)
    by_rows = size(x, 1) > 1 && stride(x, 1) != 1 && (size(x, 2) == 1 || stride(x, 2) == 1)
    by_rows || return Factor(columns(name, x), 0, C_NULL, size(x))
    return turn(factor(name, PermutedDimsArray(x, (2, 1))))
end

factor_of(name, x::AbstractMatrix) = factor(name, x)
factor_of(name, x::AbstractVector) = Factor(columns(name, x), 0, C_NULL, (length(x), 1))

turn(x::Factor) = Factor(x.tensor, 1 - x.turned, x.packed, reverse(x.size))

"""Its size, of a matrix before it was asked to be one."""
function factor_size(name, x)
    x isa Packed || x isa AbstractMatrix || invalid("$name is $(shown(x)); it must be a matrix")
    return size(x)
end

"""Refuses a matrix of another size; `names` are its sides in the operation's help."""
@inline fits(name, given, wanted, names) = given == wanted ? nothing : does_not_fit(name, given, wanted, names)
@noinline function does_not_fit(name, given, wanted, names)
    invalid("$name is $(times(given)); with the other matrices it must be $names, $(times(wanted))")
end

"""
    pack(comm, b)

Lays out weights for this CPU once, for many products: `allreduce_gemm!(comm, c, pack(comm, b), a)`.
`b` has size `(n, k)`, or is a `transpose` of such a matrix; it may be changed afterwards. Not
collective. Returns a [`Packed`](@ref).

Errors: [`SKError`](@ref) with `code` 10 for what is no such matrix, 40 without memory.
"""
function pack(comm::Comm, b)
    holds_factor("b", b, FLOAT)
    free_dropped()
    b_ = factor("b", b)
    made = Ref{Ptr{Cvoid}}(C_NULL)
    tensor = Ref(b_.tensor)
    flags = b_.turned == 1 ? UInt32(2) : UInt32(0)  # SK_GEMM_TRANSPOSE_B
    handle = open_handle(comm)
    return made_whole(undo = close) do
        GC.@preserve b begin
            status = @waits libsk.sk_pack(
                handle::Ptr{Cvoid}, tensor::Ptr{Tensor}, flags::UInt32, made::Ptr{Ptr{Cvoid}}
            )::Int32
        end
        status == 0 || failed(comm, status)
        finalizer(drop, Packed(made[], b_.size, eltype(b)))
    end
end

drop(b::Packed) = free_later(packed_free[], b.handle)

function Base.close(b::Packed)
    b.handle == C_NULL && return nothing
    check(@waits libsk.sk_packed_free(b.handle::Ptr{Cvoid})::Int32)
    b.handle = C_NULL
    return nothing
end
