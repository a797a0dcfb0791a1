# bf16's conversions, against what rounding to the nearest means.
include("common.jl")

bits(x::BFloat16) = reinterpret(UInt16, x)

"""By definition: of the two neighbours the nearer, of two as near the one whose last bit is 0."""
function rounded(x::Float64)
    sign = signbit(x) ? -1.0 : 1.0
    low = reinterpret(BFloat16, UInt16(reinterpret(UInt32, prevfloat(Float32(abs(x)))) >> 16))
    candidates = [reinterpret(BFloat16, bits(low) + UInt16(i)) for i in 0:2]
    distances = [abs(BigFloat(Float64(c)) - BigFloat(abs(x))) for c in candidates]
    best = findall(==(minimum(distances)), distances)
    chosen = length(best) == 1 ? best[1] : first(filter(i -> iseven(bits(candidates[i])), best))
    return sign * Float64(candidates[chosen])
end

@testset "bf16" begin
    for _ in 1:2000
        x = randn(SHARED) * 2.0^rand(SHARED, -100:100)
        @test Float64(BFloat16(x)) == rounded(x)
        y = Float32(x)
        @test Float64(BFloat16(y)) == rounded(Float64(y))
    end
    for number in 0x0000:0xffff  # What is one already stays.
        x = reinterpret(BFloat16, number)
        isnan(x) ? (@test isnan(BFloat16(Float32(x)))) : (@test bits(BFloat16(Float32(x))) == number)
    end
    # Just above the middle of two: by way of Float32 it would be taken for the middle.
    middle = 1.0 + 2.0^-8
    @test Float64(BFloat16(middle)) == 1.0
    @test Float64(BFloat16(middle + 2.0^-40)) == 1.0 + 2.0^-7
    @test isinf(BFloat16(1.0e300)) && isnan(BFloat16(NaN)) && bits(BFloat16(-0.0)) == 0x8000
    @test BFloat16(3) == 3 && -BFloat16(2) == BFloat16(-2) && BFloat16(1) < BFloat16(2)
    @test BFloat16(1) + BFloat16(2) == BFloat16(3) && BFloat16[1, 2] == [1.0f0, 2.0f0]
    @test convert(Vector{Float64}, BFloat16[1, 2]) == [1, 2]
    @test occursin("1.5", repr(BFloat16(1.5)))
end
