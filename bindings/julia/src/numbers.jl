# One number of each rank, where operations take arrays: counts, losses, times.

"""
    allreduce(comm, x::Number; op = :sum, timeout)

The numbers of all ranks joined, of the type of `x`, on every rank.
"""
allreduce(comm::Comm, x::Number; keywords...) = allreduce!(comm, fill(x); keywords...)[]

"""
    allgather(comm, x::Number; timeout)

The numbers of all ranks as a vector, that of rank `r` at index `r + 1`.
"""
allgather(comm::Comm, x::Number; keywords...) =
    allgather!(comm, Vector{typeof(x)}(undef, comm.world_size), fill(x); keywords...)

"""
    broadcast(comm, x::Number; root = 0, timeout)

The number of rank `root`, on every rank.
"""
Base.broadcast(comm::Comm, x::Number; keywords...) = broadcast!(comm, fill(x); keywords...)[]
