# Small calls from Julia beside the same in C, in one process, arrays reused, one worker.
#
# usage: julia julia_calls.jl CALLS.SO CALLS BATCHES
#
# CALLS.SO is of julia_calls.c. Prints a line of JSON for each batch: its case, and the mean time of a
# call in microseconds. Batches of both come in turns, there and back, on the same memory.
using LibSK

const LOOPS, CALLS, BATCHES = ARGS[1], parse(Int, ARGS[2]), parse(Int, ARGS[3])

handle(comm) = LibSK.open_handle(comm)

function loop(call, calls)
    start = time_ns()
    for _ in 1:calls
        call()
    end
    return (time_ns() - start) / calls
end

Comm(; workers = 1) do comm
    x, out = rand(Float32, 16), zeros(Float32, 16)
    rows, normed, weight = rand(Float32, 64, 4), zeros(Float32, 64, 4), rand(Float32, 64)
    b, a, c = rand(Float32, 8, 16), rand(Float32, 16, 4), zeros(Float32, 8, 4)
    in_c = (
        () -> @ccall(LOOPS.c_allreduce(handle(comm)::Ptr{Cvoid}, x::Ptr{Cfloat}, out::Ptr{Cfloat},
            16::Int64, CALLS::Int64)::Cdouble),
        () -> @ccall(LOOPS.c_rmsnorm(handle(LibSK.Alone())::Ptr{Cvoid}, rows::Ptr{Cfloat},
            normed::Ptr{Cfloat}, weight::Ptr{Cfloat}, 4::Int64, 64::Int64, CALLS::Int64)::Cdouble),
        # The same memory, row-major: c = a * b there is c = b * a here.
        () -> @ccall(LOOPS.c_product(handle(comm)::Ptr{Cvoid}, a::Ptr{Cfloat}, b::Ptr{Cfloat},
            c::Ptr{Cfloat}, 4::Int64, 8::Int64, 16::Int64, CALLS::Int64)::Cdouble),
    )
    in_julia = (
        () -> loop(() -> allreduce!(comm, out, x), CALLS),
        () -> loop(() -> rmsnorm!(normed, rows; weight = weight), CALLS),
        () -> loop(() -> allreduce_gemm!(comm, c, b, a), CALLS),
    )
    results = (out, normed, c)
    for (i, name) in enumerate(("allreduce of 16", "rmsnorm of 64 x 4", "allreduce_gemm of 8 x 16 x 4"))
        in_c[i](), in_julia[i]()
        wanted = copy(results[i])
        for _ in 1:BATCHES, (language, run) in (("C", in_c), ("Julia", in_julia), ("Julia", in_julia), ("C", in_c))
            fill!(results[i], NaN32)
            took = run[i]()
            took > 0 && results[i] == wanted || error("$name in $language: a wrong result")
            println("{\"case\": \"$name\", \"language\": \"$language\", \"us\": [$(took / 1000)]}")
        end
    end
end
