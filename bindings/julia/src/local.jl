# What a process does alone, on all its cores: for each its struct of arguments, its function, its help.
#
# Written by tools/make_julia_ops.py from the library's schemas.

export rmsnorm, rmsnorm!, rmsnorm_backward, rmsnorm_backward!, add_rmsnorm, add_rmsnorm!, adamw!

struct RmsnormArgs
    struct_size::UInt32
    operation::Int32
    x::Ptr{Tensor}
    y::Ptr{Tensor}
    weight::Ptr{Tensor}
    rstd::Ptr{Tensor}
    eps::Float64
end

"""
    rmsnorm!(y, x; weight, rstd, eps = 1e-5, timeout)
    rmsnorm(x; ...)

y[j, i] = x[j, i] * rstd[i] * weight[j], where rstd[i] = 1 / sqrt(mean over j of x[j, i]^2 + eps).

Computed in Float32, of Float64 in Float64, and rounded once; without a weight it is 1. m: columns;
n: rows. Columns have one element at least.

- `y`: size `(n, ...)`, of x's type, may be `x`
- `x`: size `(n, ...)`, Float32, Float64, BFloat16 or Float16
- `weight`: size `(n,)`, of x's type or Float32, may be left out
- `rstd`: a number for each column: size `(...)`, of the type of sums of x, may be left out, what
  each column was multiplied by, for the gradient
- `eps`: 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5
- `timeout`: the longest wait, in seconds

Returns `y`; the second form makes it. No other rank takes part, and any thread may call it. Arrays
are used where they lie, and only during the call. Errors: [`SKError`](@ref); with a `code` below 20
nothing was changed.

Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
"""
function rmsnorm!(y, x; weight = nothing, rstd = nothing, eps = 1e-5, timeout = nothing)
    holds("x", x, FLOAT)
    holds("y", y, kind(eltype(x)))
    weight === nothing || holds("weight", weight, kind(eltype(x)) | kind(Float32))
    rstd === nothing || holds("rstd", rstd, kind(accumulator(eltype(x))))
    n, rest = column_size(x)
    n >= 1 || invalid("columns have one element at least")
    agree("y", y, size(x), "as x is")
    weight === nothing || agree("weight", weight, (n,), "a column's length")
    rstd === nothing || agree("rstd", rstd, rest, "one for each column of x")
    tensors = Ref((
        columns("x", x),
        columns("y", y),
        weight === nothing ? NO_TENSOR : vector("weight", weight),
        rstd === nothing ? NO_TENSOR : vector("rstd", rstd),
    ))
    GC.@preserve tensors x y weight rstd begin
        at = places(tensors)
        args = RmsnormArgs(
            sizeof(RmsnormArgs),
            9,
            at[1],
            at[2],
            weight === nothing ? C_NULL : at[3],
            rstd === nothing ? C_NULL : at[4],
            float_number("eps", eps),
        )
        sk_call(Alone(), 9, Ref(args), timeout)
    end
    return y
end
rmsnorm(x; keywords...) = rmsnorm!(like(x), x; keywords...)

struct RmsnormBackwardArgs
    struct_size::UInt32
    operation::Int32
    x::Ptr{Tensor}
    dy::Ptr{Tensor}
    rstd::Ptr{Tensor}
    dx::Ptr{Tensor}
    weight::Ptr{Tensor}
    dweight::Ptr{Tensor}
end

