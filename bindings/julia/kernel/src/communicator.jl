# `comm`, the communicator of all ranks: LibSK's, made when a cell first names it, and made anew
# when ranks were lost and revived or a call has ended it.
#
# Making one waits for all ranks, which is why it is not made before anybody wants it. A cell need not
# run on all ranks, and one that does begins late on some. So ranks meet in rounds: who wants `comm` asks
# the controller for a new epoch, of which all ranks hear, and each tries to meet the others under its
# name, before its cell's code or between two cells. A rank that leaves a round, for a request, comes
# again; whoever has waited in vain for all of a round's time asks for another, which lasts longer.
#
# An epoch that nobody waits for is met by nobody: ranks that came together between cells would leave one
# another for the next cell, each at its own time.

const LIBSK_ID = Base.PkgId(Base.UUID("27efce37-706b-4e18-a6e4-9a8e61c6b267"), "LibSK")

# How long to wait for the controller's word of the next epoch; it answers at once.
const REGROUP_MS = 2000
# SK_AFTER_CELL. A slower rank has not begun the cell yet: it finds `comm` as the others did, instead of
# waiting in the cell for those who have ended it.
const AFTER_CELL = -1
# The first round, and the longest; all of them, before a cell.
const ROUND_MS, ROUND_MAX_MS = 2000, 32_000
const MEETING_MS = 300_000
# Before a cell that does not name it: functions of earlier cells may use it, and most cells do not.
const UNNAMED_MS = 1000
# Who is left alone in a round comes again, but keeps no core busy with it.
const AGAIN_S = 0.002

mutable struct Connection
    comm::Any
    given::Any       # What was put into Main last; anything else there is the user's.
    epoch::UInt64    # Of the last round.
    until_ns::UInt64 # That round's end.
    round_ms::Int
    is_hopeless::Bool  # A cell that does not name it has waited in vain: the next such does not.
    bell::Cint       # Can be read when the round is over.
    ports::Tuple{Int32,Int32}
end

const connection = Connection(nothing, nothing, 0, 0, ROUND_MS, false, -1, (0, 0))

"""Makes LibSK known to `using`, behind all that the user has: beside this module when installed, in a
checkout above it. Of an image it is part already, without the library."""
function add_package(library)
    ENV["SK_LIBRARY"] = library  # One libsk in this process: it ends the waits of an interrupted cell.
    haskey(Base.loaded_modules, LIBSK_ID) && Base.invokelatest(of_library(:start))
    for folder in (joinpath(FOLDER, "..", "LibSK"), joinpath(FOLDER, "..", ".."))
        isfile(joinpath(folder, "src", "LibSK.jl")) || continue
        push!(LOAD_PATH, normpath(folder))
        return
    end
end

"""Before a cell's code: `comm` for all that the code does, if it names it, or any cell did."""
function connect_before(ex)
    group = worker_group()
    tell_ports(group)
    is_users() && return
    mentions(ex, :comm) && return connect(group, MEETING_MS)
    was_wanted = connection.epoch != 0 || group.wanted != 0
    (was_wanted && !connection.is_hopeless) || return
    connection.is_hopeless = connect(group, UNNAMED_MS; throws = false) !== nothing
    return
end

"""`comm` is there after it, or its failure is thrown, or the value."""
function connect(group, wait_ms; throws = true)
    until_ns = time_ns() + 10^6 * wait_ms
    while group.missing_count == 0  # Else a call on the old one says who is not there.
        if connection.epoch == group.epoch && connection.comm !== nothing && !is_over()
            give()
            return nothing
        end
        # Nobody knows yet that it is wanted; or this round is over.
        if group.wanted == 0 || (connection.epoch == group.epoch && !is_round_open())
            regroup(group.epoch, min(REGROUP_MS, wait_ms))
            group = worker_group()
        end
        failure = group.wanted == 0 ? NO_EPOCH : meet(group.epoch, until_ns)
        is_cancelled() && throw(InterruptException())
        if time_ns() >= until_ns && failure !== nothing
            throws && throw(failure)
            return failure
        end
        group = worker_group()
    end
    return nothing
end

"""
Between cells: where other ranks want another `comm`, this one comes too. What fails here is told to the
next cell that names it.
"""
function connect_if_wanted()
    group = worker_group()
    (group.missing_count == 0 && group.wanted != 0) || return
    connection.epoch == group.epoch && (connection.comm !== nothing || !is_round_open()) && return
    tell_ports(group)
    try
        while meet(group.epoch, typemax(UInt64); leaves = true) !== nothing
            # A request comes first; this round is met again after it.
            (is_round_open() && !has_request()) || break
        end
    catch
    end
    return
end

of_library(name) = of_module(Base.root_module(LIBSK_ID), name)

const NO_EPOCH = ErrorException("the ranks do not meet: another epoch begins")

"""Whether a request, or another epoch, is there."""
has_request() = ccall(:poll, Cint, (Ptr{Int32}, Culong, Cint), Int32[worker.requests, POLLIN], 1, 0) > 0

"""Whether the last round has time left; one in which `comm` was made has none."""
is_round_open() = time_ns() < connection.until_ns

