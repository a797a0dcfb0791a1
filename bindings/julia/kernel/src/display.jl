# display() and the value of a cell, as bundles to the notebook.

struct RankDisplay <: AbstractDisplay end

Base.display(::RankDisplay, @nospecialize(x)) = send_display(DISPLAY_DATA, bundle_of(x))
Base.display(::RankDisplay, kind::MIME, x) = send_display(DISPLAY_DATA, bundle_of_one(kind, x))
Base.display(d::RankDisplay, kind::AbstractString, x) = display(d, MIME(kind), x)
Base.displayable(::RankDisplay, ::MIME) = true

"""One form that was asked for, and the text, which every notebook can show."""
function bundle_of_one(kind::MIME, @nospecialize(x))
    name = string(kind)
    # A text, or bytes of a type that is none, are that type's data, as in every Julia display.
    is_data = istextmime(name) ? x isa AbstractString : x isa Vector{UInt8}
    data = !is_data ? shown_as(name, x) : x isa Vector{UInt8} ? x : Vector{UInt8}(String(x))
    bundle = Bundle([name => data])
    name == "text/plain" || is_data ||
        try
            push!(bundle, "text/plain" => shown_as("text/plain", x))
        catch error
            error isa InterruptException && rethrow()
        end
    return bundle
end

"""
    sk.display_as(id, x)

Displays `x` under an id, by which `sk.update_display(id, y)` puts another value in its place.
"""
display_as(id, x) = send_display(DISPLAY_DATA, bundle_of(x), string(id))

"""
    sk.update_display(id, x)

Shows `x` in place of what `sk.display_as(id, ...)` has displayed, in this cell or an earlier one.
"""
update_display(id, x) = send_display(DISPLAY_UPDATE, bundle_of(x), string(id))

"""
    sk.clear_output(wait = false)

Removes what this cell has put out so far; with `wait` when the next output comes.
"""
clear_output(wait::Bool = false) = send_display(wait ? DISPLAY_CLEAR_WAIT : DISPLAY_CLEAR, Bundle())

function show_result(@nospecialize(value))
    value === nothing && return
    send_display(DISPLAY_RESULT, bundle_of(value))
end
