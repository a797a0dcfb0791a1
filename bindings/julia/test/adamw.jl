# AdamW over lists against its formula.
include("common.jl")

wide(::Type{Float64}) = Float64
wide(::Type) = Float32

function step!(p, g, m, v; lr, step, beta1, beta2, eps, weight_decay)
    m .= m .* beta1 .+ g .* (1 - beta1)
    v .= v .* beta2 .+ g .^ 2 .* (1 - beta2)
    p .= p .* (1 - lr * weight_decay) .-
         m .* (lr / (1 - beta1^step)) ./ (sqrt.(v) ./ sqrt(1 - beta2^step) .+ eps)
end

@testset "adamw" begin
    for T in FLOATS
        sizes = [odd_size(rand(SHARED, 1:3)) for _ in 1:rand(SHARED, 1:6)]
        params = [draw(SHARED, T, size...) for size in sizes]
        ms = [zeros(wide(T), size...) for size in sizes]
        vs = [zeros(wide(T), size...) for size in sizes]
        of_doubles = [[Float64.(x) for x in list] for list in (params, ms, vs)]
        settings = (lr = 0.01, beta1 = 0.8, beta2 = 0.95, eps = 1e-6, weight_decay = 0.1)
        for step in 1:3
            grads = [draw(SHARED, T, size...) for size in sizes]
            @test adamw!(params, grads, ms, vs; step = step, settings...) === nothing
            for i in eachindex(sizes)
                step!(of_doubles[1][i], Float64.(grads[i]), of_doubles[2][i], of_doubles[3][i]; step = step, settings...)
                # Each step starts from what was rounded to the type.
                @test near(params[i], of_doubles[1][i], T, 1)
                @test near(ms[i], of_doubles[2][i], wide(T), 4)
                of_doubles[1][i] .= params[i]
            end
        end
    end
end

@testset "what is not as it must be" begin
    list(T = Float32, n = 3) = [ones(T, n), ones(T, 2, 2)]
    now = (lr = 0.1, step = 1)
    @refused adamw!(list(), list(Float64), list(), list(); now...) "grads[1] has elements of type Float64"
    @refused adamw!(list(), list()[1:1], list(), list(); now...) "grads has 1 arrays" "params 2"
    @refused adamw!(list(), list(Float32, 4), list(), list(); now...) "grads[1] is 4 long" "3 long"
    @refused adamw!(Any[ones(Float32, 3), ones(3)], list(), list(), list(); now...) "params[2]" "one type"
    @refused adamw!(ones(Float32, 3), list(), list(), list(); now...) "params is" "list of arrays"
    @refused adamw!([1.0f0], list(), list(), list(); now...) "params is" "list of arrays"
    @refused adamw!(list(), list(), list(), list(); lr = 0.1, step = 0) "step"
    @refused adamw!(list(), list(), list(), list(); lr = 0.1, step = 1.5) "step is 1.5" "integer"
    @refused adamw!(list(), list(), list(), list(); now..., beta1 = 1.0) "beta1"
    @test thrown(() -> adamw!(list(), list(), list(), list())) isa UndefKeywordError
    adamw!([], [], [], []; now...)
    adamw!((p for p in list()), list(), list(), list(); now...)  # Any list.
end
