# Julia's arrays as the library's tensors, where they lie.
#
# The library counts dimensions from the outside in, the last one's elements beside each other, and
# Julia from the inside out. So a tensor's shape is an array's size from its end: no element moves.

"""Element types: their numbers in enum sk_dtype."""
const DTYPES = (
    Float32 => Int32(1),
    Float64 => Int32(2),
    BFloat16 => Int32(3),
    Float16 => Int32(4),
    Int32 => Int32(5),
    Int64 => Int32(6),
)
for (type, number) in DTYPES
    @eval dtype(::Type{$type}) = $number
end
dtype(::Type) = Int32(0)

"""A set of element types, a bit for each."""
@inline kind(types::Type...) = reduce(|, map(type -> UInt8(1) << dtype(type), types)) & 0xfe

const ANY = kind(first.(DTYPES)...)
const FLOAT = kind(Float32, Float64, BFloat16, Float16)

# An array of Julia's own has no gaps and is asked nothing more.
const Dense{T,N} = Union{Array{T,N},SymmetricArray{T,N}}

"""What sums of such elements are kept in."""
accumulator(::Type{Float64}) = Float64
accumulator(::Type) = Float32

join_words(words) = length(words) < 2 ? join(words) : join(words[1:end-1], ", ") * " or $(words[end])"

"""Refuses what is no array in the CPU's memory, and elements of a type that is not allowed."""
@inline function holds(name, x, allowed::UInt8)
    x isa Dense && kind(eltype(x)) & allowed != 0 && return nothing
    return holds_slowly(name, x, allowed)
end

@noinline function holds_slowly(name, x, allowed)
    x isa AbstractArray || invalid("$name is $(shown(x)); it must be an array")
    holds_type(name, eltype(x), allowed)
    lies_in_memory(x) && return nothing
    invalid(
        "$name is $(shown(x)); allowed are arrays whose elements lie in the CPU's memory in the " *
        "order of their indices: Array, SymmetricArray, views of them; give collect($name)",
    )
end

function holds_type(name, type, allowed)
    kind(type) & allowed != 0 && return nothing
    words = join_words([string(each) for (each, _) in DTYPES if kind(each) & allowed != 0])
    invalid("$name has elements of type $type; allowed is $words")
end

"""Whether `pointer(x)` and `strides(x)` say where the elements are."""
function lies_in_memory(x)
    x isa StridedArray || x isa SymmetricArray || x isa PermutedDimsArray || x isa SubArray ||
        return false
    return try
        pointer(x) isa Ptr && strides(x) isa Tuple
    catch
        false
    end
end

"""Of the dimensions from `from` on the stride that makes them one, or `nothing`: such as each
begins where the one before it ends."""
function joined_stride(x, from)
    stride, expected = 0, 0
    for d in from:ndims(x)
        size(x, d) == 1 && continue
        if stride == 0
            stride = Base.stride(x, d)
        elseif Base.stride(x, d) != expected
            return nothing
        end
        expected = Base.stride(x, d) * size(x, d)
    end
    return stride
end

const NO_AXES = ntuple(_ -> Int64(0), 8)

# Behind the first two, the axes are not used.
@inline axes_of(a, b) = (Int64(a), Int64(b), 0, 0, 0, 0, 0, 0)

@inline function tensor(x, shape, strides, ndim)
    data = Ptr{Cvoid}(pointer(x))
    return Tensor(sizeof(Tensor), dtype(eltype(x)), data, ndim, 0, 0, 0, shape, strides)
end

"""Any array as a vector of its elements in their order. The caller keeps `x` alive."""
@inline function vector(name, x)
    x isa Dense || is_dense(name, x)
    return tensor(x, axes_of(length(x), 0), axes_of(1, 0), 1)
end

@noinline function is_dense(name, x)
    length(x) < 2 && return
    stride = joined_stride(x, 1)
    stride === 1 && return
    how = stride === nothing ? "lie apart" : "lie $stride apart"
    invalid(
        "$name is $(shown(x)), a view whose elements $how; elements must lie one after another: " *
        "give copy($name)",
    )
end

"""An array as a matrix of its columns: the first dimension, and all others as one. The columns may
lie apart. In the library's words its rows."""
@inline function columns(name, x)
    n = ndims(x) == 0 ? 1 : size(x, 1)
    m = n == 0 ? columns_count(x) : length(x) ÷ n
    step = x isa Dense ? n : column_step(name, x)
    return tensor(x, axes_of(m, n), axes_of(max(step, n, 1), 1), 2)