"""
Meets the others in this epoch's round, until that or the time ends: `comm` is there after it, or its
failure is the value. Where the rank `leaves` for a request that comes it does not keep that waiting; in
a cell it leaves for another epoch.
"""
function meet(epoch, until_ns; leaves = false)
    drop_connection()
    load_library()  # Which may take longer than a round.
    if connection.epoch != epoch
        connection.epoch = epoch
        connection.until_ns = time_ns() + 10^6 * connection.round_ms
    end
    bell = open_bell(min(until_ns, connection.until_ns), leaves)
    # What came before the bell was there does not ring it.
    if worker_group().epoch != epoch
        foreach(fd -> ccall(:close, Cint, (Cint,), fd), bell)
        return NO_EPOCH
    end
    connection.bell = bell[1]
    try
        # Whatever a cell has made of the environment: else a rank could be a world of its own, for
        # which the others wait.
        connection.comm = withenv(make_comm, job_environment...)
    catch failure
        is_of_libsk(typeof(failure)) || rethrow()
        if is_round_open()
            Libc.systemsleep(AGAIN_S)
        else
            connection.round_ms = min(2connection.round_ms, ROUND_MAX_MS)
        end
        return failure
    finally
        foreach(fd -> ccall(:close, Cint, (Cint,), fd), bell)
    end
    connection.round_ms = ROUND_MS
    connection.until_ns = 0
    connection.is_hopeless = false
    is_users() || give()
    return nothing
end

"""Whether `comm` in Main is the user's own; `nothing` is what `%reset` leaves."""
function is_users()
    is_in(Main, :comm) || return false
    there = of_module(Main, :comm)
    return !(there === nothing || there === connection.given)
end

function give()
    connection.given = connection.comm
    set_in_main(:comm, connection.comm)
    return
end

# Loaded in its place in the order of things, and compiled without a word about it; whole, for what an
# interrupt leaves of a package cannot be used.
load_library() = Base.disable_sigint() do
    library = Logging.with_logger(() -> Base.require(LIBSK_ID), Logging.NullLogger())
    of_module(library, :tell_interrupt)[] = tell_interrupt
    return library
end

"""Of this epoch; a function of a name, so that an image has it compiled."""
make_comm() = Base.invokelatest(of_module(load_library(), :meet), "notebook-$(connection.epoch)", connection.bell)

"""
Descriptors whose first can be read at this time, or when there is a request or another epoch: those that
were there already, too, where the rank `leaves` for them.
"""
function open_bell(until_ns, leaves)
    all = fresh_descriptor(ccall(:epoll_create1, Cint, (Cint,), O_CLOEXEC))
    clock = fresh_descriptor(ccall(:timerfd_create, Cint, (Cint, Cint), CLOCK_MONOTONIC, O_CLOEXEC))
    left_ns = max(1, Int64(until_ns) - Int64(time_ns()))  # 0 would be never.
    # struct itimerspec: no interval, then seconds and nanoseconds.
    time = Int64[0, 0, left_ns ÷ 10^9, left_ns % 10^9]
    ccall(:timerfd_settime, Cint, (Cint, Cint, Ptr{Int64}, Ptr{Cvoid}), clock, 0, time, C_NULL)
    # struct epoll_event: what to hear of, then data that nobody looks at; 12 or 16 bytes.
    hears(fd, kind) = ccall(:epoll_ctl, Cint, (Cint, Cint, Cint, Ptr{UInt32}), all, EPOLL_CTL_ADD, fd,
                            UInt32[kind, 0, 0, 0])
    hears(worker.requests, leaves ? EPOLLIN : EPOLLIN | EPOLLET)
    # By its edges alone: in a cell that descriptor can be read all the time.
    seen = zeros(UInt32, 4)
    leaves || ccall(:epoll_wait, Cint, (Cint, Ptr{UInt32}, Cint, Cint), all, seen, 1, 0)
    hears(clock, EPOLLIN)
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

const CLOCK_MONOTONIC, O_CLOEXEC, EPOLL_CTL_ADD = 1, 0o2000000, 1
const POLLIN = Int32(1)
const EPOLLIN, EPOLLET = UInt32(1), UInt32(1) << 31

"""At a cell's end: where `comm` is over, all ranks begin a new epoch, before another cell comes."""
ask_for_another() = connection.epoch != 0 && (connection.comm === nothing || is_over()) &&
    regroup(connection.epoch, AFTER_CELL)

# LibSK's methods are newer than this loop, hence `invokelatest`.
is_over() = !Base.invokelatest(isopen, connection.comm) ||
    Base.invokelatest(of_library(:info), connection.comm).over != 0

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

"""Whether the code has this name, also as a quoted one, which it may evaluate; not only as a field's."""
function mentions(@nospecialize(ex), name)
    (ex === name || (ex isa QuoteNode && ex.value === name)) && return true
    ex isa Expr || return false
    is_field = ex.head === :. && length(ex.args) == 2 && ex.args[2] isa QuoteNode && ex.args[1] !== :Main
    return any(each -> mentions(each, name), is_field ? ex.args[1:1] : ex.args)
end
