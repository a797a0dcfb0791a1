# Topologies: cores, memory, GPUs and network adapters of the machines.

"""
    Topo()
    Topo(text)
    Topo(spec = "hosts:2 numa:2 cores:8 gpus:4 nics:2")

What one or more machines look like: this one; one of a text, as `string(topo)` is, hwloc's XML or
NCCL's; one by its numbers, per host. Immutable. Properties: `hosts`, `sockets`,
`numa_nodes`, `cores`, `threads` (of hardware), `gpus`, `nics`, `memory_bytes`. `string(topo)` is
the graph.

Errors: [`SKError`](@ref) with `code` 10 for a text that is none, with line and column.
"""
mutable struct Topo
    handle::Ptr{Cvoid}
    info::TopoInfo
end

function Topo(text = nothing; spec = nothing)
    text === nothing || spec === nothing || invalid("give a text or spec, not both")
    made = Ref{Ptr{Cvoid}}(C_NULL)
    free_dropped()
    if spec !== nothing
        said = c_text(spec, "spec")
        check(ccall((:sk_topo_synthetic, libsk), Int32, (Cstring, Ptr{Ptr{Cvoid}}), said, made))
    elseif text !== nothing
        text isa AbstractString || invalid("text is $(shown(text)); it must be a topology's text")
        bytes = String(text)
        check(@ccall libsk.sk_topo_parse(
            bytes::Ptr{UInt8}, sizeof(bytes)::Csize_t, made::Ptr{Ptr{Cvoid}}
        )::Int32)
    else
        check(ccall((:sk_topo_discover, libsk), Int32, (Ptr{Ptr{Cvoid}},), made))
    end
    found = blank(TopoInfo)
    topo = finalizer(drop, Topo(made[], found[]))
    check(ccall((:sk_topo_summary, libsk), Int32, (Ptr{Cvoid}, Ptr{TopoInfo}), made[], found))
    setfield!(topo, :info, found[])
    return topo
end

drop(topo::Topo) = free_later(topo_free[], getfield(topo, :handle))

const COUNTS = (:hosts, :sockets, :numa_nodes, :cores, :threads, :gpus, :nics, :memory_bytes)

Base.propertynames(::Topo) = COUNTS
function Base.getproperty(topo::Topo, name::Symbol)
    name in COUNTS || throw(ArgumentError("a Topo has no $name; it has $(join(COUNTS, ", "))"))
    return Int(getfield(getfield(topo, :info), name))
end

function Base.string(topo::Topo)
    handle = getfield(topo, :handle)
    return GC.@preserve topo text_of() do buffer, capacity, size
        @ccall libsk.sk_topo_dump(
            handle::Ptr{Cvoid}, buffer::Ptr{UInt8}, capacity::Csize_t, size::Ptr{Csize_t}
        )::Int32
    end
end

Base.print(io::IO, topo::Topo) = print(io, string(topo))

function Base.show(io::IO, topo::Topo)
    print(io, "Topo(", topo.hosts, " host(s), ", topo.cores, " cores, ", topo.gpus, " GPUs)")
end
