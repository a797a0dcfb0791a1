# Comms, on which widgets live: Julia ranks have none, and say so to whoever opens one.

# enum sk_comm_kind
const COMM_OPEN, COMM_MSG, COMM_CLOSE = 1, 2, 3

function answer_comm(request)
    request.comm_kind == COMM_OPEN || return
    data = json(["error" => json("Julia ranks have no widgets: no comm target named \"$(request.target)\"")])
    id = c_text(request.comm)
    GC.@preserve id data begin
        message = Ref(RawCommMessage(sizeof(RawCommMessage), COMM_CLOSE, pointer(id), C_NULL, pointer(data),
                                     sizeof(data), C_NULL, C_NULL, 0))
        check(@sk sk_worker_comm(worker.handle::Ptr{Cvoid}, message::Ref{RawCommMessage}))
    end
end
