# The names of Main: as they are by now, and as libsk keeps them.
#
# Since Julia 1.12 each world has bindings of its own, and the rank's program stays in the world of its start, in
# which no cell defines anything: whatever it asks of a module it asks in the newest one.

is_in(holder::Module, name) = Base.invokelatest(isdefined, holder, name)::Bool
of_module(holder::Module, name) = Base.invokelatest(getfield, holder, name)
names_of(holder::Module, all = false) = Base.invokelatest(names, holder, all = all)::Vector{Symbol}

"""As the REPL: not through `=`, which a macro or a constant could turn into something else."""
function set_in_main(name::Symbol, @nospecialize(value))
    is_in(Main, name) || Core.eval(Main, Expr(:global, name))  # 1.12 sets only what is declared.
    Base.invokelatest(put_in_main, name, value)
    return
end

put_in_main(name, @nospecialize(value)) = ccall(:jl_set_global, Cvoid, (Any, Any, Any), Main, name, value)

# What libsk completes and inspects while a cell runs: the rank's I/O thread answers from it without Julia.
# Only what changed since the last cell is handed over, and nothing of the user's is called for it: no
# `show`, no `==`, no `getproperty`.

const NAMES_MAX = 2000
const MEMBERS_MAX = 1000

const told = Dict{Symbol,UInt}()  # Each name by what it was when it was told.
const knows_language = Ref(false)

function tell_names()
    if !knows_language[]
        knows_language[] = true
        set_names("", language_names())
    end
    present = Set{Symbol}()
    for name in names_of(Main, true)
        (startswith(string(name), '#') || !is_in(Main, name) || name in HIDDEN) && continue
        length(present) >= NAMES_MAX && break
        push!(present, name)
        value = of_module(Main, name)
        mark = mark_of(value)
        get(told, name, UInt(0)) == mark && continue
        told[name] = mark
        set_names(string(name), entries_of(string(name), value))
    end
    length(present) == length(told) && return
    for name in collect(keys(told))
        name in present && continue
        delete!(told, name)
        set_names(string(name), Pair{String,String}[])
    end
end

const HIDDEN = (:Base, :Core, :Main, :ans, :eval, :include)

"""What tells one value from another without looking into it; `objectid` would read all of a tuple."""
mark_of(@nospecialize(value)) = value isa PLAIN ? hash(value) :
    hash(typeof(value).name.name, value isa Module ? hash(nameof(value)) : address_of(value))

const PLAIN = Union{Bool,Int,Float64,Nothing,Symbol}

address_of(@nospecialize(value)) = ismutable(value) ? UInt(ccall(:jl_value_ptr, Ptr{Cvoid}, (Any,), value)) :
    UInt(hash(sizeof(typeof(value))))

function entries_of(name, @nospecialize(value))
    entries = [name => help_of(value)]
    members = value isa Module ? names_of(value) :
        value isa Function || value isa Type ? Symbol[] : fieldnames_of(value)
    for member in Iterators.take(members, MEMBERS_MAX)
        push!(entries, "$name.$member" => "")
    end
    return entries
end

fieldnames_of(@nospecialize(value)) = try Symbol[fieldname(typeof(value), i) for i in 1:fieldcount(typeof(value))] catch; Symbol[] end

help_of(@nospecialize(value)) = string("Type: ", type_text(typeof(value)),
    value isa PLAIN ? "\nValue: $value" : "",
    value isa Union{String,Array} ? "\nLength: $(length(value))" : "")

"""The name of a type; its parameters may have a `show` of their own."""
type_text(kind) = kind isa DataType ? string(kind.name.module, ".", kind.name.name) : "Type"

language_names() = Pair{String,String}[string(name) => "" for name in
    vcat(names(Base), names(Core), collect(Symbol, keys(Base.Docs.keywords)))]

function set_names(root, entries)
    texts = [(c_text(name), c_text(help)) for (name, help) in entries]
    GC.@preserve texts begin
        raw = [RawName(pointer(name), pointer(help)) for (name, help) in texts]
        root = c_text(root)
        # No room is no mistake: what does not fit cannot be completed while a cell runs.
        GC.@preserve raw @sk sk_worker_snapshot(worker.handle::Ptr{Cvoid}, root::Cstring,
                                                pointer(raw)::Ptr{RawName}, length(raw)::UInt64)
    end
    return
end
