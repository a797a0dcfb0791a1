# `comm`, the communicator of all ranks: LibSK's, made when a cell first names it, and made anew
# when ranks were lost and revived or a call has ended it.
#
# Making one waits for all ranks, which is why it is not made before anybody wants it. All ranks of
# a cell read the same code, so they meet.

const LIBSK_ID = Base.PkgId(Base.UUID("27efce37-706b-4e18-a6e4-9a8e61c6b267"), "LibSK")

# How long to wait for all ranks' word that a communicator which is over has a successor.
const REGROUP_MS = 2000

mutable struct Connection
    comm::Any
    epoch::UInt64
    ports::Tuple{Int32,Int32}
end

const connection = Connection(nothing, 0, (0, 0))

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
    mentions(ex, :comm) || return
    # The user's own, by now or in this cell.
    isdefined(Main, :comm) && getfield(Main, :comm) !== connection.comm && return
    if connection.comm !== nothing && connection.epoch == group.epoch
        is_over() || return
        regroup(REGROUP_MS)
        group = worker_group()
    end
    group.missing_count == 0 || return  # A call on the old one says who is not there.
    drop_connection()
    # Whatever a cell has made of the environment: else a rank could be a world of its own, for which the
    # others wait.
    connection.epoch = group.epoch
    connection.comm = withenv(make_comm, job_environment...)
    ccall(:jl_set_global, Cvoid, (Any, Any, Any), Main, :comm, connection.comm)
    return
end

"""Of this epoch; a function of a name, so that an image has it compiled."""
function make_comm()
    # Loaded in its place in the order of things, and compiled without a word about it.
    library = Logging.with_logger(() -> Base.require(LIBSK_ID), Logging.NullLogger())
    return Base.invokelatest(library.Comm; name = "notebook-$(connection.epoch)")
end

"""At a cell's end: where `comm` is over, all ranks begin a new epoch, before another cell comes."""
ask_for_another() = connection.comm !== nothing && is_over() && regroup(0)

# LibSK's methods are newer than this loop, hence `invokelatest`.
is_over() = !Base.invokelatest(isopen, connection.comm) ||
    Base.invokelatest(Base.root_module(LIBSK_ID).info, connection.comm).over != 0

function regroup(wait_ms)
    @sk sk_worker_regroup(worker.handle::Ptr{Cvoid}, connection.epoch::UInt64, wait_ms::Int64)
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
