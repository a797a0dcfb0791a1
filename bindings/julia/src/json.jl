# As much JSON as the library answers with, read into Julia's own dictionaries and vectors.

"""What a text of JSON says: `Dict{String,Any}`, `Vector{Any}`, `String`, `Int`, `Float64`, `Bool`, `nothing`."""
read_json(text::AbstractString) = first(json_value(text, firstindex(text)))

function json_blank(text, at)
    while text[at] in (' ', '\n', '\r', '\t')
        at += 1
    end
    return at
end

"""The value that begins at `at`, and where the next thing is."""
function json_value(text, at)
    at = json_blank(text, at)
    c = text[at]
    c == '"' && return json_text(text, at)
    c == '{' && return json_object(text, at)
    c == '[' && return json_list(text, at)
    for (word, value) in ("true" => true, "false" => false, "null" => nothing)
        startswith(SubString(text, at), word) && return value, at + length(word)
    end
    number = match(r"^-?\d+(\.\d+)?([eE][-+]?\d+)?", SubString(text, at))
    number === nothing && error("no JSON at $at")
    whole = number[1] === nothing && number[2] === nothing
    return parse(whole ? Int : Float64, number.match), at + length(number.match)
end

function json_object(text, at)
    found = Dict{String,Any}()
    at = json_blank(text, at + 1)
    while text[at] != '}'
        name, at = json_text(text, at)
        at = json_blank(text, at)
        found[name], at = json_value(text, at + 1)  # Behind the colon.
        at = json_blank(text, at)
        text[at] == ',' && (at = json_blank(text, at + 1))
    end
    return found, at + 1
end

function json_list(text, at)
    found = Any[]
    at = json_blank(text, at + 1)
    while text[at] != ']'
        value, at = json_value(text, at)
        push!(found, value)
        at = json_blank(text, at)
        text[at] == ',' && (at = json_blank(text, at + 1))
    end
    return found, at + 1
end

const JSON_ESCAPES = Dict('n' => '\n', 't' => '\t', 'r' => '\r', 'b' => '\b', 'f' => '\f')

function json_text(text, at)
    out = IOBuffer()
    at += 1
    while text[at] != '"'
        c = text[at]
        at = nextind(text, at)
        c == '\\' || (print(out, c); continue)
        c = text[at]
        at = nextind(text, at)
        c == 'u' || (print(out, get(JSON_ESCAPES, c, c)); continue)
        unit = parse(UInt32, text[at:at+3]; base = 16)
        at += 4
        if 0xd800 <= unit < 0xdc00 && text[at] == '\\'  # The first half of a pair.
            low = parse(UInt32, text[at+2:at+5]; base = 16)
            at += 6
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        end
        print(out, Char(unit))
    end
    return String(take!(out)), at + 1
end
