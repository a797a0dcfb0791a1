# Who this rank is, sets of ranks, and `@on`.

from_environment(name) = parse(Int, get(ENV, name, "0"))

# As they were at the start: a cell may change the environment.
const rank, local_rank, world_size = Ref(0), Ref(0), Ref(1)

function know_rank()
    rank[] = from_environment("RANK")
    local_rank[] = from_environment("LOCAL_RANK")
    world_size[] = from_environment("WORLD_SIZE")
    for name in OF_THE_JOB
        haskey(ENV, name) && (job_environment[name] = ENV[name])
    end
end

# What LibSK reads to meet the other ranks.
const OF_THE_JOB = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "SK_MASTER_PORT",
                    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SK_LIBRARY")
const job_environment = Dict{String,String}()

# Which would be rank 0 or 1.
in_set(set::Bool, own, size) = throw(ArgumentError(
    "@on takes ranks (0, 0:2, [0, 3], \"0-3,5\"), not a condition: write `rank == 0 && expression`"))

"""Whether a rank is in a set: 3, 0:2, [0, 3], (1, 2), "0-3,5", "!0" or "all"."""
in_set(set::Integer, own, size) = valid_rank(set, size) == own
in_set(set::Union{AbstractVector{<:Integer},Tuple,AbstractSet{<:Integer}}, own, size) =
    (foreach(each -> valid_rank(each, size), set); own in set)

function in_set(set::AbstractString, own, size)
    text = strip(set)
    text == "all" && return true
    startswith(text, '!') && return !in_set(text[2:end], own, size)
    found = false
    for part in split(text, ',')
        ends = match(r"^\s*(\d+)\s*(?:-\s*(\d+)\s*(?::\s*(\d+)\s*)?)?$", part)
        ends === nothing && throw(ArgumentError(
            "@on \"$set\": \"$part\" is no rank and no range such as 0-3 or 0-6:2"))
        first = valid_rank(parse(Int, ends[1]), size)
        last = ends[2] === nothing ? first : valid_rank(parse(Int, ends[2]), size)
        step = ends[3] === nothing ? 1 : parse(Int, ends[3])
        first <= last && step > 0 || throw(ArgumentError("@on \"$set\": \"$part\" is empty"))
        found |= own in first:step:last
    end
    return found
end

in_set(set, own, size) = throw(ArgumentError(
    "@on takes a rank (0), a range (0:2), a list ([0, 3]) or a text (\"0-3,5\"), not a $(typeof(set))"))

function valid_rank(each, size)
    each isa Integer && 0 <= each < size && return Int(each)
    throw(ArgumentError("@on: rank $each asked for, but there are ranks 0 to $(size - 1)"))
end

"""
    @on ranks expression

Evaluates the expression on these ranks and is its value there; on the others it is `nothing`.
The set is a rank, a range, a list or a text: `@on 0 ...`, `@on 0:2 ...`, `@on "0-3,5" ...`.
"""
macro on(set, expression)
    # Without line numbers of this file: those of the cell hold on.
    is_on = :(in_set($(esc(set)), rank[], world_size[]))
    return Expr(:if, is_on, esc(expression))
end

"""What every cell finds in Main; `%reset` puts it there again."""
function own_names()
    return [
        :rank => rank[],
        :local_rank => local_rank[],
        :world_size => world_size[],
        :sk => SuperKernelRank,
    ]
end

function add_own_names()
    for (name, value) in own_names()
        set_in_main(name, value)
    end
    Core.eval(Main, :(using .sk: @on))
    # As in the REPL: varinfo(), @which, @code_warntype, ...
    is_in(Main, :InteractiveUtils) || Core.eval(Main, :(const InteractiveUtils = $InteractiveUtils))
    Core.eval(Main, :(using .InteractiveUtils))
    return
end
