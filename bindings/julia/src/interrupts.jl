# Whose Ctrl-C is. Julia throws it into whichever task waits last, and every task that waits here does so again
# and again: it is handed on to the task that the program itself is.

"""A task that waits for events."""
mutable struct Waiter
    task::Task
    is_interrupted::Bool
end

const waiters = Waiter[]
const waiters_lock = ReentrantLock()

"""What a script is, or what evaluates at a prompt."""
function program_task()
    backend = isdefined(Base, :active_repl_backend) ? Base.active_repl_backend : nothing
    known = backend !== nothing && hasproperty(backend, :backend_task)
    return known ? backend.backend_task : Base.roottask
end

"""A wait of at most a moment, in which Ctrl-C ends this task's call only if it is the program's own."""
function interruptible(wait)
    own = Waiter(current_task(), false)
    try
        disable_sigint(() -> lock(() -> enlist(own), waiters_lock))
        wait()
    catch error
        error isa InterruptException && disable_sigint(() -> hand_on_interrupt(own)) || rethrow()
    finally
        disable_sigint(() -> lock(() -> filter!(!=(own), waiters), waiters_lock))
    end
    own.is_interrupted && throw(InterruptException())
    return nothing
end

"""With the lock. What Ctrl-C has kept from being taken away goes now."""
function enlist(own)
    filter!(each -> each.task !== own.task && !istaskdone(each.task), waiters)
    push!(waiters, own)
end

"""
False: it is this task's. In a notebook the rank's program says whose it is, and at a prompt nobody may throw into
what waits for the next line.
"""
function hand_on_interrupt(own::Waiter)
    program = program_task()
    (tells_interrupts() || program === own.task || istaskdone(program)) && return false
    return lock(waiters_lock) do
        at = findfirst(each -> each.task === program, waiters)
        at === nothing && isdefined(Base, :active_repl_backend) && return false
        if at === nothing
            schedule(program, InterruptException(); error = true)
        else
            waiters[at].is_interrupted = true
        end
        return true
    end
end

"""
What `make()` makes. Ctrl-C meanwhile is thrown behind it, and `undo(made)` is called before: nobody else knows of
what was made.
"""
function made_whole(make; undo)
    made = nothing
    try
        disable_sigint(() -> made = make())
    catch
        made === nothing || undo(made)
        rethrow()
    end
    return made
end
