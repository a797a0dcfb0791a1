// Sessions that outlive their front end: include/sk/session.h.
#include "lib/api/exec_handles.h"
#include "lib/api/guard.h"
#include "sk/session.h"

using namespace sk::api;  // NOLINT(google-build-using-namespace): the shell speaks of nothing else.

extern "C" {

sk_status sk_session_attach(const char* name, const char* token, sk_session** out_session,
                            int32_t* out_ranks) noexcept {
  return guard([&]() -> sk::Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_attach", "out_session", out_session));
    *out_session = nullptr;
    SK_RETURN_IF_ERROR(check_out("sk_session_attach", "name", name));
    SK_RETURN_IF_ERROR(check_out("sk_session_attach", "token", token));
    SK_RETURN_IF_ERROR(sk::control::check_name(name, token));
    auto handle = std::make_unique<SessionHandle>();
    SK_ASSIGN_OR_RETURN(handle->session, sk::control::Session::attach(name, token));
    const uint32_t ranks = handle->session->rank_count();
    SK_ASSIGN_OR_RETURN(void* made, sessions.add(std::move(handle)));
    if (out_ranks != nullptr) *out_ranks = static_cast<int32_t>(ranks);
    *out_session = static_cast<sk_session*>(made);
    return {};
  });
}

sk_status sk_session_keep(sk_session* session, const char* name, const char* text,
                          uint64_t bytes) noexcept {
  return with_session("sk_session_keep", session, [&](SessionHandle& handle) -> sk::Status {
    SK_RETURN_IF_ERROR(check_out("sk_session_keep", "name", name));
    SK_ASSIGN_OR_RETURN(auto note, sk::control::to_note(name, text, bytes));
    return handle.session->keep(note);
  });
}

sk_status sk_session_ack(sk_session* session, uint64_t cell) noexcept {
  return with_session("sk_session_ack", session, [&](SessionHandle& handle) -> sk::Status {
    return handle.session->acknowledge(cell);
  });
}

sk_status sk_session_leave(sk_session* session) noexcept {
  return guard([&]() -> sk::Status {
    if (session == nullptr) return {};
    auto owned = sessions.remove_idle(session);
    if (!owned.ok()) return std::move(owned.status()).with_context("sk_session_leave");
    (*owned)->session->leave();
    return {};
  });
}

}  // extern "C"
