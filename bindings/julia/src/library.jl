# Which libsk.so is used, and the version of what was loaded.

"""What every call names. `__init__` loads the file, so that this name is found by then."""
const libsk = "libsk.so.0"

"""Where libsk.so may lie, the first that is there: `SK_LIBRARY`, beside an installed package, in the
build folder of a checkout. Else the system's loader looks for it."""
function library_path()
    said = get(ENV, "SK_LIBRARY", "")
    isempty(said) || return said
    installed = joinpath(@__DIR__, "..", "..", "..", "..", "lib", libsk)
    built = joinpath(@__DIR__, "..", "..", "..", "build", "install", "lib", libsk)
    for path in (installed, built)
        isfile(path) && return normpath(path)
    end
    return libsk
end

function load_library()
    path = library_path()
    handle = Libdl.dlopen(path; throw_error = false)
    if handle === nothing
        error(
            "LibSK: cannot load $path; give the path of libsk.so.0 in SK_LIBRARY, or its folder in " *
            "LD_LIBRARY_PATH",
        )
    end
    loaded = version()
    if (loaded.major, loaded.minor) != (0, 1)
        error("LibSK: $path is version $loaded; this package is for 0.1")
    end
    return handle
end

"""
    version()

The version of the loaded libsk.so.
"""
function version()
    number = ccall((:sk_version, libsk), Int32, ())
    return VersionNumber(number ÷ 1_000_000, number ÷ 1000 % 1000, number % 1000)
end