"""
    rmsnorm_backward!(dx, x, dy, rstd; weight, dweight, timeout)
    rmsnorm_backward(x, dy, rstd; ...)

The gradients of rmsnorm: dx[j, i] = rstd[i] * (dy[j, i] * weight[j] - x[j, i] * rstd[i]^2 * mean
over k of dy[k, i] * weight[k] * x[k, i]), dweight[j] = sum over i of dy[j, i] * x[j, i] * rstd[i].

Sums have one order, whatever the number of workers. m: columns; n: rows. Columns have one element
at least.

- `dx`: size `(n, ...)`, of x's type
- `x`: size `(n, ...)`, Float32, Float64, BFloat16 or Float16
- `dy`: size `(n, ...)`, of x's type
- `rstd`: a number for each column: size `(...)`, of the type of sums of x, as rmsnorm left it
- `weight`: size `(n,)`, of x's type or Float32, may be left out
- `dweight`: size `(n,)`, of x's type or Float32, may be left out
- `timeout`: the longest wait, in seconds

Returns `dx`; the second form makes it. No other rank takes part, and any thread may call it. Arrays
are used where they lie, and only during the call. Errors: [`SKError`](@ref); with a `code` below 20
nothing was changed.

Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
"""
function rmsnorm_backward!(dx, x, dy, rstd; weight = nothing, dweight = nothing, timeout = nothing)
    holds("x", x, FLOAT)
    holds("dy", dy, kind(eltype(x)))
    holds("rstd", rstd, kind(accumulator(eltype(x))))
    holds("dx", dx, kind(eltype(x)))
    weight === nothing || holds("weight", weight, kind(eltype(x)) | kind(Float32))
    dweight === nothing || holds("dweight", dweight, kind(eltype(x)) | kind(Float32))
    n, rest = column_size(x)
    n >= 1 || invalid("columns have one element at least")
    agree("dy", dy, size(x), "as x is")
    agree("rstd", rstd, rest, "one for each column of x")
    agree("dx", dx, size(x), "as x is")
    weight === nothing || agree("weight", weight, (n,), "a column's length")
    dweight === nothing || agree("dweight", dweight, (n,), "a column's length")
    tensors = Ref((
        columns("x", x),
        columns("dy", dy),
        vector("rstd", rstd),
        columns("dx", dx),
        weight === nothing ? NO_TENSOR : vector("weight", weight),
        dweight === nothing ? NO_TENSOR : vector("dweight", dweight),
    ))
    GC.@preserve tensors x dy rstd dx weight dweight begin
        at = places(tensors)
        args = RmsnormBackwardArgs(
            sizeof(RmsnormBackwardArgs),
            10,
            at[1],
            at[2],
            at[3],
            at[4],
            weight === nothing ? C_NULL : at[5],
            dweight === nothing ? C_NULL : at[6],
        )
        sk_call(Alone(), 10, Ref(args), timeout)
    end
    return dx
end
rmsnorm_backward(x, dy, rstd; keywords...) = rmsnorm_backward!(like(x), x, dy, rstd; keywords...)

struct AddRmsnormArgs
    struct_size::UInt32
    operation::Int32
    x::Ptr{Tensor}
    residual::Ptr{Tensor}
    y::Ptr{Tensor}
    total::Ptr{Tensor}
    weight::Ptr{Tensor}
    rstd::Ptr{Tensor}
    eps::Float64
end

"""
    add_rmsnorm!(y, total, x, residual; weight, rstd, eps = 1e-5, timeout)
    add_rmsnorm(x, residual; ...)

total[j, i] = x[j, i] + residual[j, i], and y[j, i] = total[j, i] * rstd[i] * weight[j], where
rstd[i] = 1 / sqrt(mean over j of total[j, i]^2 + eps): in one pass.

The total is rounded to its type before it is normalised, as if it had been read again; the gradient
of y is rmsnorm's, by the total. m: columns; n: rows. Columns have one element at least.

- `y`: size `(n, ...)`, of x's type, may be `x`
- `total`: size `(n, ...)`, of residual's type, may be `residual`
- `x`: size `(n, ...)`, Float32, Float64, BFloat16 or Float16
- `residual`: size `(n, ...)`, of x's type
- `weight`: size `(n,)`, of x's type or Float32, may be left out
- `rstd`: a number for each column: size `(...)`, of the type of sums of x, may be left out, what
  each column was multiplied by, for the gradient
- `eps`: 0 to inf; added to the mean of squares, in the type of sums; usually 1e-5
- `timeout`: the longest wait, in seconds

Returns `y` and `total`; the second form makes them. No other rank takes part, and any thread may
call it. Arrays are used where they lie, and only during the call. Errors: [`SKError`](@ref); with a
`code` below 20 nothing was changed.

Source: B. Zhang, R. Sennrich: Root Mean Square Layer Normalization, 2019.
"""
function add_rmsnorm!(
    y, total, x, residual;
    weight = nothing,
    rstd = nothing,
    eps = 1e-5,
    timeout = nothing,
)
    holds("x", x, FLOAT)
    holds("residual", residual, kind(eltype(x)))
    holds("y", y, kind(eltype(x)))
    holds("total", total, kind(eltype(residual)))
    weight === nothing || holds("weight", weight, kind(eltype(x)) | kind(Float32))
    rstd === nothing || holds("rstd", rstd, kind(accumulator(eltype(x))))
    n, rest = column_size(x)
    n >= 1 || invalid("columns have one element at least")
    agree("residual", residual, size(x), "as x is")
    agree("y", y, size(x), "as x is")
    agree("total", total, size(x), "as x is")
    weight === nothing || agree("weight", weight, (n,), "a column's length")
    rstd === nothing || agree("rstd", rstd, rest, "one for each column of x")
    tensors = Ref((
        columns("x", x),
        columns("residual", residual),
        columns("y", y),
        columns("total", total),
        weight === nothing ? NO_TENSOR : vector("weight", weight),
        rstd === nothing ? NO_TENSOR : vector("rstd", rstd),
    ))
    GC.@preserve tensors x residual y total weight rstd begin
        at = places(tensors)
        args = AddRmsnormArgs(
            sizeof(AddRmsnormArgs),
            11,
            at[1],
            at[2],
            at[3],
            at[4],
            weight === nothing ? C_NULL : at[5],
            rstd === nothing ? C_NULL : at[6],
            float_number("eps", eps),
        )
        sk_call(Alone(), 11, Ref(args), timeout)
    end
    return (y, total)
