# What is typed out of habit in notebooks of Python and is no Julia: a sentence says what does it here.

"""Nothing that a rank does, by whatever name."""
struct UsageError <: Exception
    sentence::String
end

Base.showerror(io::IO, error::UsageError) = print(io, error.sentence)

const PACKAGES = "but %%on 0 in the first line, then using Pkg; Pkg.add(\"Name\")"
const PICTURES = "and none is needed: what shows itself as image/svg+xml or image/png is shown as a picture"

# Magics of IPython by their names, and how a sentence goes on that says they are not there.
const IN_JULIA = Dict(
    "time" => "but @time expression; for several lines @time begin … end",
    "timeit" => "but @time expression, the second time, as the first compiles; @elapsed gives the seconds",
    "memit" => "but @allocated expression",
    "prun" => "but using Profile; @profile expression; Profile.print()",
    "matplotlib" => PICTURES,
    "pylab" => PICTURES,
    "pip" => PACKAGES,
    "conda" => PACKAGES,
    "mamba" => PACKAGES,
    "run" => "but include(\"file.jl\")",
    "load" => "but include(\"file.jl\")",
    "cd" => "but cd(\"folder\")",
    "pwd" => "but pwd()",
    "ls" => "but ;ls, in a cell of its own",
    "env" => "but ENV[\"NAME\"]",
    "set_env" => "but ENV[\"NAME\"] = \"value\"",
    "who" => "but varinfo()",
    "whos" => "but varinfo()",
    "bash" => "but ;command, in a cell of its own",
    "sh" => "but ;command, in a cell of its own",
    "system" => "but ;command, in a cell of its own",
    "sx" => "but ;command, in a cell of its own",
    "writefile" => "but write(\"file\", text)",
    "pinfo" => "but ?name",
    "pdoc" => "but ?name",
    "psource" => "but @less call(arguments)",
)

# SuperKernel's own, which the front end takes from a cell's first lines.
const OWN_MAGICS = ("on", "rank", "px", "sk", "welcome", "info", "hostname", "reset", "shutdown", "reconnect")

const MAGIC = r"^%%?([A-Za-z]\w*)"

"""What to say of a magic that is not there."""
function about_magic(typed::AbstractString)
    name = match(MAGIC, typed)[1]
    name in OWN_MAGICS && return "$typed stands in the first line of a cell, or below other magics there"
    haskey(IN_JULIA, name) && return "there is no magic $typed in Julia, $(IN_JULIA[name])"
    return "there is no magic $typed in Julia, but macros, such as @time. SuperKernel's own magics, which " *
        "%sk lists, stand in the first lines of a cell"
end

about_shell(command) =
    "a command of the shell is a cell of its own, with a semicolon before it: ;$(lstrip(command))"

"""What to say where the undefined name is the command in a line of the cell that is one of a shell's; "" elsewhere.
`!ls` is good Julia, and so is a line `;ls` below others."""
function shell_hint(name::Symbol)
    place = statement[]
    (place === nothing || string(place.file) != cell_text[].first) && return ""
    lines = split(cell_text[].second, '\n')
    typed = match(r"^\s*[!;]\s*((\w+)(?:\s.*)?)$", 1 <= place.line <= length(lines) ? lines[place.line] : "")
    return typed !== nothing && typed[2] == string(name) ? about_shell(typed[1]) : ""
end

"""Refuses a line that cannot be parsed where it is a habit of another language."""
function check_habit(code::AbstractString, line::Integer)
    text = strip(split(code, '\n')[line])
    magic = match(MAGIC, text)
    magic === nothing || throw(UsageError(about_magic(magic.match)))
    startswith(text, '!') && throw(UsageError(about_shell(text[2:end])))
    startswith(text, '?') && throw(UsageError("help is a cell of its own: $text"))
    asked = match(r"^([\w.@!]+)\?\??$", text)
    asked === nothing || throw(UsageError("help is asked for with the question mark in front: ?$(asked[1])"))
    return
end

"""A line behind an error's text that tells a newcomer what is meant; "" for most."""
function hint_of(@nospecialize(error))
    member = field_of_comm(error)
    if error isa LoadError  # Of a file that the cell includes.
        return hint_of(error.error)
    elseif is_of_package(member)
        return "it is a function: `using LibSK`, and $member(comm, …)"
    elseif error isa UndefVarError
        error.var === :comm &&
            return "`comm` is made before a cell that names it: write `comm;` into this one, or run such a cell"
        is_of_package(error.var) && return BRINGS_IN
        return shell_hint(error.var)
    elseif error isa ErrorException
        startswith(error.msg, "invalid redefinition of constant") &&
            return "types and constants stay what they are until the kernel is restarted"
    elseif error isa ArgumentError
        startswith(error.msg, "Package ") && occursin("not found in current path", error.msg) &&
            return "All ranks share one environment: add it in a cell that begins with %%on 0"
    elseif is_of_libsk(typeof(error))
        error.sentence == "this communicator was closed" &&
            return "`comm` is another in the next cell"
    elseif error isa MethodError
        error.f === rank[] && error.args isa Tuple{AbstractMatrix} &&
            return "`rank` is the number of this rank; the rank of a matrix is LinearAlgebra.rank"
    end
    return ""
end

"""What `comm` was asked for as a field that it does not have; else nothing."""
field_of_comm(@nospecialize(error)) = nothing

function field_of_comm(error::ErrorException)
    found = match(r"^type Comm has no field (\w+!?)$", error.msg)
    return found === nothing ? nothing : Symbol(found[1])
end

@static if isdefined(Core, :FieldError)  # Since 1.12.
    field_of_comm(error::Core.FieldError) = nameof(error.type) === :Comm ? error.field : nothing
end

const BRINGS_IN = "`using LibSK` brings it in"

is_of_package(name) = name isa Symbol && name in package_names()

"""What LibSK exports; read from its source where it is not loaded yet."""
function package_names()
    haskey(Base.loaded_modules, LIBSK_ID) && return names_of(Base.loaded_modules[LIBSK_ID])
    file = Base.locate_package(LIBSK_ID)
    found = Symbol[]
    file === nothing && return found
    for each in readdir(dirname(file), join = true), line in eachmatch(r"^export ((?:.*,\n)*.*)"m, read(each, String))
        append!(found, Symbol.(strip.(split(line[1], ','))))
    end
    return found
end
