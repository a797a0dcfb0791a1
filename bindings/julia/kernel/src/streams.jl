# stdout and stderr of Julia in a rank: text goes to libsk at once, in its place among what C code
# and children write to descriptors 1 and 2, which libsk captures.

struct RankStream <: IO
    which::Int  # enum sk_stream, and the descriptor's number.
end

struct RankInput <: IO
    line::IOBuffer  # What is left of the last answer.
end

# What one call of `print` or `println` writes stays together, whichever task or thread writes meanwhile.
mutable struct StreamLock
    lock::ReentrantLock
    taker::Union{Task,Nothing}  # Who took it last.
end

const stream_locks = [StreamLock(ReentrantLock(), nothing) for _ in (STDOUT, STDERR)]

function Base.lock(io::RankStream)
    held = stream_locks[io.which]
    lock(held.lock)
    held.taker = current_task()
    return
end

Base.unlock(io::RankStream) = unlock(stream_locks[io.which].lock)

"""
After a cell that has failed: an interrupt that comes between the taking of a lock and what would give it
back leaves it taken for good, and later cells would wait to print.
"""
function free_stream_locks()
    for held in stream_locks
        islocked(held.lock) || continue
        taker = held.taker
        taker === nothing || taker === current_task() || istaskdone(taker) || continue
        held.lock, held.taker = ReentrantLock(), nothing
    end
end

function Base.unsafe_write(io::RankStream, text::Ptr{UInt8}, bytes::UInt)
    bytes == 0 || stream(io.which, text, bytes)
    return Int(bytes)
end

function Base.write(io::RankStream, byte::UInt8)
    one = Ref(byte)
    GC.@preserve one Base.unsafe_write(io, Base.unsafe_convert(Ptr{UInt8}, one), UInt(1))
end

Base.isopen(::RankStream) = true
Base.iswritable(::RankStream) = true
Base.isreadable(::RankStream) = false
Base.flush(::RankStream) = Libc.flush_cstdio()
Base.close(::RankStream) = nothing  # The next cell prints, too.
Base.displaysize(::RankStream) = page_size()
Base.get(::RankStream, key::Symbol, otherwise) = key === :color ? true : otherwise
Base.show(io::IO, stream::RankStream) =
    print(io, "RankStream(", stream.which == STDOUT ? "stdout" : "stderr", ")")
# For children: the captured descriptor.
Base.setup_stdio(io::RankStream, ::Bool) = (RawFD(io.which), false)

# Where descriptors 1 and 2 lead, should a cell close or move them, and 0, should it close that.
const kept_descriptors = Cint[-1, -1]
const kept_stdin = Ref{Cint}(-1)

# Where Julia's own C prints: that a module is replaced, say. It ends the process where that is a stream that was
# freed, as one is that a cell has put in its place for a while.
const kept_c_streams = fill(C_NULL, 3)

function c_stream(fd)
    fd == 0 && return cglobal(:jl_uv_stdin, Ptr{Cvoid})
    return fd == STDOUT ? cglobal(:jl_uv_stdout, Ptr{Cvoid}) : cglobal(:jl_uv_stderr, Ptr{Cvoid})
end

function put_c_back(fd)
    kept = kept_c_streams[fd + 1]
    kept == C_NULL || unsafe_store!(c_stream(fd), kept)  # While an image is made there is no rank yet.
    return
end

function install_streams()
    foreach(fd -> kept_c_streams[fd + 1] = unsafe_load(c_stream(fd)), 0:2)
    foreach(which -> kept_descriptors[which] = above_stdio(which), (STDOUT, STDERR))
    kept_stdin[] = above_stdio(0)
    output, errors = RankStream(STDOUT), RankStream(STDERR)
    Core.eval(Base, :(stdout = $output; stderr = $errors))
    Logging.global_logger(Logging.ConsoleLogger(errors))
    empty!(Base.Multimedia.displays)
    pushdisplay(TextDisplay(output))
    return
end

"""A duplicate that is none of 0 to 2; -1 where that fails. Where a cell closes one of those, the next
descriptor that anybody opens has its number, and is taken for it: by children, by what puts it in its
place again, and by calls of C for which descriptor 0 is none."""
above_stdio(fd::Integer) = ccall(:fcntl, Cint, (Cint, Cint, Cint...), fd, F_DUPFD_CLOEXEC, 3)

const F_DUPFD_CLOEXEC = 1030

# What `redirect_stdout(old)` is given back after a `redirect_stdout()`. Since 1.7 the functions are values of
# one type.
@static if isdefined(Base, :RedirectStdStream)
    (redirects::Base.RedirectStdStream)(io::Union{RankStream,RankInput}) = put_back(io, redirects.unix_fd)
else
    Base.redirect_stdin(io::RankInput) = put_back(io, 0)
    Base.redirect_stdout(io::RankStream) = put_back(io, STDOUT)
    Base.redirect_stderr(io::RankStream) = put_back(io, STDERR)
end

function put_back(io, fd)
    lead_back(fd)
    put_c_back(fd)
    Core.eval(Base, Expr(:(=), (:stdin, :stdout, :stderr)[fd + 1], io))
    return io
end

lead_back(fd) =
    ccall(:dup2, Cint, (Cint, Cint), fd == 0 ? kept_stdin[] : kept_descriptors[fd], fd) >= 0

"""
After a cell descriptors 1 and 2 lead to the notebook again, whatever it has made of them: the next
one is not to print in vain. The variables stdout and stderr stay as the cell has left them. What it
has put in place of 0 stays, too, but 0 is not left closed.
"""
function restore_descriptors()
    place_of(0) === nothing && lead_back(0)
    moved = [which for which in (STDOUT, STDERR) if !leads_to(which, kept_descriptors[which])]
    isempty(moved) && return
    Libc.flush_cstdio()
    foreach(lead_back, moved)
    tell("what the cell has put in place of descriptor $(join(moved, " and ")) holds for the cell alone")
end

"""After a cell there are streams and displays, whatever it has made of those."""
function restore_variables()
    foreach(put_c_back, (STDOUT, STDERR))
    for (name, stream) in ((:stdout, RankStream(STDOUT)), (:stderr, RankStream(STDERR)))
        getfield(Base, name) isa IO || Core.eval(Base, :($name = $stream))
    end
    Base.stdin isa IO || install_stdin()
    Base.stdin isa RankInput && forget_line(Base.stdin)
    displays = Base.Multimedia.displays
    isempty(displays) && pushdisplay(TextDisplay(RankStream(STDOUT)))
    any(each -> each isa RankDisplay, displays) || pushdisplay(RankDisplay())
    return
end

leads_to(fd, kept) = (there = place_of(fd)) !== nothing && there == place_of(kept)

function place_of(fd)
    try
        status = stat(RawFD(fd))
        return (status.device, status.inode)
    catch
        return nothing  # Closed.
    end
end