end
add_rmsnorm(x, residual; keywords...) =
    add_rmsnorm!(like(x), like(residual), x, residual; keywords...)

struct AdamwArgs
    struct_size::UInt32
    operation::Int32
    length::Int64
    params::Ptr{Ptr{Tensor}}
    grads::Ptr{Ptr{Tensor}}
    ms::Ptr{Ptr{Tensor}}
    vs::Ptr{Ptr{Tensor}}
    lr::Float64
    step::Int64
    beta1::Float64
    beta2::Float64
    eps::Float64
    weight_decay::Float64
end

"""
    adamw!(params, grads, ms, vs; lr, step, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
        weight_decay = 0.01, timeout)

A step of AdamW for all tensors of the lists, in their place.

m = m * beta1 + g * (1 - beta1), v = v * beta2 + g^2 * (1 - beta2), p = p * (1 - lr * weight_decay)
- m * (lr / (1 - beta1^step)) / (sqrt(v) / sqrt(1 - beta2^step) + eps). Numbers are computed in
doubles and rounded to Float32, of Float64 not at all; elements in that, each operation rounded, so
that all processors give the same bits (but a NaN's sign and payload). n: elements of all tensors of
a list.

- `params`: a list of arrays, Float32, Float64, BFloat16 or Float16, overwritten
- `grads`: a list of arrays, of params's type or Float32
- `ms`: a list of arrays, of the type of sums of params, the gradients' moving averages, 0 before
  the first step, overwritten
- `vs`: a list of arrays, of the type of sums of params, 0 or more, those of their squares, 0 before
  the first step, overwritten
- `lr`: 0 to inf; the learning rate of this step; another one is no other plan
- `step`: 1 or more; the number of this step, from 1; another one is no other plan
- `beta1`: 0 to 0.9999999999999999; what ms keeps of itself; usually 0.9
- `beta2`: 0 to 0.9999999999999999; what vs keeps of itself; usually 0.999
- `eps`: 0 to inf; added to the root of vs; usually 1e-8
- `weight_decay`: 0 to inf; how much of params goes, times lr; usually 0.01
- `timeout`: the longest wait, in seconds

Returns nothing. No other rank takes part, and any thread may call it. Arrays are used where they
lie, and only during the call. Errors: [`SKError`](@ref); with a `code` below 20 nothing was
changed.

Source: I. Loshchilov, F. Hutter: Decoupled Weight Decay Regularization, 2019.
"""
function adamw!(
    params, grads, ms, vs;
    lr,
    step,
    beta1 = 0.9,
    beta2 = 0.999,
    eps = 1e-8,
    weight_decay = 0.01,
    timeout = nothing,
)
    params_ = list("params", params, FLOAT)
    grads_ = list("grads", grads, kind(eltype_of(params)) | kind(Float32))
    ms_ = list("ms", ms, kind(accumulator(eltype_of(params))))
    vs_ = list("vs", vs, kind(accumulator(eltype_of(params))))
    as_long("grads", grads_, "params", params_)
    as_long("ms", ms_, "params", params_)
    as_long("vs", vs_, "params", params_)
    GC.@preserve params_ grads_ ms_ vs_ begin
        args = AdamwArgs(
            sizeof(AdamwArgs),
            12,
            length(params_.tensors),
            pointer(params_.places),
            pointer(grads_.places),
            pointer(ms_.places),
            pointer(vs_.places),
            float_number("lr", lr),
            integer("step", step),
            float_number("beta1", beta1),
            float_number("beta2", beta2),
            float_number("eps", eps),
            float_number("weight_decay", weight_decay),
        )
        sk_call(Alone(), 12, Ref(args), timeout)
    end
    return nothing
end
