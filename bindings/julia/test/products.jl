# Products against LinearAlgebra: c = b * a of the same arrays, however they lie.
include("common.jl")

doubles(x) = Float64.(collect(x))

"""A matrix of this size as a program may have it: whole, a view of columns, or a transpose."""
function laid_out(how, x)
    rows, columns = size(x)
    how == :whole && return x
    how == :turned && return transpose(collect(transpose(x)))
    how == :adjoint && return adjoint(collect(transpose(x)))
    how == :permuted && return PermutedDimsArray(collect(transpose(x)), (2, 1))
    around = poisoned(eltype(x), rows + 3, columns + 1)
    within = view(around, 2:rows+1, 1:columns)
    within .= x
    return within
end

@testset "products" begin
    Comm() do comm
        world, me = comm.world_size, comm.rank + 1
        for round in 1:ROUNDS, T in FLOATS
            n, k, m = rand(SHARED, 1:40, 3)
            as = of_ranks((rng, _) -> draw(rng, T, k, m), world)
            bs = of_ranks((rng, _) -> draw(rng, T, n, k), world)
            summed = sum(doubles(b) * doubles(a) for (a, b) in zip(as, bs))
            beside = doubles(bs[me]) * hcat(doubles.(as)...)
            for (wanted, gemm, gemm!, columns, terms) in (
                (summed, allreduce_gemm, allreduce_gemm!, m, k * world),
                (beside, allgather_gemm, allgather_gemm!, m * world, k),
            )
                ways = (:whole, :view, :turned, :adjoint, :permuted)
                a_way, b_way = rand(SHARED, ways), rand(SHARED, ways)
                a, b = laid_out(a_way, as[me]), laid_out(b_way, bs[me])
                c = poisoned(T, n, columns)
                @test gemm!(comm, c, b, a) === c
                near(c, wanted, T, terms) || println((T, n, k, m, a_way, b_way, gemm))
                @test near(c, wanted, T, terms)

                weights = pack(comm, b)
                @test size(weights) == (n, k)
                @test near(gemm(comm, weights, a), wanted, T, terms)
                close(weights)

                # Into a view, in Float32; what lies around it stays.
                around = poisoned(Float32, n + 2, columns + 1)
                gemm!(comm, view(around, 2:n+1, 1:columns), bs[me], as[me])
                @test near(around[2:n+1, 1:columns], wanted, T == Float64 ? Float32 : T, terms)
                around[2:n+1, 1:columns] .= NaN
                @test all(isnan, around)
                @test eltype(gemm(comm, bs[me], as[me]; out_type = Float32)) == Float32
            end
        end
    end
end

@testset "what is not as it must be" begin
    Comm(name = "bad") do comm
        a, b = zeros(4, 3), zeros(5, 4)
        c = zeros(5, 3)
        @refused allreduce_gemm!(comm, c, a, b) "b is 4×3" "(n, k)"
        @refused allreduce_gemm!(comm, zeros(3, 5), b, a) "c is 3×5" "5×3"
        @refused allreduce_gemm!(comm, c, b, zeros(Float32, 4, 3)) "b has elements of type Float64" "Float32"
        @refused allreduce_gemm!(comm, zeros(Int32, 5, 3), b, a) "c has elements of type Int32" "Float64"
        @refused allreduce_gemm!(comm, c, b, zeros(Int32, 4, 3)) "a has elements of type Int32"
        @refused allreduce_gemm!(comm, c, b, zeros(4)) "a is 4-element" "matrix"
        @refused allreduce_gemm!(comm, c, b, view(zeros(8, 3), 1:2:7, :)) "a is" "2 apart" "copy(a)"
        @refused allreduce_gemm!(comm, transpose(zeros(3, 5)), b, a) "c is"
        @refused allreduce_gemm!(comm, c, b, pack(comm, a)) "a is packed"
        @refused allreduce_gemm(comm, 7, a) "b is 7" "matrix"
        @refused pack(comm, zeros(Int64, 2, 2)) "b has elements of type Int64"
        closed = pack(comm, b)
        close(closed)
        close(closed)
        @test thrown(() -> allreduce_gemm!(comm, c, closed, a)).code == 13
        @test allreduce_gemm!(comm, c, b, a) == zeros(5, 3)  # Nothing of that has changed anything.
    end
end
