# What a front end asks while one types: names that go on, help, whether a cell is complete.
# Positions count bytes, as Julia's own.

# enum sk_is_complete
const UNKNOWN, IS_COMPLETE_YES, INCOMPLETE, INVALID = 0, 1, 2, 3

function answer_question(request)
    if request.kind == COMPLETE
        start, stop, matches = complete(request.code, request.cursor)
        send_reply(request.id, start = start, stop = stop, strings = matches)
    elseif request.kind == INSPECT
        bundle = inspect(request.code, request.cursor)
        send_reply(request.id, answer = isempty(bundle) ? 0 : 1, bundle = bundle)
    else
        send_reply(request.id, answer = is_complete(request.code))
    end
end

"""The answer where there is none, so that nobody waits for it."""
function decline(request, why)
    bundle = request.kind == INSPECT ? Bundle(["text/plain" => Vector{UInt8}(why)]) : Bundle()
    send_reply(request.id, answer = isempty(bundle) ? 0 : 1, start = request.cursor,
               stop = request.cursor, bundle = bundle)
end

"""The bytes [start, stop), from 0, that each of the texts would replace."""
function complete(code::String, cursor::Integer)
    cursor = min(cursor, ncodeunits(code))
    last = cursor == 0 ? 0 : thisind(code, cursor)
    offset = 0
    if startswith(code, ';') || startswith(code, '?')
        offset = 1
        code[1] == ';' && return shell_completion(code, cursor)
    end
    text = offset == 0 ? code : String(SubString(code, 1 + offset))
    last == 0 && return cursor, cursor, String[]
    last - offset < 1 && return cursor, cursor, String[]
    found, range, _ = Base.invokelatest(REPLCompletions.completions, text, last - offset, Main)
    return as_answer(text, found, range, offset, cursor)
end

function shell_completion(code, cursor)
    text = String(SubString(code, 2))
    last = cursor < 2 ? 0 : thisind(text, cursor - 1)
    last == 0 && return cursor, cursor, String[]
    found, range, _ = REPLCompletions.shell_completions(text, last)
    return as_answer(text, found, range, 1, cursor)
end

function as_answer(text, found, range, offset, cursor)
    matches = unique!(String[REPLCompletions.completion_text(each) for each in found])
    isempty(matches) && return cursor, cursor, matches
    start = first(range) - 1
    stop = isempty(range) ? start : nextind(text, last(range)) - 1
    return start + offset, stop + offset, matches
end

function is_complete(code::String)
    first_one = isempty(lstrip(code)) ? ' ' : lstrip(code)[1]
    first_one in ('?', ';', ']') && return IS_COMPLETE_YES
    parsed = Base.parse_input_line(code, filename = "none")
    parsed isa Expr && parsed.head === :incomplete && return INCOMPLETE
    parsed isa Expr && parsed.head === :error && return INVALID
    return IS_COMPLETE_YES
end
