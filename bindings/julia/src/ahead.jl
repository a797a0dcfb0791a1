# What the first calls of a session need, compiled ahead: for the arrays that most have.
# The native code of it is kept in a system image, and from Julia 1.9 on in the cache of packages.

const COMMON_ELEMENTS = (Float32, Float64, Int64)
const COMMON_JOINS = (typeof(+), typeof(max), typeof(min), Symbol)

"""Functions and their types of arguments, as precompile() takes them."""
function common_calls()
    calls = Tuple{Any,Tuple}[]
    plain(f, types...) = push!(calls, (f, types))
    # How a call with keywords is compiled: their names and types come first.
    with(f, names, kinds, types...) =
        push!(calls, (Core.kwfunc(f), (NamedTuple{names,Tuple{kinds...}}, Core.Typeof(f), types...)))
    with(Comm, (:name,), (String,))
    plain(Comm)
    plain(meet, String, Cint)
    plain(close, Comm)
    plain(info, Comm)
    plain(barrier, Comm)
    plain(isopen, Comm)
    plain(drop, Comm)
    plain(showerror, IOContext{IOBuffer}, SKError)
    plain(show, IOContext{IOBuffer}, Comm)
    for T in COMMON_ELEMENTS
        plain(allreduce, Comm, T)
        plain(allgather, Comm, T)
    end
    for T in COMMON_ELEMENTS, dims in 1:2
        x = Array{T,dims}
        plain(allreduce, Comm, x)
        plain(allreduce!, Comm, x)
        plain(allreduce!, Comm, x, x)
        plain(allgather, Comm, x)
        plain(reduce_scatter, Comm, x)
        with(broadcast!, (:root,), (Int,), Comm, x)
        for op in COMMON_JOINS
            with(allreduce, (:op,), (op,), Comm, x)
            with(allreduce!, (:op,), (op,), Comm, x)
        end
        # Whatever function `op` is, Julia compiles what follows once.
        types = (Function, Nothing, typeof(allreduce!), Comm, x, x)
        foreach(body -> plain(body, types...), bodies(:allreduce!, types))
    end
    plain(AllreduceArgs, Int, Int, Ptr{Tensor}, Ptr{Tensor}, Int32)
    for T in (Float32, Float64)
        plain(allreduce_gemm, Comm, Matrix{T}, Matrix{T})
        plain(allgather_gemm, Comm, Matrix{T}, Matrix{T})
        plain(pack, Comm, Matrix{T})
    end
    return calls
end

"""The function in which Julia has put what another one with keywords does, under a name of its own."""
function bodies(name, types)
    found = [getfield(@__MODULE__, each) for each in names(@__MODULE__, all = true)
             if startswith(string(each), "#$name#")]
    return filter(each -> each isa Function && hasmethod(each, Tuple{types...}), found)
end

"""The calls that there are no methods for; none, if all is well."""
compile_ahead() = [call for call in common_calls() if !precompile(call...)]
