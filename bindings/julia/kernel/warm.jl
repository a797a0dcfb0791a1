# What a rank does in its first cells, done once while the image is made, so that their native code
# is in it. There is no controller here: every call of libsk is one of a function that returns 0.

# Every method of ours whose types are known.
for name in names(SuperKernelRank, all = true)
    isdefined(SuperKernelRank, name) || continue
    f = getfield(SuperKernelRank, name)
    # A function without a name that holds no variables.
    f isa DataType && f <: Function && isdefined(f, :instance) && (f = f.instance)
    f isa Function || continue
    for method in methods(f)
        method.module === SuperKernelRank && precompile(method.sig)
    end
end

# And of LibSK's calls those that most cells make.
Base.loaded_modules[LIBSK_ID].compile_ahead()

warm_request(code, kind = EXECUTE; expressions = "") =
    Request(kind, 1, code, ncodeunits(code), 1, false, true, 0, expressions, 0, "", "")

# What they define is in Main of every notebook, under names that nobody sees, and that nobody's functions
# need: the type of a function `f` is called `#f`.
const WARM_CELLS = (
    "print(1)", "println(\"x\", 1, 2.5)", "1 + 1", "2.5", "\"text\"", "nothing", "var\"#warm x#\" = [1, 2, 3]",
    "[1.0 2.0; 3.0 4.0]", "[1 2; 3 4]", "Float32[1, 2]", "Float32[1 2; 3 4]", "[1.5, 2.5]", "[\"a\", \"b\"]",
    "(1, \"a\")", "(1, 2, 3)", "\"x is $(1.5), $(2)\"", "println(\"x \", Float32[1, 2])", "1.0f0",
    "[1.0 2.0; 3.0 4.0] * [1.0 2.0; 3.0 4.0]", "[1.0 2.0; 3.0 4.0]'", "[1.0 2.0; 3.0 4.0] \\ [1.0, 2.0]",
    "[1.0 2.0] .* 2 .+ 1", "hcat([1.0, 2.0], [3.0, 4.0])", "sum([1.0 2.0], dims = 1)", "randn(2, 2)[:, 1]",
    "round(1.234, digits = 2)", "join([1, 2], \", \")", "zeros(Float32, 2, 2)", "maximum(abs, [1.0, 2.0])",
    "Dict(1 => 2)", ":symbol", "true", "rand(2) .+ 1",
    "for i in 1:2\n    y = i\nend", "var\"#warm f#\"(x) = x + 1\nvar\"#warm f#\"(2)", "error(\"boom\")", "sqrt(-1)", "undefined_",
    "1 +", "sleep(0.001)", "typeof(1)", "1:3", "?println", ";true", "println(stderr, \"x\")", "display(1)",
    "using .sk: @on\n@on 0 1", "exit()",
)

refuse_editors()
fill!(addresses, cglobal(:jl_is_debugbuild))
Base.sigatomic_begin()
let output = RankStream(STDOUT), kept = copy(kept_descriptors), displays = copy(Base.Multimedia.displays)
    set_in_main(:sk, SuperKernelRank)
    pushdisplay(RankDisplay())
    for which in (STDOUT, STDERR)
        kept_descriptors[which] = ccall(:dup, Cint, (Cint,), which)
    end
    serves[] = true
    for code in WARM_CELLS
        serve_one(warm_request(code))
        serve_one(warm_request(code, IS_COMPLETE))
    end
    serves[] = false
    serve_one(warm_request("1", expressions = "{\"a\": \"1 + 1\"}"))
    for code in ("prin", "VERSION.", "\\alph", "Base.pri", "sin(", ";ls /us")
        serve_one(warm_request(code, COMPLETE))
    end
    for name in ("println", "sum", "map", "Dict", "@time", "for", "sin", "Base.Threads")
        serve_one(warm_request(name, INSPECT))
    end
    serve_one(warm_request("hostname", ACTION))
    for x in (1, 2.5, "text", [1, 2], 'c', :s, 0x1, true)
        print(output, x)
        println(output, x)
        show(output, x)
    end
    printstyled(output, "x", color = :red)
    @async nothing
    yield()
    signal_children()
    forget_signals()
    next_request()
    precompile(wait, (FileWatching.FDWatcher,))
    precompile(FileWatching.FDWatcher, (RawFD, Bool, Bool))
    precompile(schedule, (Task, Any))
    precompile(main, (String,))
    precompile(withenv, (typeof(make_comm), Pair{String,String}, Vararg{Pair{String,String}}))
    # What Julia itself does at the start of a process without a terminal.
    precompile(TextDisplay, (Base.PipeEndpoint,))
    precompile(Logging.ConsoleLogger, (Base.PipeEndpoint,))
    precompile(REPL.Terminals.TTYTerminal, (String, IOStream, Base.PipeEndpoint, Base.PipeEndpoint))
    for x in (1, 1:3, [1], "x", nothing, sin, 2.5)
        mark_of(x)
        entries_of("x", x)
    end
    traceback_of(Tuple{Any,Any}[(InterruptException(), backtrace())])
    precompile(sleep, (Int,))
    precompile(sleep, (Float64,))
    for which in (STDOUT, STDERR)
        ccall(:close, Cint, (Cint,), kept_descriptors[which])
    end
    copyto!(kept_descriptors, kept)
    copyto!(resize!(Base.Multimedia.displays, length(displays)), displays)
end
Base.sigatomic_end()
# As in a process that has done nothing yet.
fill!(addresses, C_NULL)
empty!(told)
knows_language[] = false
own_count[] = 0
statement[] = nothing
cell_text[] = "" => ""
foreach(held -> held.taker = nothing, stream_locks)
cell_task[] = nothing
