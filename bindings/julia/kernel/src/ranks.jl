# Who this rank is, sets of ranks, and `@on`.

from_environment(name) = parse(Int, get(ENV, name, "0"))

"""The ranks that a set names: 3, 0:2, [0, 3], (1, 2), "0-3,5", "!0" or "all"."""
in_set(set::Integer, rank, world_size) = valid_rank(set, world_size) == rank
in_set(set::Union{AbstractVector{<:Integer},Tuple,AbstractSet{<:Integer}}, rank, world_size) =
    (foreach(each -> valid_rank(each, world_size), set); rank in set)

function in_set(set::AbstractString, rank, world_size)
    text = strip(set)
    text == "all" && return true
    startswith(text, '!') && return !in_set(text[2:end], rank, world_size)
    found = false
    for part in split(text, ',')
        ends = match(r"^\s*(\d+)\s*(?:-\s*(\d+)\s*(?::\s*(\d+)\s*)?)?$", part)
        ends === nothing && throw(ArgumentError("@on \"$set\": \"$part\" is no rank and no range such as 0-3 or 0-6:2"))
        first = valid_rank(parse(Int, ends[1]), world_size)
        last = ends[2] === nothing ? first : valid_rank(parse(Int, ends[2]), world_size)
        step = ends[3] === nothing ? 1 : parse(Int, ends[3])
        first <= last && step > 0 || throw(ArgumentError("@on \"$set\": \"$part\" is empty"))
        found |= rank in first:step:last
    end
    return found
end

in_set(set, rank, world_size) = throw(ArgumentError(
    "@on takes a rank (0), a range (0:2), a list ([0, 3]) or a text (\"0-3,5\"), not a $(typeof(set))"))

function valid_rank(each, world_size)
    each isa Integer && 0 <= each < world_size && return Int(each)
    throw(ArgumentError("@on: rank $each asked for, but there are ranks 0 to $(world_size - 1)"))
end

"""
    @on ranks expression

Evaluates the expression on these ranks and is its value there; on the others it is `nothing`.
The set is a rank, a range, a list or a text: `@on 0 ...`, `@on 0:2 ...`, `@on "0-3,5" ...`.
"""
macro on(set, expression)
    return quote
        if in_set($(esc(set)), from_environment("RANK"), from_environment("WORLD_SIZE"))
            $(esc(expression))
        end
    end
end

"""What every cell finds in Main; `%reset` puts it there again."""
function own_names()
    return [
        :rank => from_environment("RANK"),
        :local_rank => from_environment("LOCAL_RANK"),
        :world_size => from_environment("WORLD_SIZE"),
        :comm => make_communicator(),
        :sk => SuperKernelRank,
    ]
end

function add_own_names()
    for (name, value) in own_names()
        value === nothing || ccall(:jl_set_global, Cvoid, (Any, Any, Any), Main, name, value)
    end
    Core.eval(Main, :(using .sk: @on))
    return
end
