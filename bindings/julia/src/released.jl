# What was dropped without being closed, until somebody may wait for its end.
#
# To free something can wait for other threads, and every call of libsk makes a sentence of before
# invalid. A finalizer may neither wait nor come between a call and its sentence. So it only writes
# down what is to be freed, in memory that is not Julia's, and the next creation frees it.

struct Node
    next::Ptr{Node}
    free::Ptr{Cvoid}
    handle::Ptr{Cvoid}
end

const dropped = Threads.Atomic{UInt}(0)

"""Called by finalizers: `free(handle)` is due. Neither waits nor allocates Julia's memory."""
function free_later(free::Ptr{Cvoid}, handle::Ptr{Cvoid})
    handle == C_NULL && return nothing
    node = Ptr{Node}(Libc.malloc(sizeof(Node)))
    node == C_NULL && return nothing  # It stays until the process ends.
    while true
        head = dropped[]
        unsafe_store!(node, Node(Ptr{Node}(head), free, handle))
        Threads.atomic_cas!(dropped, head, UInt(node)) == head && return nothing
    end
end

"""Frees what was dropped; what cannot be freed now is tried again the next time."""
free_dropped() = disable_sigint(free_each)

function free_each()
    node = Ptr{Node}(Threads.atomic_xchg!(dropped, UInt(0)))
    while node != C_NULL
        each = unsafe_load(node)
        Libc.free(node)
        status = ccall(each.free, Int32, (Ptr{Cvoid},), each.handle)
        status in (TIMEOUT, BUSY) && free_later(each.free, each.handle)
        node = each.next
    end
end

