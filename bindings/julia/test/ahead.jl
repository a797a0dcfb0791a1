# Calls that are compiled ahead: there is a method for each, so none was renamed behind their back.
using LibSK, Test

@testset "calls that are compiled ahead" begin
    @test length(LibSK.common_calls()) > 40
    @test any(call -> Function in call[2], LibSK.common_calls())
    @test LibSK.compile_ahead() == []
    @test !precompile(allreduce, (String, Int))  # What it would say of one that is gone.
end
