# A cell: parsed, run in Main, its value shown.

"""The name under which a cell's lines are told, "In[3]"."""
cell_name(count) = "In[$count]"

# The cell that runs, or ran last: its name, and its text.
const cell_text = Ref("" => "")

# Where the statement begins that runs, or ran last; nothing before the first.
const statement = Ref{Union{LineNumberNode,Nothing}}(nothing)

"""
Runs a parsed cell's statements, one by one, so that it is known which of them fails: Julia keeps no frame
of a lone name or of `using`. By this function's frame a backtrace is cut. A cell is in no file: what it
includes is looked for in the folder where it runs.
"""
@noinline function evaluate(ex)
    task_local_storage(:SOURCE_PATH, nothing)
    value = nothing
    for each in (ex isa Expr && ex.head === :toplevel ? ex.args : Any[ex])
        if each isa LineNumberNode
            statement[] = each
        else
            value = Core.eval(Main, Expr(:toplevel, statement[], each))
        end
    end
    GC.safepoint()  # An interrupt in a call of C, from which there is no other way back to us, is the cell's.
    return value
end

"""A cell does not end its rank."""
struct ExitError <: Exception
    code::Int
end

Base.showerror(io::IO, error::ExitError) = print(io, "exit($(error.code)): a cell does not end its rank. ",
    "The ranks end with the kernel: shut it down or restart it.")

# Whether cells are served: then exit() is theirs.
const serves = Ref(false)

# Julia's own, which ends the process, is called where this is no rank.
Base.exit(code) = serves[] ? refuse_exit(code) : ccall(:jl_exit, Cvoid, (Int32,), code)

function refuse_exit(code)
    error = ExitError(code)
    current_task() === cell_task[] || tell(sprint(showerror, error))  # Nobody may wait for the task.
    throw(error)
end

const own_count = Ref(0)  # Where the notebook does not count.

"""Runs one cell; what it raised, or nothing."""
function run_cell(request)
    count = request.execution_count > 0 ? request.execution_count : (own_count[] += 1)
    cell_text[] = cell_name(count) => request.code
    _, failure = as_cell_code() do
        mode = other_mode(request.code)
        if mode !== nothing
            mode()
            return nothing
        end
        parsed = parse_cell(request.code, cell_name(count))
        connect_before(parsed)
        hides = request.silent || hides_value(request.code)
        value = evaluate(parsed)
        set_in_main(:ans, value)
        hides || show_result(value)
        return nothing
    end
    return failure
end

"""The values of the expressions that came with a cell, as JSON for the front end."""
function answer_expressions(expressions::AbstractString)
    answers = Pair{String,String}[]
    for (name, code) in read_json_texts(expressions)
        bundle, failure = as_cell_code(() -> bundle_of(evaluate(parse_cell(code, "user_expressions"))))
        if failure === nothing
            data = [kind => json(text_or_base64(kind, bytes)) for (kind, bytes) in bundle]
            fields = ["status" => json("ok"), "data" => json(data), "metadata" => "{}"]
        else
            error, words = failure[end][1], words_of_all(failure)
            fields = ["status" => json("error"), "ename" => json(name_of(error)),
                      "evalue" => json(text_of(error, words[end])),
                      "traceback" => string("[", join(map(json, traceback_of(failure, words)), ", "), "]")]
        end
        push!(answers, name => json(fields))
    end
    return json(["user_expressions" => json(answers)])
end

text_or_base64(kind, bytes) =
    istextmime(kind) ? String(copy(bytes)) : Base64.base64encode(bytes)
