# `comm`, the communicator of all ranks: LibSK's, made when a cell first names it, and made anew
# when ranks were lost and revived or a call has ended it.
#
# Making one waits for all ranks, which is why it is not made before anybody wants it. A cell need not
# run on all ranks, and one that does begins late on some. So ranks meet in rounds: who wants `comm` asks
# the controller for a new epoch, of which all ranks hear, and each tries to meet the others under its
# name, before its cell's code or between two cells. A round in which not all have met is over for
# all, and the next one lasts longer.

const LIBSK_ID = Base.PkgId(Base.UUID("27efce37-706b-4e18-a6e4-9a8e61c6b267"), "LibSK")

# How long to wait for the controller's word of the next epoch; it answers at once.
const REGROUP_MS = 2000
# SK_AFTER_CELL. A slower rank has not begun the cell yet: it finds `comm` as the others did, instead of
# waiting in the cell for those who have ended it.
const AFTER_CELL = -1
# The first round, and the longest; all of them, before a cell.
const ROUND_MS, ROUND_MAX_MS = 2000, 32_000
const MEETING_MS = 300_000

mutable struct Connection
    comm::Any
    given::Any           # What was put into Main last; anything else there is the user's.
    epoch::UInt64        # Of the last round,
    first_epoch::UInt64  # and the one in which this rank came: nobody has asked for that yet.
    round_ms::Int
    bell::Cint           # Can be read when the round is over.
    ports::Tuple{Int32,Int32}
end

const connection = Connection(nothing, nothing, 0, 0, ROUND_MS, -1, (0, 0))

"""Makes LibSK known to `using`, behind all that the user has: beside this module when installed, in a
checkout above it. Of an image it is part already, without the library."""
function add_package(library)
    ENV["SK_LIBRARY"] = library  # One libsk in this process: it ends the waits of an interrupted cell.
    haskey(Base.loaded_modules, LIBSK_ID) && Base.invokelatest(Base.root_module(LIBSK_ID).start)
    for folder in (joinpath(FOLDER, "..", "LibSK"), joinpath(FOLDER, "..", ".."))
        isfile(joinpath(folder, "src", "LibSK.jl")) || continue
        push!(LOAD_PATH, normpath(folder))
        return
    end
end

"""Before a cell's code: `comm` for all that the code does, if it names it."""
function connect_if_named(ex)
    group = worker_group()
    tell_ports(group)
    (mentions(ex, :comm) && !is_users()) || return
    until_ns = time_ns() + 10^6 * MEETING_MS
    while group.missing_count == 0  # Else a call on the old one says who is not there.
        if connection.epoch == group.epoch && connection.comm !== nothing && !is_over()
            return give()
        end
        # Nobody knows yet that it is wanted; or this round is over.
        if group.epoch in (connection.epoch, connection.first_epoch)
            regroup(group.epoch, REGROUP_MS)
            group = worker_group()
        end
        failure = meet(group.epoch)
        is_cancelled() && throw(InterruptException())
        time_ns() < until_ns || throw(failure)
        group = worker_group()
    end
end

"""
Between cells: where other ranks want another `comm`, this one comes too. What fails here is told to the
next cell that names it.
"""
function connect_if_wanted()
    group = worker_group()
    if connection.first_epoch == 0
        is_revived = get(job_environment, "TORCHELASTIC_RESTART_COUNT", "0") != "0"
        connection.first_epoch = is_revived ? group.epoch : 1
    end
    group.missing_count == 0 || return
    group.epoch in (0, connection.epoch, connection.first_epoch) && return
    tell_ports(group)
    try
        meet(group.epoch; leaves = true)
    catch
    end
    return
end

"""
One round: `comm` is there after it, or its failure is the value. Where the rank `leaves` for a
request that comes it does not keep that waiting.
"""
function meet(epoch; leaves = false)
    drop_connection()
    connection.epoch = epoch
    bell = open_bell(connection.round_ms, leaves)
    connection.bell = bell[1]
    try
        # Whatever a cell has made of the environment: else a rank could be a world of its own, for
        # which the others wait.
        connection.comm = withenv(make_comm, job_environment...)
    catch failure
        is_of_libsk(typeof(failure)) || rethrow()
        connection.round_ms = min(2connection.round_ms, ROUND_MAX_MS)
        return failure
    finally
        foreach(fd -> ccall(:close, Cint, (Cint,), fd), bell)
    end
    connection.round_ms = ROUND_MS
    is_users() || give()
    return nothing
