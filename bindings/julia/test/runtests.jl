# `] test LibSK`: the tests of one rank. Those of several are ./dev test --suite julia.
for name in ("abi", "adamw", "ahead", "arrays", "bfloat16", "columns", "help", "lifetimes", "sessions", "topology",
             "collectives", "prepared", "products")
    # Each is a program of its own, as they give the same names to different things.
    @eval module $(gensym(name)) include($(joinpath(@__DIR__, "$name.jl"))) end
end
