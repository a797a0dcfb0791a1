"""
    LibSK

Collectives, products fused with them and local operations over any number of ranks, on Julia's
arrays where they lie. [`Comm`](@ref) connects the ranks; `sk run -n 4 julia this.jl` starts them.
"""
module LibSK

using FileWatching: FileWatching
using Libdl
using LinearAlgebra: Adjoint, Transpose

export BFloat16, Cell, CellError, CellEvent, CellResult, Comm, Packed, SKError, Session, SymmetricArray, Topo
export abort, attach, cell_log, free!, gather_trace, info, pack, prepare, revive, shrink, trace

include("library.jl")
include("errors.jl")
include("bfloat16.jl")
include("abi.jl")
include("released.jl")
include("symmetric.jl")
include("interrupts.jl")
include("arrays.jl")
include("comm.jl")
include("calls.jl")
include("products.jl")
include("collectives.jl")
include("numbers.jl")
include("local.jl")
include("prepared.jl")
include("topo.jl")
include("trace.jl")
include("session_abi.jl")
include("json.jl")
include("cells.jl")
include("session_events.jl")
include("session.jl")
include("session_cells.jl")
include("session_questions.jl")
include("ahead.jl")

# Addresses, which are another process's when this package is precompiled.
const look_around_pointer = Ref{Ptr{Cvoid}}(C_NULL)
const comm_free = Ref{Ptr{Cvoid}}(C_NULL)
const packed_free = Ref{Ptr{Cvoid}}(C_NULL)
const topo_free = Ref{Ptr{Cvoid}}(C_NULL)
const op_free = Ref{Ptr{Cvoid}}(C_NULL)
const session_close = Ref{Ptr{Cvoid}}(C_NULL)
const session_leave = Ref{Ptr{Cvoid}}(C_NULL)

# An image of Julia with this package in it starts processes that do not know the library yet: there
# it is false, and the process calls start() once it does.
const starts_itself = Ref(true)

__init__() = starts_itself[] ? start() : nothing

"""Loads the library."""
function start()
    library = load_library()
    look_around_pointer[] = @cfunction(look_around, Cvoid, (Ptr{Cvoid},))
    comm_free[] = Libdl.dlsym(library, :sk_comm_free)
    packed_free[] = Libdl.dlsym(library, :sk_packed_free)
    topo_free[] = Libdl.dlsym(library, :sk_topo_free)
    op_free[] = Libdl.dlsym(library, :sk_op_free)
    session_close[] = Libdl.dlsym(library, :sk_session_close)
    session_leave[] = Libdl.dlsym(library, :sk_session_leave)
    return nothing
end

# Before, the cache holds nothing that is quicker to load than to infer.
VERSION >= v"1.9" && compile_ahead()

end
