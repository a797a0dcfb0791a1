# What a call throws: the library's code and sentence, and the rank that it names.

"""
    SKError <: Exception

A call of libsk failed. Fields:

- `code`: the status, as in `sk/base.h`: 10 for `SK_ERR_INVALID_ARGUMENT`, and so on;
- `name`: the status by name, `"SK_ERR_INVALID_ARGUMENT"`;
- `sentence`: which argument, what it was, what is allowed;
- `rank`: the rank that died, aborted, was waited for or called something else; `nothing` if none is.

Codes below 20 changed nothing, and the communicator stays usable; after those from 20 to 30 it can
only be closed.
"""
struct SKError <: Exception
    code::Int32
    name::String
    sentence::String
    rank::Union{Nothing,Int}
end

const INVALID_ARGUMENT = Int32(10)
const BAD_HANDLE = Int32(13)
const BUSY = Int32(14)
const PEER_LOST = Int32(20)
const ABORTED = Int32(21)
const TIMEOUT = Int32(30)
# Sentences of these name the rank that is to blame; others may mention ranks in passing.
const NAMES_A_RANK = (16, 20, 21, 30)

function SKError(code::Integer, sentence::AbstractString)
    name = unsafe_string(ccall((:sk_status_name, libsk), Cstring, (Int32,), code))
    return SKError(code, name, sentence, rank_in(sentence, code))
end

Base.showerror(io::IO, error::SKError) = print(io, error.name, ": ", error.sentence)

function rank_in(sentence, code)
    code in NAMES_A_RANK || return nothing
    # An abort's reason is anybody's text, and may be of waiting for another rank.
    waited = r"\b(?:for|connected to|s in [^:]*:) ranks? (\d+)\b"
    found = code == TIMEOUT ? match(waited, sentence) : nothing
    found = found === nothing ? match(r"\branks? (\d+)\b", sentence) : found
    return found === nothing ? nothing : parse(Int, found[1])
end

"""An argument that is refused before the C call."""
@noinline invalid(sentence) = throw(SKError(INVALID_ARGUMENT, sentence))

"""The exception for the last call of this thread. Nothing of Julia's may call libsk in between:
finalizers do not (see released.jl)."""
@noinline function last_error(status::Int32)
    return SKError(status, unsafe_string(ccall((:sk_last_error, libsk), Cstring, ())))
end

check(status::Int32) = status == 0 ? nothing : throw(last_error(status))

"""A text by the library's two calls: how long it is, then the text."""
function text_of(call)
    size = Ref{Csize_t}(0)
    call(Ptr{UInt8}(C_NULL), Csize_t(0), size)
    while true
        bytes = Vector{UInt8}(undef, size[] + 1)
        status = GC.@preserve bytes call(pointer(bytes), Csize_t(length(bytes)), size)
        # It may have grown meanwhile; whatever else is wrong is said.
        status == 11 && size[] >= length(bytes) && continue
        check(status)
        return String(resize!(bytes, size[]))
    end
end

"""A text that C is given ends at its first NUL."""
function c_text(x, what)
    x isa AbstractString || invalid("$what is $(shown(x)); it must be a text")
    '\0' in x && invalid("$what has a NUL character; it must have none")
    return String(x)
end

"""A value in a sentence, as far as a line holds it."""
function shown(x)
    text = x isa AbstractArray ? summary(x) : repr(x)
    return length(text) > 60 ? first(text, 57) * "..." : text
end
