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
    task !== nothing && was_signalled && !forget_signals() && is_answered(exceptions_of(task)) && return
    signal_children()
    task === nothing && return  # It has left the cell's code already.
    istaskdone(task) && return
    schedule(task, InterruptException(), error = true)
end

# What was on the stack of the cell's exceptions when that was last looked at: what a press has thrown and
# is still being handled is no answer to the next one.
const seen = Ref(Tuple{Any,Any}[])

"""Whether a signal has thrown what is new on the cell's stack of exceptions, all of which is seen then."""
function is_answered(stack)
    old = 0
    while old < min(length(stack), length(seen[])) && is_same(stack[old + 1], seen[][old + 1])
        old += 1
    end
    seen[] = stack
    return any(is_of_signal, stack[(old + 1):end])
end

is_same(one, other) = one[1] === other[1] && one[2] == other[2]

# Who throws an interrupt that the signal has not thrown: what a task wakes up with, and we.
const THROWERS = (:try_yieldto, :throw_interrupt)
const THROWERS_DEPTH = 6  # Of frames, those of C included.

function is_of_signal((error, backtrace))
    is_interrupt(error) || return false
    newest = stacktrace(backtrace[1:min(THROWERS_DEPTH, end)])
    return !any(frame -> frame.func in THROWERS, newest)
end

"""
At the start of each `catch` and `finally` of the cell: what the signal has thrown into its task is the interrupt,
which is taken here. Of one that is over and done with the task above could not know whose it was.
"""
function note_interrupt(is_catch)
    (is_cancelled() && current_task() === cell_task[]) || return
    # What is caught is new, and in a loop may look like what was caught last.
    stack = exceptions()
    is_catch && length(seen[]) >= length(stack) && resize!(seen[], max(0, length(stack) - 1))
    is_answered(stack) && is_signalled() && take_interrupt() != 0 && signal_children()
    return
end

"""The exceptions of a task, which is none that runs, that it is about to handle."""
function exceptions_of(task)
    # Julia tells them of the current task, or one that is done. The collector, which may look at the state,
    # must not meet the one that is put there for a moment.
    collects = GC.enable(false)
    try
        return with_state_of_failed(() -> exceptions(task), task)
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
Whether the cell's own task, which calls this, is to throw an interrupt that its code has not heard of. It is
taken then: the task above does not tell it again, to what the cell does about it.
"""
function hears_interrupt()
    was_signalled = is_signalled()
    take_interrupt() == 0 && return false
    was_signalled && is_answered(exceptions()) && return false
    if was_signalled  # It is not to come behind.
        Base.sigatomic_begin()
        forget_signals()
        Base.sigatomic_end()
    end
    signal_children()
    return true
end

@noinline throw_interrupt() = throw(InterruptException())

"""InterruptException where a call of libsk says that the cell was interrupted."""
function raise_interrupt()
    current_task() === cell_task[] && hears_interrupt()
    throw_interrupt()
end

"""
Where the cell is interrupted and its code has not heard so: InterruptException, in place of an error of LibSK
with which a call ended that waited, or of a question that nobody will answer.
"""
function tell_interrupt()
    is_cancelled() && current_task() === cell_task[] && hears_interrupt() && throw_interrupt()
    return
end

"""
Puts out by `put`, whose status is the value. It is refused where there is no room and the cell has not heard of
an interrupt: then it hears so, or has, and waits for room.
"""
function put_out(put)
    while true
        status = put()
        status == ERR_ABORTED || return status
        current_task() === cell_task[] && !hears_interrupt() || throw_interrupt()
    end
end

"""
Calls `f` as code of the cell, which an interrupt ends: its value, or what it raised, as pairs of
exception and backtrace, the newest last.
"""
function as_cell_code(f)
    try
        cell_task[], seen[] = current_task(), Tuple{Any,Any}[]
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

"""What is on a task's stack of exceptions, as pairs of exception and backtrace, the newest last."""
exceptions(task = current_task()) = Tuple{Any,Any}[(error, backtrace) for (error, backtrace) in stack_of(task)]

@static if isdefined(Base, :current_exceptions)
    stack_of(task) = Base.current_exceptions(task)
else
    stack_of(task) = Base.catch_stack(task)
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

@static if VERSION < v"1.6"
    """
    Julia's own, which runs where a task has just ended, lets signals in for a moment in which nobody catches one:
    that ends the process. A task that has ended has no use for any.
    """
    function Base.task_done_hook(task::Task)
        # Signals are deferred by who calls it.
        istaskfailed(task) && (task.backtrace = catch_backtrace())
        waits = task.donenotify
        if waits isa Base.ThreadSynchronizer
            lock(waits)
            try
                isempty(waits.waitq) || notify(waits)
            finally
                unlock(waits)
            end
        end
        while true
            wait()  # Which does not return.
        end
    end
end
