# Run once by `sk install` as `julia --output-o FILE.o make_image.jl`: what the system image holds
# beside Julia's own is this module, LibSK, and native code of all that a first cell needs. What it
# does is told on stdout, for `sk install` to show: not by a function, whose name would be in every notebook.
println(Core.stdout, "\nstep: reading the rank's program and LibSK")
Base.__init__()
# Julia leaves these empty while it writes code.
@eval Sys BINDIR = ccall(:jl_get_julia_bindir, Any, ())::String
@eval Sys STDLIB = abspath(BINDIR, "..", "share", "julia", "stdlib", "v$(VERSION.major).$(VERSION.minor)")
Base.init_depot_path()
Base.init_load_path()
Base.include(Base.__toplevel__, joinpath(@__DIR__, "src", "SuperKernelRank.jl"))
let rank = Base.loaded_modules[Base.PkgId("SuperKernelRank")], folder = joinpath(@__DIR__, "LibSK")
    push!(LOAD_PATH, isdir(folder) ? folder : dirname(@__DIR__))
    Base.invokelatest(getfield, Base.require(rank.LIBSK_ID), :starts_itself)[] = false
end
# Of what is loaded already Julia runs no __init__ either; help needs this one.
Base.loaded_modules[Base.PkgId("SuperKernelRank")].REPL.__init__()
println(Core.stdout, "\nstep: running first cells")
let warm = joinpath(@__DIR__, "warm.jl")
    Base.include(Base.loaded_modules[Base.PkgId("SuperKernelRank")], warm)
end
# A process finds its own at its start.
empty!(DEPOT_PATH)
empty!(LOAD_PATH)
println(Core.stdout, "\nstep: writing native code")
