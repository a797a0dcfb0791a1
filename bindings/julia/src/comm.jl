# Communicators: who the ranks are, what one rank is, and the end.

"""What C sees of a communicator while a call waits: where `waiting` looks whether to go on."""
mutable struct Waiting
    # Of one communicator, and of what was left of it. Put in place whole and never changed: who is called back
    # reads it without the lock.
    handles::Vector{Ptr{Cvoid}}
    is_interrupted::Bool
end

"""
    Comm(; name, timeout, workers, symmetric_bytes_max, put_only)
    Comm(f; ...)

A fixed set of ranks that call the same things in the same order. The ranks are those that `sk run`,
torchrun, mpirun or srun started (docs/env.md); where none of them did this is a world of one. Ranks
are numbered from 0, as everywhere outside Julia. Returns when every rank has called it. The second
form calls `f(comm)` and closes it.

- `name`: which of the communicators that the job's processes make at the same time;
- `timeout`: the longest wait for a peer in any call, in seconds; 300 by default;
- `workers`: threads that run this rank's tiles; 0 is one for each core that falls to it;
- `symmetric_bytes_max`: address space for [`SymmetricArray`](@ref)s; 0 is the machine's memory;
- `put_only`: plans as if no peer's memory could be mapped, for tests.

A call waits until its arrays may be used again. It holds its thread meanwhile: other tasks of that
thread do not run. Ctrl-C aborts the communicator: this rank throws `InterruptException`, its peers
an [`SKError`](@ref). (While the ranks meet it is thrown once they have met, or did not in time. Julia ends
a script at Ctrl-C unless it has called `Base.exit_on_sigint(false)`.) One thread at a time may use a
communicator.

Errors: `SKError` with `code` 10 for an argument that makes no sense or launchers that disagree, 20
where a rank died, 21 where one aborted, 30 where ranks did not come, 60 where one is a stranger.
"""
mutable struct Comm <: Ranks
    handle::Ptr{Cvoid}
    rank::Int
    world_size::Int
    local_rank::Int
    waiting::Waiting
    arrays::Vector{SymmetricArray}
end

const context = Ref{Ptr{Cvoid}}(C_NULL)
const context_lock = ReentrantLock()

"""The one context of this package."""
function the_context()
    context[] == C_NULL || return context[]
    lock(context_lock) do
        context[] == C_NULL || return
        comm_free[] == C_NULL && start()
        made = Ref{Ptr{Cvoid}}(C_NULL)
        check(ccall((:sk_init, libsk), Int32, (Ptr{Cvoid}, Ptr{Ptr{Cvoid}}), C_NULL, made))
        context[] = made[]
    end
    return context[]
end

"""Called now and then while a call waits: Ctrl-C ends that, and only Julia's code can see it."""
function look_around(user::Ptr{Cvoid})::Cvoid
    try
        Base.sigatomic_end()  # That of @waits; throws what has come.
        Base.sigatomic_begin()
    catch error
        error isa InterruptException && interrupt(unsafe_pointer_to_objref(user)::Waiting)
    end
    return nothing
end

"""
Between frames of C no task may wait: others of the thread would run there, and what they call of libsk would
find this call inside of it. So there is no lock: a handle that was freed meanwhile is refused.
"""
function interrupt(waiting::Waiting)
    waiting.is_interrupted = true
    for handle in waiting.handles
        ccall((:sk_comm_abort, libsk), Int32, (Ptr{Cvoid}, Cstring), handle, "interrupted")
    end
end

# C has pointers to them, also once a communicator was dropped, until its handle is freed.
const waitings = Set{Waiting}()

function Comm(;
    name = nothing,
    timeout = nothing,
    workers = 0,
    symmetric_bytes_max = 0,
    put_only = false,
)
    put_only isa Bool || invalid("put_only is $(shown(put_only)); allowed is true or false")
    text = name === nothing ? nothing : c_text(name, "name")
    threads = whole(workers, "workers", 0, typemax(Int32))
    bytes = whole(symmetric_bytes_max, "symmetric_bytes_max", 0, typemax(Int64))
    limit = milliseconds(timeout)
    free_dropped()
    return made_whole(() -> create(text, limit, threads, bytes, put_only); undo = close)
end

"""The communicator of this name, as a notebook makes its own: who calls it says when to give up, by a
descriptor that can be read then. The error is its own, and no interrupt is."""
meet(name::String, cancel_fd::Cint) =
    disable_sigint(() -> create(name, Int64(0), Int64(0), Int64(0), false, cancel_fd))

