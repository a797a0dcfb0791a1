# Run once by `sk install` as `julia --output-o FILE.o make_image.jl`: what the system image holds
# beside Julia's own is this module, and native code of all that a first cell needs.
Base.__init__()
# Julia leaves these empty while it writes code.
@eval Sys BINDIR = ccall(:jl_get_julia_bindir, Any, ())::String
@eval Sys STDLIB = abspath(BINDIR, "..", "share", "julia", "stdlib", "v$(VERSION.major).$(VERSION.minor)")
Base.init_depot_path()
Base.init_load_path()
Base.include(Base.__toplevel__, joinpath(@__DIR__, "src", "SuperKernelRank.jl"))
# Of what is loaded already Julia runs no __init__ either; help needs this one.
Base.loaded_modules[Base.PkgId("SuperKernelRank")].REPL.__init__()
let warm = joinpath(@__DIR__, "warm.jl")
    Base.include(Base.loaded_modules[Base.PkgId("SuperKernelRank")], warm)
end
# A process finds its own at its start.
empty!(DEPOT_PATH)
empty!(LOAD_PATH)
