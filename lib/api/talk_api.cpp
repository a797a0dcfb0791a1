// Input, comms and snapshots (include/sk/talk.h): the thin C shell over lib/control/host.
#include "lib/api/exec_handles.h"
#include "lib/api/guard.h"
#include "sk/talk.h"

using namespace sk::api;  // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using sk::Status;

extern "C" {

sk_status sk_session_answer(sk_session* session, uint64_t request, const char* text,
                            uint64_t bytes) noexcept {
  return with_session("sk_session_answer", session, [&](SessionHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto reply, sk::control::to_input_reply(request, text, bytes));
    return handle.session->answer(std::move(reply));
  });
}

sk_status sk_session_comm(sk_session* session, const sk_comm_message* message,
                          uint64_t* out_cell) noexcept {
  return with_session("sk_session_comm", session, [&](SessionHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_comm", "out_cell", out_cell));
    SK_ASSIGN_OR_RETURN(auto comm, sk::control::to_comm("sk_session_comm", message));
    SK_ASSIGN_OR_RETURN(*out_cell, handle.session->comm(std::move(comm)));
    return {};
  });
}

sk_status sk_worker_input(sk_worker* worker, const char* prompt, int32_t password,
                          int64_t timeout_ms, sk_input* input) noexcept {
  return with_worker("sk_worker_input", worker, [&](WorkerHandle& handle) -> Status {
    SK_RETURN_IF_ERROR(sk::check_struct("sk_input", "input", input));
    SK_RETURN_IF_ERROR(sk::control::check_timeout("sk_worker_input", timeout_ms));
    const std::unique_lock only_one(handle.input_mutex, std::try_to_lock);
    if (!only_one.owns_lock())
      return sk::error(SK_ERR_BUSY, "sk_worker_input: another thread of this rank waits for input");
    std::optional<std::string> text;
    if (prompt != nullptr) text = prompt;
    SK_ASSIGN_OR_RETURN(auto reply,
                        handle.worker->input(std::move(text), password != 0, timeout_ms));
    handle.input.fill(std::move(reply), input);
    return {};
  });
}

sk_status sk_worker_comm(sk_worker* worker, const sk_comm_message* message) noexcept {
  return with_worker("sk_worker_comm", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto comm, sk::control::to_comm("sk_worker_comm", message));
    return handle.worker->comm(std::move(comm));
  });
}

sk_status sk_worker_cell_reply(sk_worker* worker, const char* json, uint64_t bytes) noexcept {
  return with_worker("sk_worker_cell_reply", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto text, sk::control::to_cell_reply(json, bytes));
    return handle.worker->cell_reply(std::move(text));
  });
}

sk_status sk_worker_snapshot(sk_worker* worker, const char* root, const sk_name* names,
                             uint64_t count) noexcept {
  return with_worker("sk_worker_snapshot", worker, [&](WorkerHandle& handle) -> Status {
    SK_ASSIGN_OR_RETURN(auto list, sk::control::to_names(root, names, count));
    return handle.worker->snapshot(root, std::move(list));
  });
}

}  // extern "C"
