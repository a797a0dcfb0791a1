# Interrupts: a task of its own hears of one and throws InterruptException into the cell's task.
#
# Where the cell's code never lets another task run, libsk sends SIGINT after 300 ms, and Julia
# throws at its next safe point. A process that is parked in the event loop must never get SIGINT:
# Julia 1.5 may end there. It cannot, for there the task below runs, and libsk is told.
#
# Our own tasks defer the signal (`sigatomic_begin`), so it meets cells only.

# The task that runs a cell's code, while it does.
const cell_task = Ref{Union{Task,Nothing}}(nothing)

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
            tell("the interrupt was lost: $(line_of(error))")
        end
    end
end

function interrupt_cell(was_signalled)
    task = cell_task[]
    # What the cell does about the signal is under way, children of its own included. A task that earlier
    # cells have left behind may have got it instead, or nobody yet.
    task !== nothing && was_signalled && !forget_signals() && handles_interrupt(task) && return
    signal_children()
    task === nothing && return  # It has left the cell's code already.
    istaskdone(task) && return
    schedule(task, InterruptException(), error = true)
end

"""
At the start of each `catch` and `finally` of the cell: what the signal has thrown into its task is the interrupt,
which is taken here. Of one that is over and done with the task above could not know whose it was.
"""
function note_interrupt()
    (is_signalled() && current_task() === cell_task[]) || return
    any(is_interrupt, raised()) && take_interrupt() != 0 && signal_children()
    return
end

"""Whether a task, which is none that runs, is about to handle an interrupt."""
function handles_interrupt(task)
    # Julia tells it of the current task, or one that is done. The collector, which may look at the state,
    # must not meet the one that is put there for a moment.
    collects = GC.enable(false)
    try
        return with_state_of_failed(() -> any(is_interrupt, raised(task)), task)
    finally
        GC.enable(collects)
    end
end

@static if :state in fieldnames(Task)
    function with_state_of_failed(f, task)
        kept, task.state = task.state, :failed
        try
            return f()
        finally
            task.state = kept
        end
    end
else
    with_state_of_failed(f, task) = with_byte(f, task, :_state, Base.task_state_failed)  # Since 1.6.
end

"""Calls `f` while that is in the field, be it one that is set only atomically, as later Julias have it."""
function with_byte(f, holder, field, byte::UInt8)
    GC.@preserve holder begin
        index = Base.fieldindex(typeof(holder), field)
        place = Ptr{UInt8}(pointer_from_objref(holder)) + fieldoffset(typeof(holder), index)
        kept = unsafe_load(place)
        unsafe_store!(place, byte)
        try
            return f()
        finally
            unsafe_store!(place, kept)
        end
    end
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
    was_signalled && any(is_interrupt, raised()) && return
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
    exceptions() = Tuple{Any,Any}[(each.exception, each.backtrace) for each in Base.current_exceptions()]
    raised(task = current_task()) =
        Any[each.exception for each in Base.current_exceptions(task, backtrace = false)]
else
    exceptions() = Tuple{Any,Any}[each for each in Base.catch_stack()]
    raised(task = current_task()) = Base.catch_stack(task, include_bt = false)
end

"""
After an interrupted cell: a SIGINT that came too late for it is not to hit the next one. Julia's
thread for signals passes it on within moments. Whether there was one, which nobody has got then.
"""
function forget_signals()
    was_there = false
    for _ in 1:5
        was_there |= take_signal()
        Libc.systemsleep(0.002)
    end
    return was_there
end

"""Whether a SIGINT waited; it is gone then. Signals are deferred before and after."""
function take_signal()
    try
        Base.sigatomic_end()
        GC.safepoint()
        Base.sigatomic_begin()
        return false
    catch
        return true
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
