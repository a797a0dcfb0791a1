# What every operation's function does: sk_call() with its struct, and an exception where it fails.

"""This process alone, with all of its cores: for operations that need no other rank."""
struct Alone end

# Always the same one, as long as the process lives.
const lane = Ref{Ptr{Cvoid}}(C_NULL)

@inline open_handle(::Alone) = lane[] == C_NULL ? open_lane() : lane[]

@noinline function open_lane()
    made = Ref{Ptr{Cvoid}}(C_NULL)
    check(ccall((:sk_comm_self, libsk), Int32, (Ptr{Cvoid}, Ptr{Ptr{Cvoid}}), the_context(), made))
    return lane[] = made[]
end

failed(::Alone, status::Int32) = check(status)

"""Calls an operation. The caller keeps alive what `args` points to."""
@inline function sk_call(who, operation, args::Ref, ::Nothing)
    handle = open_handle(who)
    status = @waits libsk.sk_call(
        handle::Ptr{Cvoid}, operation::Int32, args::Ptr{Cvoid}, C_NULL::Ptr{Cvoid}
    )::Int32
    status == 0 || failed(who, status)
    return nothing
end

@noinline function sk_call(who, operation, args::Ref, timeout)
    limit = milliseconds(timeout)
    options = Ref(RunOptions(sizeof(RunOptions), 0, 0, 0, C_NULL, limit, C_NULL, C_NULL))
    handle = open_handle(who)
    status = @waits libsk.sk_call(
        handle::Ptr{Cvoid}, operation::Int32, args::Ptr{Cvoid}, options::Ptr{RunOptions}
    )::Int32
    status == 0 || failed(who, status)
    return nothing
end

# ---- numbers ----

"""How elements are joined: a function of Julia's or the library's word."""
redop(::typeof(+)) = Int32(1)
redop(::typeof(*)) = Int32(2)
redop(::typeof(min)) = Int32(3)
redop(::typeof(max)) = Int32(4)
function redop(op)
    op isa Union{Symbol,AbstractString} || wrong_redop(op)
    found = findfirst(isequal(Symbol(op)), (:sum, :prod, :min, :max, :avg))
    return found === nothing ? wrong_redop(op) : Int32(found)
end
@noinline function wrong_redop(op)
    invalid("op is $(shown(op)); allowed is +, *, min, max, :sum, :prod, :min, :max or :avg")
end

float_number(name, x::Float64) = x
function float_number(name, x)
    x isa Real && !(x isa Bool) || invalid("$name is $(shown(x)); it must be a number")
    return Float64(x)
end

integer(name, x) = whole(x, name, typemin(Int64), typemax(Int64))
rank_number(comm, name, x) = Int32(whole(x, name, 0, comm.world_size - 1))

function other_rank(comm, name, x)
    number = rank_number(comm, name, x)
    number == comm.rank && invalid("$name is $x, which is this rank; it must be another one")
    return number
end

# ---- vectors: one array in, one out ----

"""Refuses an `out` that is not as `x`."""
@inline same_size(comm, out, x) = agree("out", out, size(x), "as x is")

"""Refuses an `out` that does not hold every rank's part: behind the last dimension of `x`, or along."""
@inline function all_parts(comm, out, x)
    size(out) == (size(x)..., comm.world_size) && return nothing
    return along_last(out, x, comm.world_size)
end

@noinline function along_last(out, x, world)
    behind = (size(x)..., world)
    ndims(x) == 0 && return agree("out", out, behind, "x for each rank")
    along = (size(x)[1:end-1]..., size(x)[end] * world)
    size(out) == along && return nothing
    invalid("out is $(times(size(out))); it must be $(times(behind)) or $(times(along))")
end

"""Refuses an `x` that cannot be parted along its last dimension, and an `out` that is no such part."""
@noinline function own_part(comm, out, x)
    agree("out", out, size_of_part(comm, x), "this rank's part of x")
end

"""Refuses an `x` that cannot be parted along its last dimension, and an `out` of another size."""
@noinline function parts_alike(comm, out, x)
    size_of_part(comm, x)
    agree("out", out, size(x), "as x is")
end

@noinline function size_of_part(comm, x)
    last = ndims(x) == 0 ? 1 : size(x)[end]
    if ndims(x) == 0 || last % comm.world_size != 0
        invalid(
            "x is $(times(size(x))); its last dimension must be a multiple of the " *
            "$(comm.world_size) ranks",
        )
    end
    return (size(x)[1:end-1]..., last ÷ comm.world_size)
end

# New arrays for results.
like_x(comm, x) = like(x)
like_all_parts(comm, x) = Array{eltype(x)}(undef, size(array(x))..., comm.world_size)
like_own_part(comm, x) = Array{eltype(x)}(undef, size_of_part(comm, array(x)))
