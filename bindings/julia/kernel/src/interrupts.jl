# Interrupts: a task of its own hears of one and throws InterruptException into the cell's task.
#
# Where the cell's code never lets another task run, libsk sends SIGINT after 300 ms, and Julia
# throws at its next safe point. A process that is parked in the event loop must never get SIGINT:
# Julia 1.5 may end there. It cannot, for there the task below runs, and libsk is told.
#
# Our own tasks defer the signal (`sigatomic_begin`), so it meets cells only.

# The task that runs a cell's code, while it does.
const cell_task = Ref{Union{Task,Nothing}}(nothing)

# When a signal was last seen to be possible; see forget_signals().
const was_interrupted = Ref(false)

function watch_interrupts()
    Base.sigatomic_begin()
    watcher = FileWatching.FDWatcher(RawFD(worker.interrupts), true, false)
    while true
        try
            wait(watcher)
            was_signalled = is_signalled()
            take_interrupt() == 0 || interrupt_cell(was_signalled)
        catch error
            error isa EOFError && return  # The watcher was closed: the rank ends.
            error isa WorkerError && return
        end
    end
end

function interrupt_cell(was_signalled)
    task = cell_task[]
    # The signal has reached it, and what it does about that is under way, children of its own included. A
    # task that earlier cells have left behind may have got it instead.
    task !== nothing && was_signalled && any(each -> is_interrupt(each[1]), exceptions(task)) && return
    signal_children()
    task === nothing && return  # It has left the cell's code already.
    task.state === :runnable || return
    schedule(task, InterruptException(), error = true)
end

"""
InterruptException where a call of libsk says that the cell was interrupted. In the cell's own task that
is the interrupt, told once: the task above does not tell it again, to what the cell does about it.
"""
function raise_interrupt()
    current_task() === cell_task[] && take_interrupt() != 0 && signal_children()
    throw(InterruptException())
end

"""
Where the cell is interrupted and its code has not heard so: InterruptException, in place of an error of LibSK
with which a call ended that waited, or of a question that nobody will answer.
"""
function tell_interrupt()
    (is_cancelled() && current_task() === cell_task[]) || return
    was_signalled = is_signalled()
    take_interrupt() == 0 && return
    was_signalled && any(each -> is_interrupt(each[1]), exceptions()) && return
    signal_children()
    throw(InterruptException())
end

"""
Calls `f` as code of the cell, which an interrupt ends: its value, or what it raised, as pairs of
exception and backtrace, the newest last.
"""
function as_cell_code(f)
    try
        cell_task[] = current_task()
        Base.sigatomic_end()
        value = f()
        Base.sigatomic_begin()
        cell_task[] = nothing
        return value, nothing
    catch
        # Signals are deferred again, as at the try.
        cell_task[] = nothing
        code_ended()
        return nothing, exceptions()
    end
end

@static if isdefined(Base, :current_exceptions)
    exceptions(task = current_task()) =
        Tuple{Any,Any}[(each.exception, each.backtrace) for each in Base.current_exceptions(task)]
else
    exceptions(task = current_task()) = Tuple{Any,Any}[each for each in Base.catch_stack(task)]
end

"""
After an interrupted cell: a SIGINT that came too late for it is not to hit the next one. Julia's
thread for signals passes it on within moments.
"""
function forget_signals()
    for _ in 1:5
        try
            Base.sigatomic_end()
            GC.safepoint()
            Base.sigatomic_begin()
        catch  # There it was; signals are deferred again.
        end
        Libc.systemsleep(0.002)
    end
end

"""
SIGINT to the children that the cell waits for, and theirs, as a terminal would: to all processes
of this one's group but itself.
"""
function signal_children()
    own = getpid()
    group = ccall(:getpgrp, Cint, ())
    for name in readdir("/proc")
        pid = tryparse(Int32, name)
        (pid === nothing || pid == own) && continue
        group_of(pid) == group && ccall(:kill, Cint, (Cint, Cint), pid, Base.SIGINT)
    end
end

"""The process group of a process, from "PID (NAME) STATE PARENT GROUP ..."; -1 if it is gone."""
group_of(pid) = ccall(:getpgid, Cint, (Cint,), pid)
