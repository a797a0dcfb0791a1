# Calls kept ready: arguments are read, and the plan made, once.

"""In the place of a communicator: what would call an operation keeps the call."""
mutable struct Keeper <: Ranks
    comm::Comm
    rank::Int
    world_size::Int
    made::Ptr{Cvoid}
end

function sk_call(keeper::Keeper, operation, args::Ref, ::Nothing)
    made = Ref{Ptr{Cvoid}}(C_NULL)
    handle = open_handle(keeper.comm)
    status = @waits libsk.sk_op_create(
        handle::Ptr{Cvoid}, operation::Int32, args::Ptr{Cvoid}, made::Ptr{Ptr{Cvoid}}
    )::Int32
    status == 0 || failed(keeper.comm, status)
    keeper.made = made[]
    return nothing
end

sk_call(::Keeper, operation, args::Ref, timeout) = invalid("timeout belongs to run()")

"""
    prepare(operation, comm, arrays...; keywords...)

A call of `operation`, say `allreduce!`, kept ready for loops that repeat it: the arguments are those of
the operation, but for `timeout`. Making it needs no other rank.

    step = prepare(allreduce!, comm, x; op = max)
    while going_on
        run(step)
    end
    close(step)

Each `run(step; timeout)` takes what the arrays hold by then and returns the result, the same array each
time; collective, where the operation is. The call keeps its arrays alive. One that has grown or was
freed lies elsewhere, and is refused: `code` 10, or 13.

Errors: [`SKError`](@ref), as those of the operation; `code` 13 behind `close(step)` or `close(comm)`.
"""
function prepare(operation, comm::Comm, arrays...; keywords...)
    takes_ranks(operation) ||
        invalid("operation is $(shown(operation)); it must be one that takes a communicator")
    free_dropped()
    keeper = Keeper(comm, comm.rank, comm.world_size, C_NULL)
    result = operation(keeper, arrays...; keywords...)
    kept = (result, arrays...)
    step = Prepared(keeper.made, comm, result, kept, map(span, kept))
    return finalizer(drop, step)
end

"""What [`prepare`](@ref) makes; `run(step)` calls it, `close(step)` ends it."""
mutable struct Prepared{R,A<:Tuple,S<:Tuple}
    handle::Ptr{Cvoid}
    comm::Comm
    result::R
    arrays::A
    spans::S
end

function takes_ranks(operation)
    return any(methods(operation)) do method
        parameters = Base.unwrap_unionall(method.sig).parameters
        length(parameters) > 1 && parameters[2] === Ranks
    end
end

drop(step::Prepared) = free_later(op_free[], step.handle)

"""Where an array lies, and how long it is: nothing else can change without another array."""
@inline span(x::AbstractArray) = (Ptr{Cvoid}(pointer(x)), length(x))
@inline span(x::Turned) = span(parent(x))
span(x) = nothing

function Base.run(step::Prepared; timeout = nothing)
    step.handle == C_NULL && closed("call")
    open_handle(step.comm)
    map(span, step.arrays) == step.spans || moved()
    if timeout === nothing
        status = @waits libsk.sk_op_run(
            step.handle::Ptr{Cvoid}, C_NULL::Ptr{Cvoid}, C_NULL::Ptr{Cvoid}
        )::Int32
    else
        options = Ref(RunOptions(
            sizeof(RunOptions), 0, 0, 0, C_NULL, milliseconds(timeout), C_NULL, C_NULL
        ))
        status = @waits libsk.sk_op_run(
            step.handle::Ptr{Cvoid}, C_NULL::Ptr{Cvoid}, options::Ptr{RunOptions}
        )::Int32
    end
    status == 0 || failed(step.comm, status)
    return step.result
end

@noinline moved() = invalid("an array of this call has grown, shrunk or moved; prepare it again")

function Base.close(step::Prepared)
    step.handle == C_NULL && return nothing
    check(@waits libsk.sk_op_free(step.handle::Ptr{Cvoid})::Int32)
    step.handle = C_NULL
    return nothing
end

Base.isopen(step::Prepared) = step.handle != C_NULL
Base.show(io::IO, step::Prepared) = print(io, "Prepared(", isopen(step) ? "" : "closed", ")")
