# What the front end asks every language to do: host name, facts for %info, a reset.

function run_action(name::AbstractString)
    name == "hostname" && return println(gethostname())
    name == "facts" && return show_facts()
    name == "reset" && return reset_names()
    startswith(name, "seed ") && return (Random.seed!(parse(Int, name[6:end]) + rank[]); nothing)
    startswith(name, "magic ") && throw(UsageError(about_magic(name[7:end])))
    throw(ArgumentError("Julia ranks know no action \"$name\""))
end

const FACTS = "application/vnd.superkernel.facts+json"

"""The machine as this rank sees it, and versions."""
function show_facts()
    facts = rstrip(host_facts())
    more = ["versions" => json(versions())]
    devices = get(ENV, "CUDA_VISIBLE_DEVICES", nothing)
    devices === nothing || push!(more, "cuda_visible_devices" => json(devices))
    # One object of two: "{...}" and "{...}".
    text = string(chop(facts), ", ", SubString(json(more), 2))
    send_display(DISPLAY_DATA, Bundle([FACTS => Vector{UInt8}(text)]))
end

function versions()
    number = @sk(sk_version(), Int32)
    library = join((number ÷ 1_000_000, number ÷ 1000 % 1000, number % 1000), '.')
    return ["libsk" => json(library), "julia" => json(string(VERSION))]
end

"""
Julia cannot take a name back: variables become `nothing`, so that what they held is freed. Constants,
functions and types stay until the ranks are started anew.
"""
function reset_names()
    own = Symbol[name for (name, _) in own_names()]
    for name in names_of(Main, true)
        (startswith(string(name), '#') || name in HIDDEN || name in own || name === :comm && !is_users()) && continue
        is_in(Main, name) && !Base.invokelatest(isconst, Main, name) || continue
        set_in_main(name, nothing)
    end
    is_in(Main, :ans) && set_in_main(:ans, nothing)
    add_own_names()
    GC.gc()
end
