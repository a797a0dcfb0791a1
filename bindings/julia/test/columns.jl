# Operations on columns against Base: each column is one of the library's rows.
include("common.jl")

function oracle(x, weight, eps)
    x = Float64.(x)
    rstd = 1 ./ sqrt.(sum(abs2, x; dims = 1) ./ size(x, 1) .+ eps)
    return x .* rstd .* weight, dropdims(rstd; dims = 1)
end

"""The gradients, from the definition of y, by the chain rule."""
function gradients(x, dy, weight, eps)
    x, dy = Float64.(x), Float64.(dy)
    _, rstd = oracle(x, 1.0, eps)
    r = reshape(rstd, 1, size(rstd)...)
    g = dy .* weight
    dx = r .* (g .- x .* r .^ 2 .* sum(g .* x; dims = 1) ./ size(x, 1))
    dweight = vec(sum(reshape(dy .* x .* r, size(x, 1), :); dims = 2))
    return dx, dweight
end

wide(::Type{Float64}) = Float64
wide(::Type) = Float32

@testset "rmsnorm" begin
    for round in 1:4, T in FLOATS
        size = (rand(SHARED, 1:70), odd_size(rand(SHARED, 1:2), 60)...)
        x = draw(SHARED, T, size...)
        weight = rand(SHARED, Bool) ? draw(SHARED, T, size[1]) : nothing
        eps = rand(SHARED, (1e-5, 0.5))
        scale = weight === nothing ? 1.0 : Float64.(weight)
        wanted, rstd_wanted = oracle(x, scale, eps)

        y, rstd = poisoned(T, size...), poisoned(wide(T), size[2:end]...)
        @test rmsnorm!(y, x; weight = weight, rstd = rstd, eps = eps) === y
        @test near(y, wanted, T, size[1])
        @test near(rstd, rstd_wanted, wide(T), size[1])
        @test same(rmsnorm(x; weight = weight, eps = eps), y)

        residual = draw(SHARED, T, size...)
        total = T.(wide(T).(x) .+ wide(T).(residual))
        y2, total2 = add_rmsnorm(x, residual; weight = weight, eps = eps)
        @test same(total2, total)
        @test near(y2, oracle(total, scale, eps)[1], T, size[1])

        dy = draw(SHARED, T, size...)
        dx_wanted, dweight_wanted = gradients(x, dy, scale, eps)
        dweight = poisoned(T, size[1])
        dx = rmsnorm_backward(x, dy, rstd; weight = weight, dweight = dweight)
        @test near(dx, dx_wanted, T, size[1])
        @test near(dweight, dweight_wanted, T, prod(size[2:end]))

        # In place, and in columns that lie apart; what lies around them stays.
        around = poisoned(T, size[1] + 2, prod(size[2:end]) + 1)
        within = view(around, 2:size[1]+1, 1:prod(size[2:end]))
        within .= reshape(x, size[1], :)
        rmsnorm!(within, within; weight = weight, eps = eps)
        @test same(reshape(collect(within), size...), y)
        within .= T(NaN)
        @test all(isnan, around)
        rmsnorm!(x, x; weight = weight, eps = eps)
        @test same(x, y)
    end
end

@testset "what is not as it must be" begin
    x = randn(Float32, 4, 3)
    @refused rmsnorm(x; weight = zeros(Float32, 3)) "weight is 3 long" "4 long" "column"
    @refused rmsnorm(x; weight = zeros(4)) "weight has elements of type Float64" "Float32"
    @refused rmsnorm!(zeros(Float32, 3, 4), x) "y is 3×4" "4×3"
    @refused rmsnorm!(zeros(4, 3), x) "y has elements of type Float64"
    @refused rmsnorm(x; rstd = zeros(Float32, 4)) "rstd is 4 long" "3 long"
    @refused rmsnorm(x; eps = -1) "eps"
    @refused rmsnorm(x; eps = "small") "eps is \"small\"" "number"
    @refused rmsnorm(x; eps = NaN) "eps"
    @refused rmsnorm(rand(Int32, 4, 3)) "x has elements of type Int32"
    @refused rmsnorm(x') "x is" "collect(x)"
    @refused rmsnorm(view(x, 1:2:3, :)) "2 apart" "copy(x)"
    @refused rmsnorm(zeros(Float32, 0, 3)) "one element"
    @refused rmsnorm(fill(1.0f0)) "number"
    @refused rmsnorm(1.0) "1.0"
    @refused rmsnorm(x; timeout = 0) "timeout is 0"
    @refused rmsnorm!(view(x, :, 1:2), view(x, :, 2:3)) "y"
    @test size(rmsnorm(zeros(Float32, 4, 0))) == (4, 0)
end
