# The program of a rank: `julia rank.jl LIBSK`. The module is in the system image where `sk install`
# could make one, and is read here where it could not.
let id = Base.PkgId("SuperKernelRank")
    haskey(Base.loaded_modules, id) ||
        Base.include(Base.__toplevel__, joinpath(@__DIR__, "src", "SuperKernelRank.jl"))
    # What a cell includes finds no arguments.
    status = Base.invokelatest(Base.invokelatest(getfield, Base.loaded_modules[id], :main), popfirst!(ARGS))
    exit(status)
end