function create(text, limit, threads, bytes, put_only, cancel_fd = Cint(0))
    waiting = Waiting(Ptr{Cvoid}[], false)
    lock(() -> push!(waitings, waiting), context_lock)
    made = Ref{Ptr{Cvoid}}(C_NULL)
    GC.@preserve text begin
        config = CommConfig(
            sizeof(CommConfig), 0, 0, 0,
            text === nothing ? C_NULL : pointer(text), C_NULL, C_NULL,
            limit, put_only, threads, bytes,
            cancel_fd, 0, 0, 0,
            look_around_pointer[], pointer_from_objref(waiting),
        )
        status = @waits libsk.sk_comm_create(
            the_context()::Ptr{Cvoid}, Ref(config)::Ptr{CommConfig}, made::Ptr{Ptr{Cvoid}}
        )::Int32
        failure = status == 0 ? nothing : last_error(status)
    end
    if status != 0
        lock(() -> delete!(waitings, waiting), context_lock)
        throw(failure)
    end
    return object_of(made[], waiting)
end

function object_of(handle::Ptr{Cvoid}, waiting::Waiting)
    lock(() -> waiting.handles = [waiting.handles; handle], context_lock)
    own = query(handle)
    comm = Comm(handle, own.rank, own.world_size, own.local_rank, waiting, SymmetricArray[])
    return finalizer(drop, comm)
end

function Comm(f; config...)
    comm = Comm(; config...)
    try
        return f(comm)
    finally
        close(comm)
    end
end

# What a dropped communicator's arrays see does not matter: they were dropped with it.
drop(comm::Comm) = free_later(comm_free[], comm.handle)

function query(handle::Ptr{Cvoid})
    info = blank(CommInfo)
    check(ccall((:sk_comm_query, libsk), Int32, (Ptr{Cvoid}, Ptr{CommInfo}), handle, info))
    return info[]
end

@inline function open_handle(comm::Comm)
    comm.handle == C_NULL && closed("communicator")
    return comm.handle
end

@noinline closed(what) = throw(SKError(BAD_HANDLE, "this $what was closed"))

"""
    info(comm)

What this rank is, as a named tuple: `rank`, `world_size`, `local_rank`, `local_size`, `workers`,
`mapped` (whether all peers' symmetric memory can be loaded and stored), `symmetric_bytes`, `calls`
(collectives finished), `plans` (in the cache), `over` (0, or the code of what ended it).
"""
function info(comm::Comm)
    found = query(open_handle(comm))
    return (
        rank = Int(found.rank), world_size = Int(found.world_size),
        local_rank = Int(found.local_rank), local_size = Int(found.local_size),
        workers = Int(found.workers), mapped = found.mapped == 1,
        symmetric_bytes = Int(found.symmetric_bytes), calls = Int(found.calls),
        plans = Int(found.plans), over = Int(found.over),
    )
end

"""
    shrink(comm; timeout)

A communicator of those ranks that are left of `comm`, which go on without the others: whose process
has ended, who have closed theirs, or whose host fell silent. Collective over all others, in whatever
state `comm` is; that stays, and is to be closed. Ranks are numbered anew in their order, and all else
is as `comm` was made. Where nobody is lost it is another one of the same ranks.

```julia
try
    allreduce!(comm, x)
catch error
    error isa SKError && error.code == 20 || rethrow()
    left = shrink(comm)
    close(comm)
end
```

- `timeout`: how long the others are waited for, in seconds; by default as long as `comm` waits.

Errors: `SKError` with `code` 30 names those that are alive and did not come; 12 where `comm` is of no
launcher's ranks, or where ranks of several hosts have lost rank 0, at whose address they meet.
"""
function shrink(comm::Comm; timeout = nothing)
    limit = milliseconds(timeout)
    handle = open_handle(comm)
    free_dropped()
    return made_whole(undo = close) do
        made = Ref{Ptr{Cvoid}}(C_NULL)
        status = @waits libsk.sk_comm_shrink(
            handle::Ptr{Cvoid}, limit::Int64, made::Ptr{Ptr{Cvoid}}
        )::Int32
        status == 0 || throw(last_error(status))
        return object_of(made[], comm.waiting)
    end
end

