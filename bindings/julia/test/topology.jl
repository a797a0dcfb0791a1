# Topologies and traces.
include("common.jl")

@testset "topologies" begin
    here = Topo()
    @test here.hosts == 1 && here.threads >= here.cores >= 1 && here.memory_bytes > 0
    two = Topo(spec = "hosts:2 cores:8 gpus:4")
    @test (two.hosts, two.cores, two.gpus) == (2, 16, 8)
    text = string(two)
    again = Topo(text)
    @test string(again) == text && again.gpus == 8
    @test repr(two) == "Topo(2 host(s), 16 cores, 8 GPUs)"
    @test :cores in propertynames(two)
    @test thrown(() -> two.colour) isa ArgumentError
    @refused Topo("nonsense") "1"
    @refused Topo("") ""
    @refused Topo(3) "text is 3"
    @refused Topo(spec = "cores:many") "cores"
    @refused Topo(spec = 3) "spec is 3"
    @refused Topo("a"; spec = "cores:2") "not both"
end

@testset "traces" begin
    Comm() do comm
        text = trace(comm) do
            allreduce(comm, rand(Float32, 1000))
            allreduce_gemm(comm, rand(8, 8), rand(8, 8))
        end
        @test startswith(text, "{\"traceEvents\": [")
        @test occursin("allreduce", text) && occursin("gemm", text) && occursin("\"dur\"", text)
        joined = gather_trace(comm, text)
        @test occursin("allreduce", joined) && endswith(joined, "]}")
        nothing_done = trace(() -> nothing, comm)
        @test !occursin("allreduce", nothing_done)
        @test gather_trace(comm, nothing_done) == "{\"traceEvents\": []}"
        @test thrown(() -> trace(() -> error("mine"), comm)) == ErrorException("mine")
        @refused trace(() -> nothing, comm; event_count_max = -1) "event_count_max is -1"
        @refused gather_trace(comm, "nonsense") "text is"
        @refused gather_trace(comm, 3) "text is 3"
        few = trace(() -> foreach(_ -> allreduce(comm, [1.0]), 1:9), comm; event_count_max = 1)
        @test occursin(r"\"dropped\": [1-9]", few)
    end
end