end

"""Whether `comm` in Main is the user's own; `nothing` is what `%reset` leaves."""
function is_users()
    isdefined(Main, :comm) || return false
    there = getfield(Main, :comm)
    return !(there === nothing || there === connection.given)
end

function give()
    connection.given = connection.comm
    ccall(:jl_set_global, Cvoid, (Any, Any, Any), Main, :comm, connection.comm)
    return
end

"""Of this epoch; a function of a name, so that an image has it compiled."""
function make_comm()
    # Loaded in its place in the order of things, and compiled without a word about it; whole, for what an
    # interrupt leaves of a package cannot be used.
    library = Base.disable_sigint() do
        Logging.with_logger(() -> Base.require(LIBSK_ID), Logging.NullLogger())
    end
    return Base.invokelatest(library.meet, "notebook-$(connection.epoch)", connection.bell)
end

"""
Descriptors whose first can be read after this time, or when there is a request.
"""
function open_bell(timeout_ms, hears_requests)
    all = fresh_descriptor(ccall(:epoll_create1, Cint, (Cint,), O_CLOEXEC))
    clock = fresh_descriptor(ccall(:timerfd_create, Cint, (Cint, Cint), CLOCK_MONOTONIC, O_CLOEXEC))
    # struct itimerspec: no interval, then seconds and nanoseconds.
    time = Int64[0, 0, timeout_ms ÷ 1000, timeout_ms % 1000 * 10^6]
    ccall(:timerfd_settime, Cint, (Cint, Cint, Ptr{Int64}, Ptr{Cvoid}), clock, 0, time, C_NULL)
    # struct epoll_event: what to hear of, then data that nobody looks at; 12 or 16 bytes.
    event = UInt32[EPOLLIN, 0, 0, 0]
    for fd in (clock, worker.requests)
        fd == clock || hears_requests || continue
        ccall(:epoll_ctl, Cint, (Cint, Cint, Cint, Ptr{UInt32}), all, EPOLL_CTL_ADD, fd, event)
    end
    return Cint[all, clock]
end

"""What was just opened, under a number that is none of 0 to 2: a bell that is descriptor 0 would be none
for libsk, and a rank that waits for it deaf to its cells."""
function fresh_descriptor(opened::Cint)
    opened > STDERR && return opened
    opened < 0 && throw(SystemError("superkernel: no descriptor for a clock"))
    moved = above_stdio(opened)
    ccall(:close, Cint, (Cint,), opened)
    moved < 0 && throw(SystemError("superkernel: no descriptor for a clock"))
    return moved
end

const CLOCK_MONOTONIC, O_CLOEXEC, EPOLLIN, EPOLL_CTL_ADD = 1, 0o2000000, 1, 1

"""At a cell's end: where `comm` is over, all ranks begin a new epoch, before another cell comes."""
ask_for_another() = connection.epoch != 0 && (connection.comm === nothing || is_over()) &&
    regroup(connection.epoch, AFTER_CELL)

# LibSK's methods are newer than this loop, hence `invokelatest`.
is_over() = !Base.invokelatest(isopen, connection.comm) ||
    Base.invokelatest(Base.root_module(LIBSK_ID).info, connection.comm).over != 0

function regroup(epoch, wait_ms)
    @sk sk_worker_regroup(worker.handle::Ptr{Cvoid}, epoch::UInt64, wait_ms::Int64)
end

function drop_connection()
    connection.comm === nothing && return
    try
        Base.invokelatest(close, connection.comm)
    catch  # A thread of the user's is inside a call; then it goes with the last of them.
    end
    connection.comm = nothing
end

function worker_group()
    group = Ref(blank(RawGroup))
    check(@sk sk_worker_group(worker.handle::Ptr{Cvoid}, group::Ref{RawGroup}))
    return group[]
end

"""Where servers of other libraries are to listen: new ports where ranks were revived. A cell may have
chosen others; those hold until then."""
function tell_ports(group)
    ports = (group.master_port, group.coordinator_port)
    (ports == connection.ports || group.master_port == 0) && return
    connection.ports = ports
    ENV["MASTER_PORT"] = string(ports[1])
    ENV["JAX_COORDINATOR_ADDRESS"] = string(get(ENV, "MASTER_ADDR", "127.0.0.1"), ":", ports[2])
end

"""Whether the code has this name, not only as a field's."""
mentions(@nospecialize(ex), name) =
    ex === name || (ex isa Expr && any(each -> mentions(each, name), ex.args))
