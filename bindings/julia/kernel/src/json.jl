# As much JSON as a rank writes and reads: an object of texts in, objects and texts out.

function json(text::AbstractString)
    out = IOBuffer()
    print(out, '"')
    for c in text
        if c in ('"', '\\')
            print(out, '\\', c)
        elseif !isvalid(c)
            print(out, '\ufffd')
        elseif c < ' '
            print(out, "\\u", lpad(string(UInt32(c), base = 16), 4, '0'))
        else
            print(out, c)
        end
    end
    print(out, '"')
    return String(take!(out))
end

json(fields::AbstractVector{<:Pair}) =
    string("{", join((string(json(name), ": ", value) for (name, value) in fields), ", "), "}")

"""The texts of a flat JSON object of texts, which is what user_expressions are."""
function read_json_texts(text::AbstractString)
    at = skip_blank(text, firstindex(text))
    found = Pair{String,String}[]
    text[at] == '{' || error("no JSON object")
    at = skip_blank(text, at + 1)
    while text[at] != '}'
        name, at = read_json_text(text, at)
        at = skip_blank(text, at)
        text[at] == ':' || error("no colon in a JSON object")
        value, at = read_json_text(text, skip_blank(text, at + 1))
        push!(found, name => value)
        at = skip_blank(text, at)
        text[at] == ',' && (at = skip_blank(text, at + 1))
    end
    return found
end

function skip_blank(text, at)
    while text[at] in (' ', '\n', '\r', '\t')
        at = nextind(text, at)
    end
    return at
end

const ESCAPES = Dict('n' => '\n', 't' => '\t', 'r' => '\r', 'b' => '\b', 'f' => '\f')

"""The text that begins at a quotation mark, and what is behind it."""
function read_json_text(text, at)
    text[at] == '"' || error("no text where a JSON object should have one")
    out = IOBuffer()
    at = nextind(text, at)
    while text[at] != '"'
        c = text[at]
        if c != '\\'
            print(out, c)
            at = nextind(text, at)
            continue
        end
        at = nextind(text, at)
        c = text[at]
        at = nextind(text, at)
        if c != 'u'
            print(out, get(ESCAPES, c, c))
            continue
        end
        unit = parse(UInt32, text[at:(at + 3)], base = 16)
        at += 4
        if 0xd800 <= unit < 0xdc00 && text[at] == '\\'  # The first half of a pair.
            low = parse(UInt32, text[(at + 2):(at + 5)], base = 16)
            at += 6
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
        end
        print(out, Char(unit))
    end
    return String(take!(out)), nextind(text, at)
end
