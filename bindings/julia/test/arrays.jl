# What is taken as an array, where it lies, and what is refused with which sentence.
include("common.jl")

struct Point
    x::Float32
    y::Float32
end

@testset "arrays as they lie" begin
    Comm() do comm
        x = randn(Float32, 6, 4)
        for (what, view_of_x) in (
            "some columns" => view(x, :, 2:3),
            "one column" => view(x, :, 2),
            "rows of one column" => view(x, 2:4, 2),
            "a reshape" => reshape(x, 2, 3, 4),
            "a reshape of a view" => reshape(view(x, :, 2:3), 12),
            "other elements" => reinterpret(Int32, x),
            "one element" => view(x, 2:2, 3:3),
            "no dimension" => fill(1.0f0),
        )
            before = collect(view_of_x)
            all_before = copy(x)
            @test allreduce(comm, view_of_x) == before
            @test allreduce!(comm, view_of_x) === view_of_x
            @test x == all_before
        end
        # What is written into a view lies in its parent.
        out = zeros(Float32, 6, 4)
        allreduce!(comm, view(out, :, 3), x[:, 1])
        @test out[:, 3] == x[:, 1] && count(!iszero, out) <= 6

        @refused allreduce(comm, view(x, 2:3, :)) "x is" "view" "copy(x)"
        @refused allreduce(comm, view(x, 1:2:5, 1)) "2 apart" "copy(x)"
        @refused allreduce(comm, view(x, 6:-1:1, 1)) "-1 apart"
        @refused allreduce(comm, view(x, [1, 3], :)) "x is" "collect(x)"
        @refused allreduce(comm, x') "x is" "collect(x)"
        @refused allreduce(comm, 1.0:3.0) "x is" "Array" "collect(x)"
        @refused allreduce(comm, Diagonal(ones(3))) "x is"
        @refused allreduce(comm, PermutedDimsArray(x, (2, 1))) "x is"
        @refused allreduce!(comm, 1.0:3.0, ones(3)) "out is"
        @refused allreduce(comm, [1 + 2im]) "x has elements of type Complex" "Float32" "Int64"
        @refused allreduce(comm, [true, false]) "x has elements of type Bool"
        @refused allreduce(comm, UInt8[1]) "x has elements of type UInt8"
        @refused allreduce(comm, [Point(1, 2)]) "x has elements of type" "Point"
        @refused allreduce(comm, Any[1.0]) "x has elements of type Any"
        @refused allreduce(comm, ["a"]) "x has elements of type String"
        @refused allreduce(comm, Union{Missing,Float64}[1.0]) "x has elements of type"
        @refused allreduce(comm, "text") "x is \"text\"" "array"
        @refused allreduce(comm, :three) "x is :three" "array"
        @refused allreduce(comm, true) "x has elements of type Bool"
        @refused prepare(allreduce, comm, 3) "x is 3" "array"  # There is nothing to keep.
        @refused allreduce(comm, nothing) "x is nothing" "array"
        @refused allreduce!(comm, zeros(5), ones(6)) "out is 5 long" "6 long"
        @refused allreduce!(comm, zeros(3, 2), ones(2, 3)) "out is 3×2" "2×3"
        @refused allreduce!(comm, zeros(Float32, 3), ones(3)) "out has elements of type Float32" "Float64"
        @refused allreduce(comm, [1]; op = :avg) "average"
        @refused allreduce(comm, [1]; op = :mean) "op is :mean" ":avg"
        @refused allreduce(comm, [1]; op = -) "op is"
        @refused allreduce(comm, [1]; op = 3) "op is 3"
        @refused allreduce(comm, [1.0]; timeout = -1) "timeout is -1"
        @refused allreduce(comm, [1.0]; timeout = "long") "timeout is"
        @refused allreduce(comm, [1.0]; timeout = NaN) "timeout is NaN"
        @refused allgather!(comm, zeros(5), ones(3)) "out is 5 long" "3×1 or 3 long"
        @refused reduce_scatter!(comm, zeros(5), ones(3)) "out is 5 long" "3 long"
        @refused reduce_scatter(comm, fill(1.0)) "x is a number"
        @refused broadcast(comm, [1.0]; root = 1) "root"
        @refused broadcast(comm, [1.0]; root = 1.5) "root is 1.5" "integer"
        @refused send(comm, [1.0], 0) "peer is 0, which is this rank"
        @refused recv!(comm, [1.0], 3) "peer is 3" "0 to 0"
        @refused recv(comm, Complex{Float64}, 3, 0) "T is" "Float32"
        @refused recv(comm, Float64, -1, 0) "dims is -1"
        overlapping = zeros(4)
        @refused allreduce!(comm, view(overlapping, 1:3), view(overlapping, 2:4)) "out"
        @test allreduce(comm, x) == x  # Nothing of that has ended anything.
    end
end

@testset "sizes by the world's" begin
    Comm(name = "sizes") do comm
        @test size(allgather(comm, zeros(2, 3))) == (2, 3, 1)
        @test size(reduce_scatter(comm, zeros(2, 3))) == (2, 3)
    end
end
