# bf16: Julia's own from 1.11 on, else a type of the same name that converts and compares.

@static if isdefined(Core, :BFloat16)
    const BFloat16 = Core.BFloat16
else
    """
        BFloat16

    The upper half of a Float32. It is stored, converted and compared; arithmetic is Float32's.
    `reinterpret(BFloat16, x)` makes one of 16 bits.
    """
    primitive type BFloat16 <: AbstractFloat 16 end

    Base.Float32(x::BFloat16) = reinterpret(Float32, UInt32(reinterpret(UInt16, x)) << 16)
    (::Type{T})(x::BFloat16) where {T<:Union{Float16,Float64}} = T(Float32(x))
    function BFloat16(x::Float32)
        isnan(x) && return reinterpret(BFloat16, 0x7fc0)
        bits = reinterpret(UInt32, x)
        # To nearest; of two that are as near to the even one.
        return reinterpret(BFloat16, ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) % UInt16)
    end
    BFloat16(x::Float16) = BFloat16(Float32(x))
    BFloat16(x::Integer) = BFloat16(Float64(x))
    # By way of Float32 a Float64 would be rounded twice: a first time to odd keeps what matters.
    function BFloat16(x::Float64)
        near = Float32(x)
        (isnan(x) || isinf(near) || Float64(near) == x) && return BFloat16(near)
        bits = reinterpret(UInt32, near)
        toward_zero = abs(Float64(near)) > abs(x) ? bits - 0x1 : bits
        return BFloat16(reinterpret(Float32, toward_zero | 0x1))
    end
    Base.promote_rule(::Type{BFloat16}, ::Type{T}) where {T<:Union{Float32,Float64}} = T
    Base.promote_rule(::Type{BFloat16}, ::Type{Float16}) = Float32
    Base.promote_rule(::Type{BFloat16}, ::Type{<:Integer}) = Float32
    for operator in (:+, :-, :*, :/)
        @eval Base.$operator(x::BFloat16, y::BFloat16) =
            BFloat16($operator(Float32(x), Float32(y)))
    end
    for operator in (:(==), :<, :<=)
        @eval Base.$operator(x::BFloat16, y::BFloat16) = $operator(Float32(x), Float32(y))
    end
    Base.:-(x::BFloat16) = reinterpret(BFloat16, reinterpret(UInt16, x) ⊻ 0x8000)
    Base.isnan(x::BFloat16) = isnan(Float32(x))
    Base.isinf(x::BFloat16) = isinf(Float32(x))
    Base.isfinite(x::BFloat16) = isfinite(Float32(x))
    Base.zero(::Type{BFloat16}) = reinterpret(BFloat16, 0x0000)
    Base.one(::Type{BFloat16}) = reinterpret(BFloat16, 0x3f80)
    Base.show(io::IO, x::BFloat16) = print(io, "BFloat16(", Float32(x), ")")
end
