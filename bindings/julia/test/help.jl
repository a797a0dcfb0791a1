# Every name that `using LibSK` brings has its help, and hides nothing of Base's.
include("common.jl")

help_of(name) = string(Base.Docs.doc(Base.Docs.Binding(LibSK, name)))

@testset "help" begin
    for name in names(LibSK)
        name == :LibSK && continue
        @test isdefined(LibSK, name)
        @test !occursin("No documentation found", help_of(name)) || endswith(string(name), "!") == false
    end
    brought = Base.names(Base)
    for name in names(LibSK)
        @test !(name in brought) || getfield(Base, name) === getfield(LibSK, name)
    end
end

@testset "no method is unclear" begin
    @test isempty(detect_ambiguities(LibSK))
end

@testset "what the help of operations says" begin
    text = string(@doc rmsnorm!)
    for word in ("y[j, i] = x[j, i]", "(n, ...)", "weight", "rstd", "eps = 1e-5", "SKError", "Zhang")
        @test occursin(word, text)
    end
    text = string(@doc allgather_gemm!)
    for word in ("the own b, times the ranks' a, one beside the other", "(n, k)", "(k, m)", "pack")
        @test occursin(word, text)
    end
    @test occursin("c = the sum over ranks of b * a", string(@doc allreduce_gemm!))
    @test occursin("root", string(Base.Docs.doc(broadcast!)))
    for name in (:barrier, :allreduce!, :allgather!, :reduce_scatter!, :send, :recv!, :adamw!)
        @test occursin("timeout", help_of(name))
        @test occursin("SKError", help_of(name))
    end
end
