# Exceptions as the notebook shows them: the name, the text, and a backtrace that ends at the cell.

const WORDS_MAX = 1 << 20  # Bytes of an exception's text: all ranks send theirs.
const FRAMES_MAX = 100     # Beyond, the middle is left out.

name_of(@nospecialize(error)) = string(nameof(typeof(error)))

"""What `showerror` says, or a sentence where that fails."""
function words_of(@nospecialize(error))
    error isa InterruptException && return "InterruptException"
    text = try
        sprint() do io
            Base.invokelatest(showerror, IOContext(io, :limit => true, :module => Main), error)
        end
    catch broken
        return "<its showerror raised $(nameof(typeof(broken)))>"
    end
    # Each rank has an address of its own, and else the same error.
    is_of_libsk(typeof(error)) && (text = replace(text, r"\(0x[0-9a-f]+, (\d+ bytes)\)" => s"(\1)"))
    hint = hint_of(error)
    isempty(hint) || (text = string(text, "\n", hint))
    sizeof(text) <= WORDS_MAX && return text
    return string(text[1:thisind(text, WORDS_MAX)], "… (", sizeof(text) - WORDS_MAX, " bytes more)")
end

"""The same without the error's name, where `showerror` begins with that."""
function text_of(@nospecialize(error), words = words_of(error))
    name = name_of(error)
    words == name && return ""
    return startswith(words, name * ": ") ? words[(ncodeunits(name) + 3):end] : words
end

line_of(@nospecialize(error)) = (text = text_of(error); isempty(text) ? name_of(error) : "$(name_of(error)): $text")

"""A backtrace's frames down to the cell's own, without ours and those of a package that told its error
in a sentence."""
function cell_frames(backtrace, @nospecialize(error))
    frames = try
        stacktrace(backtrace)
    catch  # Lines that cannot be found.
        return Base.StackTraces.StackFrame[]
    end
    ours = findfirst(frame -> frame.func === :evaluate && is_ours(frame), frames)
    ours === nothing && (ours = findfirst(is_ours, frames))
    ours === nothing || (frames = frames[1:(ours - 1)])
    # What the cell has called of ours, `@on` or a read of stdin, is told by the line that calls it.
    frames = filter(!is_ours, frames)
    is_of_libsk(typeof(error)) && (frames = filter(!is_package, frames))
    while !isempty(frames) && is_way_in(frames[end])
        pop!(frames)
    end
    # The safe point that the cell's parser has put into a loop.
    isempty(frames) || frames[1].func !== :safepoint || popfirst!(frames)
    with_statement!(frames)
    length(frames) <= FRAMES_MAX && return frames
    half = FRAMES_MAX ÷ 2
    return vcat(frames[1:half], frames[(end - half + 1):end])
end

"""Whether the frame is of a way by which we call what is the user's: `eval` for statements, `invokelatest`
for a `show`."""
is_way_in(frame) = (file = string(frame.file); frame.func === :eval && endswith(file, "boot.jl") ||
    occursin(r"^#?invokelatest", string(frame.func)) && endswith(file, "essentials.jl"))

const TOP_LEVEL = Symbol("top-level scope")

"""Adds the frame of the cell's statement where Julia has none."""
function with_statement!(frames)
    place = statement[]
    place === nothing && return
    # Of a lone name Julia has one that says nothing.
    filter!(frame -> frame.func !== TOP_LEVEL || frame.line > 0, frames)
    is_there = any(frames) do frame
        frame.func === TOP_LEVEL && basename(string(frame.file)) == string(place.file)
    end
    is_there || push!(frames, Base.StackTraces.StackFrame(TOP_LEVEL, place.file, place.line))
    return
end

const FOLDER = @__DIR__

is_ours(frame) = startswith(string(frame.file), FOLDER)

function is_package(frame)
    package = get(Base.loaded_modules, LIBSK_ID, nothing)
    package === nothing && return false
    return startswith(string(frame.file), dirname(string(first(methods(of_module(package, :start))).file)))
end

"""What is said of each exception, by code of users at times, which an interrupt ends."""
function words_of_all(stack)
    words, failure = as_cell_code(() -> String[words_of(error) for (error, _) in stack])
    return failure === nothing ? words : String[name_of(error) for (error, _) in stack]
end

"""The lines of a traceback: the error, what led to it, and where."""
function traceback_of(stack, words)
    out = IOBuffer()
    for i in length(stack):-1:1
        error, backtrace = stack[i]
        i < length(stack) && print(out, "\ncaused by: ")
        print(out, "\e[31m", words[i], "\e[39m")
        error isa Union{Meta.ParseError,CellSyntaxError} && continue
        frames = cell_frames(backtrace, error)
        try
            # A vector of frames as Julia's own: repeated ones, of a recursion, are put together.
            Base.invokelatest(Base.show_backtrace, IOContext(out, :limit => true, :color => false), frames)
        catch
            for (number, frame) in enumerate(frames)
                print(out, number == 1 ? "\nStacktrace:" : "", "\n [", number, "] ", frame.func, " at ",
                      frame.file, ":", frame.line)
            end
        end
    end
    # A compiled statement's file is told as one of this folder, an interpreted one's is not.
    return split(replace(String(take!(out)), " ./In[" => " In["), '\n')
end

"""Whether it is an interrupt, or was raised because of one."""
is_interrupt(@nospecialize(error)) = error isa InterruptException || any(is_interrupt, causes_of(error))

causes_of(error::Union{LoadError,InitError}) = Any[error.error]
causes_of(error::CompositeException) = error.exceptions
causes_of(error::CapturedException) = Any[error.ex]
causes_of(error::TaskFailedException) = Any[result_of(error.task)]
causes_of(@nospecialize(error)) = is_remote(typeof(error)) ? Any[error.captured] : Any[]

# Of a package that is not loaded for this.
is_remote(kind) = nameof(kind) === :RemoteException && nameof(parentmodule(kind)) === :Distributed

# A field in 1.5, and a property since.
result_of(task) = istaskfailed(task) ? task.exception : nothing

"""`enum sk_error_flags`."""
function flags_of(stack)
    is_interrupt(stack[end][1]) && return INTERRUPT
    return any(is_consequence(error) for (error, _) in stack) ? CONSEQUENCE : 0
end

"""Whether libsk has ended a call because a peer is lost or the call was aborted."""
is_consequence(@nospecialize(error)) = code_of(error) in (ERR_PEER_LOST, ERR_ABORTED)

code_of(@nospecialize(error)) = error isa WorkerError ? error.code : is_of_libsk(typeof(error)) ? Int(error.code) : 0

is_of_libsk(kind) = nameof(kind) === :SKError && nameof(parentmodule(kind)) === :LibSK

"""Puts out the error that ends the cell."""
function report_error(stack)
    stack = isempty(stack) ? Tuple{Any,Any}[(ErrorException("an exception that is gone"), [])] : stack
    error, words = stack[end][1], words_of_all(stack)
    send_error(name_of(error), text_of(error, words[end]), traceback_of(stack, words), flags_of(stack))
end
