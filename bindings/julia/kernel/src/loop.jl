# The rank's main task: takes requests one by one until it is told to leave.

function serve()
    watcher = FileWatching.FDWatcher(RawFD(worker.requests), true, false)
    while true
        request = try
            next_request()
        catch error
            error isa WorkerError && error.code == ERR_PEER_LOST && return
            rethrow()
        end
        if request === nothing
            connect_if_wanted()
            wait(watcher)  # Tasks that cells have left behind run meanwhile.
        elseif request.kind == SHUTDOWN
            return
        else
            serve_one(request)
        end
    end
end

"""One request. Nothing that is raised around it ends the rank, and it gets its answer."""
function serve_one(request)
    try
        if request.kind in (EXECUTE, ACTION, COMM)
            serve_cell(request)
            tell_names()
        else
            answer_question(request)
        end
    catch error
        contain(request, error)
    end
end

function serve_cell(request)
    statement[] = nothing
    failure = if request.kind == EXECUTE
        run_cell(request)
    elseif request.kind == ACTION
        as_cell_code(() -> run_action(request.code))[2]
    else
        as_cell_code(() -> answer_comm(request))[2]
    end
    answer = request.kind == EXECUTE && failure === nothing && !isempty(request.expressions) ?
        answer_expressions(request.expressions) : ""
    restore_descriptors()
    restore_variables()
    Libc.flush_cstdio()
    if failure !== nothing
        free_stream_locks()
        is_cancelled() && forget_signals()  # It is not to hit what says the error.
        report_error(failure)
    end
    isempty(answer) || cell_reply(answer)
    is_cancelled() && forget_signals()
    ask_for_another()
    cell_done(failure === nothing ? CELL_OK : CELL_ERROR)
end

"""Ends what a request has begun; each step by itself: one that was made already is refused."""
function contain(request, error)
    if !(request.kind in (EXECUTE, ACTION, COMM))
        try
            decline(request, line_of(error))
        catch
        end
        return
    end
    try
        tell("beside the cell: $(line_of(error))")
    catch
    end
    try
        send_error(name_of(error), text_of(error), [line_of(error)], 0)
    catch
    end
    try
        cell_done(CELL_ERROR)
    catch
    end
end

"""Joins, serves, leaves; the exit status."""
function main(library::AbstractString)
    if !haskey(ENV, "SK_WORKER_FD")
        println(stderr, "rank.jl is a rank of a notebook; `sk kernel` starts it.\nSK_WORKER_FD is not set.")
        return 2
    end
    Base.sigatomic_begin()
    Base.exit_on_sigint(false)
    try
        open_library(library)
        join_controller()
    catch error
        println(stderr, "superkernel: ", line_of(error))
        return 1
    end
    foreach(name -> delete!(ENV, name), PRIVATE_VARIABLES)
    add_package(library)
    know_rank()
    install_streams()
    install_stdin()
    pushdisplay(RankDisplay())
    refuse_editors()
    Core.eval(Base, :(is_interactive = true))
    add_own_names()
    @async watch_interrupts()
    serves[] = true
    serve()
    run_exit_hooks()
    serves[] = false
    Core.eval(Base, :(is_interactive = false))  # Else Julia's own prompt would follow.
    leave_controller()
    return 0
end

"""What cells have given `atexit`: here, not by Julia's own exit, while what it prints still has a way to
the notebook, and where an `exit()` in it is refused as in a cell."""
run_exit_hooks() = Base.invokelatest(Base._atexit, (applicable(Base._atexit) ? () : (Cint(0),))...)

# Ours; children must not take them. LD_PRELOAD stays: Julia makes children of itself, to precompile
# packages and for workers, and starts the program behind the wrapper that has set it.
const PRIVATE_VARIABLES = ("SK_WORKER_FD", "SK_CAPTURE_FDS", "SK_JOB_SECRET_FD")