"""
    abort(comm, reason = "")

Ends every rank's current and later calls with an [`SKError`](@ref) with `code` 21, which names this
rank. Any thread may call it.
"""
function abort(comm::Comm, reason = "")
    text = c_text(reason, "reason")
    check(ccall((:sk_comm_abort, libsk), Int32, (Ptr{Cvoid}, Cstring), open_handle(comm), text))
end

"""
    close(comm)

Leaves the communicator and gives back its memory; its [`SymmetricArray`](@ref)s are gone. Not
collective: peers that still wait for this rank end with `code` 20. Twice is once. A communicator
that is only dropped is closed at some time later: close it, or use `Comm(f)`.

Errors: `SKError` with `code` 14 inside a call, 30 where other threads' calls have not ended within
the timeout; it is as it was then.
"""
function Base.close(comm::Comm)
    comm.handle == C_NULL && return nothing
    check(@waits libsk.sk_comm_free(comm.handle::Ptr{Cvoid})::Int32)
    lock(context_lock) do
        comm.waiting.handles = filter(!=(comm.handle), comm.waiting.handles)
        isempty(comm.waiting.handles) && delete!(waitings, comm.waiting)
    end
    comm.handle = C_NULL
    foreach(forget!, comm.arrays)
    empty!(comm.arrays)
    return nothing
end

Base.isopen(comm::Comm) = comm.handle != C_NULL

function Base.show(io::IO, comm::Comm)
    closed = isopen(comm) ? "" : ", closed"
    print(io, "Comm(rank ", comm.rank, " of ", comm.world_size, closed, ")")
end

function SymmetricArray{T}(comm::Comm, dims::Integer...) where {T}
    isbitstype(T) || invalid("T is $T; elements of symmetric memory must be plain bits")
    all(>(0), dims) && !isempty(dims) ||
        invalid("dims is $(shown(dims)); symmetric memory needs at least one element")
    bytes = foldl(Base.checked_mul, dims; init = sizeof(T))
    at = Ref{Ptr{Cvoid}}(C_NULL)
    handle = open_handle(comm)
    status = @waits libsk.sk_alloc(
        handle::Ptr{Cvoid}, bytes::UInt64, at::Ptr{Ptr{Cvoid}}
    )::Int32
    status == 0 || failed(comm, status)
    array = SymmetricArray{T,length(dims)}(Ptr{T}(at[]), Int.(dims), comm)
    push!(comm.arrays, array)
    return array
end

SymmetricArray{T}(comm::Comm, dims::Tuple) where {T} = SymmetricArray{T}(comm, dims...)

"""
    free!(x::SymmetricArray)

Gives its memory back, collectively: every rank gives the same array. It is empty then.
"""
function free!(x::SymmetricArray)
    is_gone(x) && gone()
    comm = x.comm::Comm
    any(each -> each === x, comm.arrays) ||
        invalid("this SymmetricArray looks into another's memory; free that one")
    handle = open_handle(comm)
    status = @waits libsk.sk_free(handle::Ptr{Cvoid}, x.pointer::Ptr{Cvoid})::Int32
    status == 0 || failed(comm, status)
    filter!(each -> each !== x, comm.arrays)
    forget!(x)
    return nothing
end

# In a notebook, throws InterruptException where it is that which has aborted a call.
const tell_interrupt = Ref{Any}(nothing)
tells_interrupts() = tell_interrupt[] !== nothing

"""What a call of a communicator ended with, where that was not well."""
@noinline function failed(comm::Comm, status::Int32)
    failure = last_error(status)
    if comm.waiting.is_interrupted
        comm.waiting.is_interrupted = false  # Later calls say what has become of the communicator.
        throw(InterruptException())
    end
    status == ABORTED && tells_interrupts() && Base.invokelatest(tell_interrupt[])
    throw(failure)
end

"""Seconds, as the library takes them; `nothing` is the communicator's own timeout."""
milliseconds(::Nothing, name = "timeout") = Int64(0)
function milliseconds(seconds, name = "timeout")
    if !(seconds isa Real) || seconds isa Bool || !(0 < seconds <= 2.0^40 / 1000)
        invalid("$name is $(shown(seconds)); it must be seconds, more than 0, or nothing")
    end
    return ceil(Int64, seconds * 1000)
end

"""An integer within bounds, for C."""
function whole(x, name, least, most)
    if !(x isa Integer) || x isa Bool || !(least <= x <= most)
        invalid("$name is $(shown(x)); it must be an integer, $least to $most")
    end
    return Int64(x)
end
