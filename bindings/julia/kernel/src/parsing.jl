# A cell's text as expressions: checked before anything of it runs, with the REPL's rules for
# globals in loops, and loops that an interrupt can end.

"""The cell is no Julia."""
struct CellSyntaxError <: Exception
    message::String
    place::String  # "In[3]:2"
end

Base.showerror(io::IO, error::CellSyntaxError) = print(io, "syntax: ", error.message, "\n at ", error.place)

"""The whole cell as one expression; nothing where it is empty."""
function parse_cell(code::String, name::String)
    parsed = Base.parse_input_line(code, filename = name)
    if parsed isa Expr && parsed.head in (:error, :incomplete)
        message = words_of_problem(isempty(parsed.args) ? "" : parsed.args[1])
        line = line_of_problem(code)
        check_habit(code, line)
        throw(CellSyntaxError(message, "$name:$line"))
    end
    return with_safe_points(REPL.softscope(parsed))
end

"""What the parser says, a text or, since 1.10, a `ParseError`, in words that may follow "syntax: "."""
words_of_problem(problem) =
    replace(string(problem isa Meta.ParseError ? problem.msg : problem), r"^(?:syntax: |ParseError:\s*)" => "")

# Blanks and comments.
const BLANK = r"^(?:[\s;]|#=(?s:.*?)=#|#(?!=).*)*"

"""The line at which the first statement begins that cannot be parsed."""
function line_of_problem(code::String)
    at = firstindex(code)
    while at <= ncodeunits(code)
        statement, next = Meta.parse(code, at, greedy = true, raise = false, depwarn = false)
        if statement isa Expr && statement.head in (:error, :incomplete)
            break
        end
        next == at && break
        at = next
    end
    before = at > ncodeunits(code) ? "" : match(BLANK, SubString(code, at)).match
    at += ncodeunits(before)
    return 1 + count(==('\n'), SubString(code, 1, prevind(code, min(at, ncodeunits(code) + 1))))
end

# Macros that run what they are given as it stands, here.
const TRANSPARENT_MACROS = Symbol.((
    "@time", "@timev", "@timed", "@elapsed", "@allocated", "@showtime", "@inbounds", "@threads", "@show",
    "@sync", "@async", "@on", "@eval", "@testset", "@views", "@view", "@static", "@lock"))

macro_name(@nospecialize(name)) = name isa Symbol ? name :
    name isa GlobalRef ? name.name :
    name isa Expr && name.head === :. && name.args[end] isa QuoteNode ? name.args[end].value : nothing

"""
In loops of the cell itself each round begins with a safe point, at which Julia looks at signals:
compiled loops that call nothing have none. Functions are left without, for their speed. Each `catch` and
`finally`, those of functions too, begins with a look at whether it is about an interrupt. What the cell includes
is read in the same way.
"""
function with_safe_points(@nospecialize(ex), runs_here = true)
    ex isa Expr && !(ex.head in OPAQUE) || return ex
    ex.head === :macrocall && !(macro_name(ex.args[1]) in TRANSPARENT_MACROS) && return ex
    if is_function(ex)
        return Expr(ex.head, ex.args[1], Any[with_safe_points(each, false) for each in ex.args[2:end]]...)
    end
    args = Any[with_safe_points(each, runs_here) for each in ex.args]
    is_loop = ex.head in (:for, :while)
    is_loop && runs_here && (args[2] = Expr(:block, SAFE_POINT, args[2]))
    if ex.head === :try  # The body, a name, what catches, what is done finally; false where there is none.
        args[3] === false || (args[3] = Expr(:block, look(true), args[3]))
        length(args) < 4 || args[4] === false || (args[4] = Expr(:block, look(false), args[4]))
    end
    is_include(ex) && insert!(args, 2, with_safe_points)
    return Expr(ex.head, args...)
end

# Not code that runs as it stands.
const OPAQUE = (:quote, :inert, :meta, :import, :using, :export)

function is_function(ex)
    ex.head in (:function, :macro, :->) && return true
    return ex.head === :(=) && is_signature(ex.args[1])
end

is_signature(ex) = ex isa Expr && (ex.head === :call || ex.head in (:where, :(::)) && is_signature(ex.args[1]))

"""Whether it is `include(file)`, and that is Julia's own, which may be told how to read it."""
is_include(ex) = ex.head === :call && length(ex.args) == 2 && ex.args[1] === :include &&
    !(ex.args[2] isa Expr && ex.args[2].head in (:..., :parameters, :kw)) &&
    Base.invokelatest(applicable, Main.include, with_safe_points, "")

const SAFE_POINT = Expr(:call, GlobalRef(GC, :safepoint))
look(is_catch) = Expr(:call, GlobalRef(@__MODULE__, :note_interrupt), is_catch)

"""As the REPL has it, also where the last statement is followed by a comment."""
hides_value(code::AbstractString) = REPL.ends_with_semicolon(code)
