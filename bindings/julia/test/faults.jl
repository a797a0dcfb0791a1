# What goes wrong between three ranks: every rank gets the code, the sentence and the rank to blame.
include("common.jl")

"""Waits for what another rank does; a test never waits without an end."""
function await(condition)
    for _ in 1:600
        condition() && return true
        sleep(0.1)
    end
    return false
end

@testset "ranks that call different things" begin
    Comm(name = "desync") do comm
        wrong = () -> comm.rank == 1 ? allreduce(comm, ones(3)) : allreduce(comm, ones(4))
        error = thrown(wrong)
        @test error isa SKError && error.code == 16 && error.name == "SK_ERR_DESYNC"
        @test error.rank == 1 && occursin("rank 1", error.sentence)
        @test occursin("SK_ERR_DESYNC: ", sprint(showerror, error))
        @test allreduce(comm, ones(2)) == fill(3.0, 2)  # It lives on.
    end
end

@testset "products of other layouts" begin
    Comm(name = "layouts") do comm
        a = ones(4, 3)
        b = comm.rank == 2 ? transpose(ones(4, 5)) : ones(5, 4)
        @test thrown(() -> allreduce_gemm(comm, b, a)).code == 16
        @test allreduce_gemm(comm, ones(5, 4), a) == fill(12.0, 5, 3)
    end
end

@testset "an abort" begin
    comm = Comm(name = "abort")
    comm.rank == 2 && abort(comm, "enough")
    error = thrown(() -> barrier(comm))
    @test error.code == 21 && error.rank == 2 && occursin("enough", error.sentence)
    @test info(comm).over == 21
    close(comm)
end

@testset "a rank that leaves" begin
    comm = Comm(name = "leave")
    if comm.rank == 0
        close(comm)
    else
        error = thrown(() -> barrier(comm))
        @test error.code == 20 && error.rank == 0
        close(comm)
    end
end

@testset "those that are left go on" begin
    comm = Comm(name = "left")
    if comm.rank == 1
        close(comm)
    else
        left = shrink(comm; timeout = 60)
        close(comm)
        @test left.world_size == comm.world_size - 1
        @test left.rank == comm.rank - (comm.rank > 1)
        @test allreduce(left, [comm.rank]) == [sum(0:comm.world_size-1) - 1]
        again = shrink(left)
        @test again.rank == left.rank && isopen(left)
        barrier(left)
        close(left)
        barrier(again)
        close(again)
    end
end

@testset "a rank that does not come" begin
    comm = Comm(name = "late")
    if comm.rank == 1
        error = thrown(() -> barrier(comm; timeout = 0.3))
        @test error.code == 30
    else
        @test await(() -> info(comm).over != 0)
        @test thrown(() -> barrier(comm)).code in (20, 21, 30)
    end
    close(comm)
end

# Ctrl-C in a call that waits: this rank throws InterruptException, its peers hear of it.
@testset "an interruption" begin
    comm = Comm(name = "interrupt")
    if comm.rank == 0
        ccall(:jl_exit_on_sigint, Cvoid, (Cint,), 0)
        run(`sh -c "sleep 1; kill -INT $(getpid())"`; wait = false)
        @test thrown(() -> barrier(comm)) isa InterruptException
        @test thrown(() -> barrier(comm)).code == 21  # Once; the communicator is over.
    else
        @test await(() -> info(comm).over != 0)
        error = thrown(() -> barrier(comm))
        @test error.code == 21 && error.rank == 0
    end
    close(comm)
end

# What is called back within the call waits for nothing: another task would run between the frames of C.
@testset "an interruption while another task makes or closes a communicator" begin
    comm = Comm(name = "interrupt beside")
    if comm.rank == 0
        has_run = Ref(false)
        beside = @async lock(LibSK.context_lock) do
            sleep(0.01)
            has_run[] = true
        end
        yield()
        @test islocked(LibSK.context_lock)
        run(`sh -c "sleep 1; kill -INT $(getpid())"`; wait = false)
        error = thrown(() -> barrier(comm))
        @test !has_run[]
        @test error isa InterruptException
        wait(beside)
    else
        @test await(() -> info(comm).over != 0)
    end
    close(comm)
end

# Ranks that do not come: the wait ends, and says who is missing.
@testset "ranks that do not meet" begin
    together = Comm(name = "beside")
    if together.rank == 0
        error = thrown(() -> Comm(name = "alone", timeout = 0.5))
        @test error isa SKError && error.code == 30
    end
    barrier(together)
    close(together)
end