end

columns_count(x) = prod(size(x)[2:end])

"""How many elements one column of `x` begins behind the one before."""
@noinline function column_step(name, x)
    length(x) < 2 && return 0
    if size(x, 1) > 1 && stride(x, 1) != 1
        invalid(
            "$name is $(shown(x)), a view whose elements of a column lie $(stride(x, 1)) apart; they " *
            "must lie one after another: give copy($name)",
        )
    end
    step = joined_stride(x, 2)
    if step === nothing
        invalid("$name is $(shown(x)), a view whose columns lie unevenly apart: give copy($name)")
    elseif step < 0
        invalid("$name is $(shown(x)), a view whose columns lie backwards: give copy($name)")
    end
    return step
end

"""Pointers to the tensors of a call, which lie in one tuple."""
@inline function places(tensors::Ref{NTuple{N,Tensor}}) where {N}
    first = Ptr{Tensor}(Base.unsafe_convert(Ptr{NTuple{N,Tensor}}, tensors))
    return ntuple(i -> first + (i - 1) * sizeof(Tensor), Val(N))
end

"""A tensor that is not there, where the struct has a place for it."""
const NO_TENSOR = Tensor(0, 0, C_NULL, 0, 0, 0, 0, NO_AXES, NO_AXES)

"""Sizes as sentences have them."""
times(size) = isempty(size) ? "a number" : length(size) == 1 ? "$(size[1]) long" : join(size, "×")

"""Refuses an array of another size; `what` says why it should have that."""
@inline agree(name, x, wanted, what) = size(x) == wanted ? nothing : do_not_agree(name, x, wanted, what)

@noinline function do_not_agree(name, x, wanted, what)
    invalid("$name is $(times(size(x))); it must be $(times(wanted)), $what")
end

# ---- new arrays for results ----

like(x) = Array{eltype(x)}(undef, size(array(x)))

array(x::AbstractArray) = x
array(x) = invalid("x is $(shown(x)); it must be an array")

function new_array(T, dims)
    T isa Type && dtype(T) != 0 || invalid("T is $(shown(T)); allowed is $(join_words(string.(first.(DTYPES))))")
    sizes = dims isa Integer ? (dims,) : dims
    if !(sizes isa Tuple && all(each -> each isa Integer && each >= 0, sizes))
        invalid("dims is $(shown(dims)); it must be numbers of 0 or more")
    end
    return Array{T}(undef, sizes...)
end

"""The length of a column, and the size of all dimensions behind it."""
@inline column_size(x) = ndims(x) == 0 ? no_columns(x) : (size(x, 1), Base.tail(size(x)))
@noinline no_columns(x) = invalid("$(shown(x)) is a number; there must be one dimension at least")

# ---- lists ----

"""The arrays of a list as tensors, and pointers to them; it keeps the arrays alive."""
struct List
    arrays::Vector{Any}
    tensors::Vector{Tensor}
    places::Vector{Ptr{Tensor}}
end

function list(name, arrays, allowed)
    is_list = applicable(iterate, arrays) && !(arrays isa Union{AbstractArray{<:Number},AbstractString,Number})
    is_list || invalid("$name is $(shown(arrays)); it must be a list of arrays")
    kept = collect(Any, arrays)
    for (i, each) in enumerate(kept)
        holds("$name[$i]", each, allowed)
        if eltype(each) != eltype(kept[1])
            invalid("$name[$i] has elements of type $(eltype(each)), and $name[1] $(eltype(kept[1])); give one type")
        end
    end
    tensors = Tensor[vector("$name[$i]", each) for (i, each) in enumerate(kept)]
    return List(kept, tensors, [pointer(tensors, i) for i in eachindex(tensors)])
end

"""The type of a list's elements; of an empty one any will do."""
function eltype_of(arrays)
    for each in arrays
        return eltype(each)
    end
    return Float32
end

function as_long(name, list, other_name, other)
    count, wanted = length(list.arrays), length(other.arrays)
    count == wanted || invalid("$name has $count arrays, and $other_name $wanted; give as many")
    for i in 1:count
        agree("$name[$i]", list.arrays[i], size(other.arrays[i]), "as $other_name[$i] is")
    end
end
