# What the tests of several ranks share: data that every rank can make of all ranks, and its types.
using LibSK, LinearAlgebra, Random, Test

if parse(Int, get(ENV, "WORLD_SIZE", "1")) > 1 && !haskey(ENV, "SK_TEST_SEED")
    error("all ranks must draw alike: give them a number in SK_TEST_SEED")
end
const SEED = parse(Int, get(ENV, "SK_TEST_SEED", string(rand(RandomDevice(), UInt32))))
println("SK_TEST_SEED=", SEED)

# Ranks draw the same shapes, and each compiles for itself: there are runs of 1 to 4 of them anyway.
const ROUNDS = parse(Int, get(ENV, "SK_TEST_ROUNDS", get(ENV, "WORLD_SIZE", "1") == "1" ? "2" : "1"))

# Of all ranks alike: shapes, choices. Never ask it for a rank's own data.
const SHARED = MersenneTwister(SEED)

const FLOATS = (Float32, Float64, Float16, BFloat16)
const TYPES = (FLOATS..., Int32, Int64)

# Compiling is what these programs take their time for: what follows is compiled once for all types.

"""Random elements, of both signs around 1."""
function draw(rng, @nospecialize(T), size...)
    T <: Integer && return reshape(rand(rng, T, prod(size)), size)
    return reshape(Vector{T}(randn(rng, prod(size))), size)
end

"""A seed for each use, then each rank's data: what rank r would have is known everywhere."""
function of_ranks(make, world)
    seed = rand(SHARED, UInt32)
    return [make(MersenneTwister(seed + rank), rank) for rank in 0:world-1]
end

poison(::Type{T}) where {T<:AbstractFloat} = T(NaN)
poison(::Type{T}) where {T<:Integer} = typemin(T) + T(12345)
poisoned(T, size...) = fill(poison(T), size...)

"""Equal elements, but a NaN is any NaN."""
function same(@nospecialize(x), @nospecialize(y))
    size(x) == size(y) && eltype(x) == eltype(y) || return false
    for i in 1:length(x)
        x[i] == y[i] || isnan(x[i]) && isnan(y[i]) || return false
    end
    return true
end

"""As near as sums of `terms` products in `T` are to what doubles give."""
function near(@nospecialize(x), @nospecialize(wanted), T, terms)
    size(x) == size(wanted) || return false
    units = (Float64 => eps(Float64), Float32 => Float64(eps(Float32)), Float16 => 2.0^-10, BFloat16 => 2.0^-7)
    unit = last(units[findfirst(each -> first(each) == T, units)])
    scale = 1.0
    for each in wanted
        scale = max(scale, abs(each) + 1)
    end
    for i in 1:length(x)
        # A NaN is near nothing.
        abs(Float64(x[i]) - wanted[i]) <= 8 * unit * sqrt(terms + 1) * scale || return false
    end
    return true
end

"""A size of up to `dims` dimensions with about `most` elements, odd ones and ones among them."""
odd_size(dims, most = 400) = ntuple(_ -> rand(SHARED, 1:ceil(Int, most^(1 / dims))), dims)

"""What a call throws, or `nothing`."""
thrown(call) = try
    call()
    nothing
catch error
    error
end

macro refused(call, words...)
    return quote
        error = thrown(() -> $(esc(call)))
        @test error isa SKError
        if error isa SKError
            @test error.code == 10
            for word in $(esc(Expr(:tuple, words...)))
                occursin(word, error.sentence) || println("not \"", word, "\" in: ", error.sentence)
                @test occursin(word, error.sentence)
            end
        end
    end
end
