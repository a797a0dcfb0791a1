# Values as bundles of MIME types and bytes.

const DISPLAY_DATA, DISPLAY_RESULT, DISPLAY_UPDATE = 1, 2, 3
const DISPLAY_CLEAR, DISPLAY_CLEAR_WAIT, DISPLAY_PAGE = 4, 5, 6

const Bundle = Vector{Pair{String,Vector{UInt8}}}

# Of each line the first type that a value can be shown as. As in IJulia, so that packages which
# know notebooks show what they show there.
const RICH_TYPES = [
    ["image/svg+xml"],
    ["image/png", "image/jpeg"],
    ["text/markdown", "text/html"],
    ["text/latex"],
    ["application/vnd.vegalite.v5+json", "application/vnd.vegalite.v4+json",
     "application/vnd.vegalite.v3+json", "application/vnd.vega.v5+json"],
    ["application/vnd.plotly.v1+json"],
    ["application/vnd.dataresource+json"],
]

"""The first of these types that a value can be shown as; "" for none."""
function first_shown(kinds::Vector{String}, @nospecialize(x))
    for kind in kinds
        can_show(kind, x) && return kind
    end
    return ""
end

"""The size of a page, in lines and columns, for what is cut to fit it."""
page_size() = (parse_or(get(ENV, "LINES", ""), 30), parse_or(get(ENV, "COLUMNS", ""), 80))

parse_or(text, otherwise) = something(tryparse(Int, text), otherwise)

function shown_as(kind::AbstractString, @nospecialize(x))
    out = IOBuffer()
    context = IOContext(out, :limit => true, :displaysize => page_size(), :module => Main)
    Base.invokelatest(show, context, MIME(kind), x)
    return take!(out)
end

function can_show(kind::String, @nospecialize(x))
    try
        return Base.invokelatest(showable, MIME(kind), x) === true
    catch error
        error isa InterruptException && rethrow()
        return false
    end
end

"""
All forms of a value. Its text is first, and what that raises is the caller's; a richer form that
fails is left out, with a line about it where no other one is there in its place.
"""
function bundle_of(@nospecialize(x))
    bundle = Bundle(["text/plain" => shown_as("text/plain", x)])
    failed = String[]
    for kinds in RICH_TYPES
        kind = first_shown(kinds, x)
        isempty(kind) && continue
        try
            push!(bundle, kind => shown_as(kind, x))
        catch error
            error isa InterruptException && rethrow()
            push!(failed, "not shown as $kind: $(line_of(error))")
        end
    end
    length(bundle) == 1 && foreach(tell, failed)
    return bundle
end
