# Calls kept ready: each run takes what the arrays hold by then.
include("common.jl")

@testset "calls kept ready" begin
    Comm() do comm
        world, me = comm.world_size, comm.rank + 1
        x, out = zeros(3, 4), zeros(3, 4)
        step = prepare(allreduce!, comm, out, x; op = max)
        made = prepare(allgather, comm, x)
        product = prepare(allreduce_gemm!, comm, zeros(2, 4), pack(comm, ones(2, 3)), x)
        turned = prepare(allgather_gemm, comm, transpose(ones(3, 2)), x)
        meet = prepare(barrier, comm)
        for round in 1:3
            xs = of_ranks((rng, _) -> randn(rng, 3, 4), world)
            x .= xs[me]
            fill!(out, NaN)
            @test run(step) === out
            @test out == max.(xs...)
            @test run(made) == cat(xs...; dims = 3) && run(made) === run(made)
            @test run(product) ≈ ones(2, 3) * sum(xs)
            @test run(turned; timeout = 20) ≈ ones(2, 3) * hcat(xs...)
            @test run(meet) === nothing
        end
        other = prepare(broadcast!, comm, x; root = world - 1)
        x .= comm.rank
        @test run(other) === x && all(==(world - 1), x)

        @refused prepare(allreduce!, comm, zeros(2), x) "out is 2 long"
        @refused prepare(allreduce!, comm, x; timeout = 3) "timeout belongs to run()"
        @refused prepare(sum, comm, x) "operation is sum"
        @refused prepare(rmsnorm, comm, x) "rmsnorm" "communicator"
        @refused prepare(pack, comm, x) "pack"
        @refused prepare(7, comm, x) "operation is 7"
        @refused run(step; timeout = -1) "timeout is -1"

        grown = [1.0]
        growing = prepare(allreduce!, comm, grown)
        append!(grown, zeros(10_000))
        @refused run(growing) "grown"
        shared = SymmetricArray{Float64}(comm, 3)
        of_shared = prepare(allreduce!, comm, shared)
        shared .= 1
        @test run(of_shared) == fill(Float64(world), 3)
        free!(shared)
        @test thrown(() -> run(of_shared)).code == 13

        @test isopen(step) && close(step) === nothing && close(step) === nothing
        @test thrown(() -> run(step)).code == 13
        close(comm)
        @test thrown(() -> run(made)).code == 13
        close(made)
    end
end
