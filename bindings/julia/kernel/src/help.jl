# Documentation: of the name at the cursor, and behind `?`.

"""The forms of a piece of documentation."""
function help_bundle(@nospecialize(found))
    bundle = Bundle()
    for kind in ("text/plain", "text/html", "text/markdown")
        (kind == "text/plain" || can_show(kind, found)) && push!(bundle, kind => shown_as(kind, found))
    end
    return bundle
end

"""What the REPL says to `?words`, without its list of similar names."""
function documentation(words::AbstractString)
    searched = IOBuffer()
    try
        return Core.eval(Main, REPL.helpmode(searched, words)), String(take!(searched))
    catch error
        error isa InterruptException && rethrow()
        # Similar names cannot be looked for where one in Main is no UTF-8; what was asked for can be shown.
        name = Meta.parse(words, raise = false, depwarn = false)
        name isa Symbol || name isa Expr && name.head in (:., :macrocall) || rethrow()
        return Core.eval(Main, Expr(:macrocall, GlobalRef(Core, Symbol("@doc")), LineNumberNode(0), name)), ""
    end
end

const NAME_PART = r"[\w!.@∂∇√∛∜²³¹ʰʲʳʷʸˡˢˣ′″‴⁗₀-₉ₐₑₒₓ\p{L}\p{N}_]"

"""The name around a byte of the code: with its modules, `@` and `!`."""
function name_at(code::AbstractString, cursor::Integer)
    isempty(code) && return ""
    is_part(at) = 1 <= at <= ncodeunits(code) && occursin(NAME_PART, string(code[at]))
    at = thisind(code, clamp(cursor, 1, ncodeunits(code)))
    if !is_part(at)
        at < ncodeunits(code) && is_part(nextind(code, at)) ? (at = nextind(code, at)) : return operator_at(code, at)
    end
    first = last = at
    while first > 1 && is_part(prevind(code, first))
        first = prevind(code, first)
    end
    while last < ncodeunits(code) && is_part(nextind(code, last))
        last = nextind(code, last)
        last > ncodeunits(code) && break
    end
    return strip(code[first:last], '.')
end

operator_at(code, at) = Base.isoperator(Symbol(code[at])) ? string(code[at]) : ""

"""The documentation of the name at the cursor; empty where there is no such name."""
function inspect(code::AbstractString, cursor::Integer)
    name = name_at(code, cursor)
    isempty(name) && return Bundle()
    is_known(name) || return Bundle()
    found, _ = documentation(name)
    return help_bundle(found)
end

function is_known(name)
    haskey(Base.Docs.keywords, Symbol(name)) && return true
    parsed = Meta.parse(name, raise = false, depwarn = false)
    parsed isa Symbol && return is_in(Main, parsed)
    parsed isa Expr || return false
    parsed.head === :macrocall && return is_in(Main, parsed.args[1])
    parsed.head === :. || return Base.isoperator(Symbol(name))
    owner, member = parsed.args[1], parsed.args[2]
    member isa QuoteNode || return false
    holder = module_of(owner)
    return holder isa Module && is_in(holder, member.value)
end

"""The module that `A.B` names; nothing for anything else. No code of the user's runs for it."""
function module_of(ex)
    ex isa Symbol && return is_in(Main, ex) ? of_module(Main, ex) : nothing
    ex isa Expr && ex.head === :. && ex.args[2] isa QuoteNode || return nothing
    holder = module_of(ex.args[1])
    holder isa Module && is_in(holder, ex.args[2].value) || return nothing
    return of_module(holder, ex.args[2].value)
end
