# stdin of Julia in a rank: the notebook is asked, and the cell's task waits. What several ranks ask
# in the same words is one question, whose answer all of them get.

# enum sk_input_state
const INPUT_NONE, INPUT_TEXT, INPUT_EOF, INPUT_REFUSED = 0, 1, 2, 3

const LOOK_S = 0.02  # How often a waiting task looks for the answer; others run in between.

"""Nobody can be asked."""
struct StdinNotImplementedError <: Exception
    sentence::String
end

Base.showerror(io::IO, error::StdinNotImplementedError) = print(io, error.sentence)

"""A line from the notebook's user, without its end; nothing for the end of input."""
function ask(prompt::AbstractString, password::Bool)
    prompt = c_text(prompt)
    answer = Ref(blank(RawInput))
    tell_interrupt()  # What asks is what the cell does about it, or it is told of it here.
    try
        while true
            check(@sk sk_worker_input(worker.handle::Ptr{Cvoid}, prompt::Cstring, password::Int32, 0::Int64,
                                      answer::Ref{RawInput}))
            state = answer[].state
            state == INPUT_TEXT && return unsafe_string(answer[].text, answer[].bytes)
            state == INPUT_EOF && return nothing
            state == INPUT_REFUSED &&
                throw(StdinNotImplementedError(unsafe_string(answer[].text, answer[].bytes)))
            sleep(LOOK_S)
        end
    catch error
        # Nobody waits for it any more.
        error isa InterruptException && @sk sk_worker_input(worker.handle::Ptr{Cvoid}, C_NULL::Ptr{UInt8},
            0::Int32, 0::Int64, answer::Ref{RawInput})
        rethrow()
    end
end

"""Whether there is something to read; asks where nothing is left of the last line."""
function fill_line(io::RankInput)
    eof(io.line) || return true
    answer = ask("stdin> ", false)
    answer === nothing && return false
    truncate(io.line, 0)
    write(io.line, answer, '\n')
    seekstart(io.line)
    return true
end

"""What a cell has not read of an answer is no answer to what the next one asks."""
forget_line(io::RankInput) = (truncate(io.line, 0); seekstart(io.line))

Base.eof(io::RankInput) = !fill_line(io)
Base.isopen(::RankInput) = true
Base.isreadable(::RankInput) = true
Base.iswritable(::RankInput) = false
Base.close(::RankInput) = nothing
Base.bytesavailable(io::RankInput) = bytesavailable(io.line)
Base.read(io::RankInput, ::Type{UInt8}) = fill_line(io) ? read(io.line, UInt8) : throw(EOFError())
Base.peek(io::RankInput) = fill_line(io) ? peek(io.line) : throw(EOFError())
Base.readavailable(io::RankInput) = fill_line(io) ? read(io.line) : UInt8[]
Base.show(io::IO, ::RankInput) = print(io, "RankInput(stdin)")
Base.setup_stdio(::RankInput, ::Bool) = (RawFD(0), false)

function Base.readline(io::RankInput; keep::Bool = false)
    fill_line(io) || return ""
    return readline(io.line, keep = keep)
end

function Base.getpass(::RankInput, ::IO, prompt::AbstractString; with_suffix::Bool = true)
    answer = ask(with_suffix ? "$prompt: " : prompt, true)
    answer === nothing && throw(EOFError())
    return Base.SecretBuffer!(Vector{UInt8}(answer))
end

install_stdin() = (input = RankInput(IOBuffer()); Core.eval(Base, :(stdin = $input)); nothing)
