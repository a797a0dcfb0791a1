# Cells that begin with the REPL's other modes: `?` help, `;` a shell's command, `]` packages.

# As a line of comment the front end leaves `%%on 0`, too.
const LEADING_COMMENTS = r"^(?:\s*#(?!=)[^\n]*(?:\n|$))+"

"""Whether the cell is of another mode, and then what it leads to, as code of the cell."""
function other_mode(code::AbstractString)
    text = lstrip(replace(code, LEADING_COMMENTS => ""))
    isempty(text) && return nothing
    first, rest = text[1], strip(SubString(text, nextind(text, 1)))
    first == '?' && return () -> show_help(rest)
    first == ';' && return () -> run_shell(rest)
    first == ']' && return refuse_packages
    return nothing
end

function show_help(words)
    isempty(words) && error("`?` stands before a name: ?println")
    name = Symbol(words)
    if !is_in(Main, name) && is_of_package(name)
        send_display(DISPLAY_PAGE, Bundle(["text/plain" => Vector{UInt8}("$words is a name of LibSK. $BRINGS_IN.\n")]))
        return nothing
    end
    found, similar = documentation(words)
    bundle = help_bundle(found)
    # The REPL prints these first; in a pager they follow what was asked for.
    isempty(strip(similar)) ||
        (bundle[1] = "text/plain" => vcat(bundle[1].second, Vector{UInt8}("\n\n" * strip(similar) * "\n")))
    send_display(DISPLAY_PAGE, bundle)
    return nothing
end

"""`cd` is this process's own; everything else a shell's, whose status is told."""
function run_shell(line)
    isempty(line) && error("`;` stands before a command of a shell: ;ls")
    occursin('\n', line) && !startswith(line, "cd ") && return run_command(line)
    if line == "cd" || startswith(line, "cd ")
        # As the REPL reads it, with \$names of Julia.
        command = Core.eval(Main, :(Base.cmd_gen($(Base.shell_parse(String(line))[1]))))
        Base.repl_cmd(command, stdout)
        return nothing
    end
    return run_command(line)
end

function run_command(line)
    shell = get(ENV, "JULIA_SHELL", "/bin/sh")
    child = run(ignorestatus(Cmd([shell, "-c", String(line)])))
    child.exitcode == 0 || println("exit status ", child.exitcode)
    return nothing
end

refuse_packages() = throw(UsageError(
    "] is the package mode of Julia's REPL. All ranks share one environment, so let one of them change it: " *
    "%%on 0 in the first line, then using Pkg; Pkg.add(\"Name\")"))
