# Collectives against Base: every type, random sizes, poisoned outputs, in place, symmetric memory.
include("common.jl")

const JOINED = ((+, +), (*, *), (min, min), (max, max), (:sum, +), ("max", max))

# What sums are kept in; each is rounded once.
wide(T) = T in (Float16, BFloat16) ? Float32 : T

"""In rank order, element by element."""
function joined(op, @nospecialize(parts), finish = identity)
    T = eltype(parts[1])
    result = similar(parts[1])
    for i in 1:length(result)
        value = wide(T)(parts[1][i])
        for part in parts[2:end]
            value = op(value, wide(T)(part[i]))
        end
        result[i] = T(finish(value))
    end
    return result
end

average(@nospecialize(parts)) = joined(+, parts, sum -> sum / oftype(sum, length(parts)))

"""What lies in memory: of the parts one behind the other."""
in_order(@nospecialize(parts)) = reduce(vcat, Any[vec(collect(part)) for part in parts])

@testset "collectives" begin
    Comm() do comm
        world, me = comm.world_size, comm.rank + 1
        for round in 1:ROUNDS, T in TYPES
            dims = rand(SHARED, 1:3)
            size = odd_size(dims)
            xs = of_ranks((rng, _) -> draw(rng, T, size...), world)
            kept = copy(xs[me])
            for (op, f) in JOINED
                out = poisoned(T, size...)
                @test allreduce!(comm, out, xs[me]; op = op) === out
                @test same(out, joined(f, xs))
                @test same(xs[me], kept)
            end
            T <: AbstractFloat && @test same(allreduce(comm, xs[me]; op = :avg), average(xs))
            within = copy(xs[me])
            @test allreduce!(comm, within) === within
            @test same(within, joined(+, xs))

            gathered = allgather(comm, xs[me])
            @test Base.size(gathered) == (size..., world) && same(vec(gathered), in_order(xs))
            along = poisoned(T, size[1:end-1]..., size[end] * world)
            @test same(vec(allgather!(comm, along, xs[me])), in_order(xs))
            place = poisoned(T, size..., world)  # In place: the own part of the result.
            own = reshape(view(vec(place), (me-1)*length(xs[me])+1:me*length(xs[me])), size)
            copyto!(own, xs[me])
            @test same(vec(allgather!(comm, place, own)), in_order(xs))

            wides = of_ranks((rng, _) -> draw(rng, T, size[1:end-1]..., size[end] * world), world)
            part = reduce_scatter(comm, wides[me])
            total = vec(joined(+, wides))
            @test Base.size(part) == size
            @test same(vec(part), total[(me-1)*length(part)+1:me*length(part)])

            root = rand(SHARED, 0:world-1)
            @test same(broadcast(comm, xs[me]; root = root), xs[root+1])
            mine = copy(xs[me])
            @test same(broadcast!(comm, mine; root = root), xs[root+1])

            total = joined(+, xs)
            reduced = reduce(comm, xs[me]; op = +, root = root)
            @test root == comm.rank ? same(reduced, total) : reduced === nothing
            held = root == comm.rank ? poisoned(T, size...) : nothing
            @test reduce!(comm, held, xs[me]; op = +, root = root) === held
            @test held === nothing || same(held, total)
            all = gather(comm, xs[me]; root = root)
            @test root == comm.rank ? same(vec(all), in_order(xs)) : all === nothing
            # What was gathered is dealt out again, one part behind the other.
            dealt = root == comm.rank ? reshape(vec(all), :) : nothing
            mine = poisoned(T, length(xs[me]))
            @test scatter!(comm, mine, dealt; root = root) === mine
            @test same(mine, vec(xs[me]))
            count = length(xs[me])
            turned = alltoall(comm, vec(wides[me]))
            @test same(turned, in_order([vec(w)[(me-1)*count+1:me*count] for w in wides]))

            # Peers read and write this where it lies.
            shared = SymmetricArray{T}(comm, size...)
            copyto!(shared, xs[me])
            @test same(allreduce!(comm, shared), joined(+, xs))
            free!(shared)
        end
        barrier(comm)
    end
end

@testset "as Base has it" begin
    Comm(name = "base") do comm
        world, me = comm.world_size, comm.rank + 1
        xs = of_ranks((rng, _) -> randn(rng, 3, 5), world)
        @test allgather(comm, xs[me]) == cat(xs...; dims = 3)
        @test allgather!(comm, zeros(3, 5 * world), xs[me]) == hcat(xs...)
        wides = of_ranks((rng, _) -> rand(rng, -9:9, 3, 5 * world), world)
        @test reduce_scatter(comm, wides[me]) == sum(wides)[:, 5*(me-1)+1:5*me]
        @test allreduce(comm, wides[me]; op = max) == max.(wides...)
    end
end

@testset "send and receive" begin
    Comm(name = "pairs") do comm
        for T in TYPES, giver in 0:comm.world_size-1, taker in 0:comm.world_size-1
            giver == taker && continue
            size = odd_size(2)
            xs = of_ranks((rng, _) -> draw(rng, T, size...), comm.world_size)
            if comm.rank == giver
                @test send(comm, xs[giver+1], taker) === nothing
            elseif comm.rank == taker
                out = poisoned(T, size...)
                @test same(recv!(comm, out, giver), xs[giver+1])
            end
        end
        last = comm.world_size - 1
        if last > 0 && comm.rank == 0
            send(comm, [1.5 2.5], last)
        elseif last > 0 && comm.rank == last
            @test recv(comm, Float64, (1, 2), 0) == [1.5 2.5]
        end
    end
end

@testset "numbers" begin
    Comm(name = "numbers") do comm
        world, me = comm.world_size, comm.rank + 1
        for T in TYPES
            xs = of_ranks((rng, _) -> draw(rng, T, 1), world)
            for (op, f) in JOINED
                total = allreduce(comm, xs[me][1]; op = op)
                @test total isa T && same([total], joined(f, xs))
            end
            gathered = allgather(comm, xs[me][1])
            @test gathered isa Vector{T} && same(gathered, in_order(xs))
            root = rand(SHARED, 0:world-1)
            @test same([broadcast(comm, xs[me][1]; root = root)], xs[root+1])
        end
        @test allreduce(comm, me == 1 ? 0.5 : 0.0; op = max, timeout = 60) === 0.5
    end
end

@testset "empty arrays" begin
    Comm(name = "empty") do comm
        @test allreduce(comm, zeros(Float32, 0)) == Float32[]
        @test size(allreduce(comm, zeros(0, 3))) == (0, 3)
        @test size(allgather(comm, zeros(Int32, 0, 2))) == (0, 2, comm.world_size)
    end
end
