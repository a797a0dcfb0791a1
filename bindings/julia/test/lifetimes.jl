# The ends of things: closed, freed, dropped, and used afterwards.
include("common.jl")

code_of(call) = (error = thrown(call); error isa SKError ? error.code : error)

@testset "closed communicators" begin
    comm = Comm()
    shared = SymmetricArray{Float64}(comm, 2, 3)
    @test size(shared) == (2, 3) && shared == zeros(2, 3)
    shared .= 5
    shared[2, 3] = 7
    look = view(shared, :, 3)
    @test look == [5, 7] && sum(shared) == 32 && shared * ones(3) == [15, 17]
    @test isopen(comm)
    @test close(comm) === nothing
    @test close(comm) === nothing
    @test !isopen(comm) && occursin("closed", repr(comm))
    @test isempty(shared)
    for use in (() -> shared[1], () -> look[1], () -> sum(look), () -> pointer(shared),
        () -> (shared[1] = 1), () -> look .+ 1)
        @test code_of(use) == 13
    end
    for use in (() -> allreduce(comm, [1.0]), () -> barrier(comm), () -> info(comm), () -> abort(comm), () -> shrink(comm),
        () -> pack(comm, ones(2, 2)), () -> SymmetricArray{Int64}(comm, 3), () -> free!(shared),
        () -> trace(() -> nothing, comm))
        @test code_of(use) == 13
    end
    @test occursin("closed", thrown(() -> barrier(comm)).sentence)
end

@testset "communicators of a block" begin
    kept = Ref{Comm}()
    @test Comm(comm -> (kept[] = comm; comm.world_size)) == 1
    @test !isopen(kept[])
    @test thrown(() -> Comm(comm -> (kept[] = comm; error("mine")))) == ErrorException("mine")
    @test !isopen(kept[])
end

@testset "symmetric memory" begin
    Comm() do comm
        one, two = SymmetricArray{Int32}(comm, 4), SymmetricArray{Int32}(comm, (2, 2))
        @test info(comm).symmetric_bytes >= 32
        two .= 3
        free!(one)
        @test code_of(() -> free!(one)) == 13
        @test code_of(() -> one[1]) == 13
        @test occursin("freed", summary(one))
        @test allreduce!(comm, two) == fill(3, 2, 2)
        @test copy(two) isa Array && similar(two) isa Array
        @test code_of(() -> SymmetricArray{Int32}(comm, 0)) == 10
        @test code_of(() -> SymmetricArray{Int32}(comm)) == 10
        @test code_of(() -> SymmetricArray{String}(comm, 3)) == 10
    end
end

@testset "configurations" begin
    @refused Comm(timeout = 0) "timeout is 0"
    @refused Comm(workers = -1) "workers is -1"
    @refused Comm(workers = 1.5) "workers is 1.5"
    @refused Comm(name = 3) "name is 3" "text"
    @refused Comm(name = "a\0b") "name has a NUL"
    @refused Comm(put_only = 1) "put_only is 1"
    @refused Comm(symmetric_bytes_max = -1) "symmetric_bytes_max is -1"
    Comm(comm -> (@test info(comm).workers == 1), workers = 1, timeout = 2.5)
    Comm(comm -> (@test allreduce(comm, [2.0]) == [2.0]), put_only = true)
end

# What is dropped is freed by the next creation, never by a finalizer: it may come at any time,
# between a call that fails and its sentence too.
@testset "dropped" begin
    waiting_for_end() = LibSK.dropped[] != 0
    drop_some() = (comm = Comm(); foreach(_ -> pack(comm, ones(3, 3)), 1:3); Topo(spec = "cores:2"); nothing)
    drop_some()
    GC.gc()
    @test waiting_for_end()
    Topo(spec = "cores:4")
    @test !waiting_for_end()
    Comm() do comm
        for i in 1:300
            pack(comm, ones(i % 7 + 1, 3))
            i % 50 == 0 && GC.gc()
            error = thrown(() -> rmsnorm([1.0]; eps = -i))
            @test error.code == 10 && occursin("eps", error.sentence) && occursin("-$i", error.sentence)
        end
    end
end

@testset "a program that closes nothing ends well" begin
    program = """
        using LibSK
        comm = Comm()
        x = SymmetricArray{Float32}(comm, 100)
        w = pack(comm, ones(3, 3))
        allreduce!(comm, x)
        rmsnorm(x)
        """
    @test success(pipeline(`$(Base.julia_cmd()) --startup-file=no -O0 -e $program`; stderr = stderr))
end
