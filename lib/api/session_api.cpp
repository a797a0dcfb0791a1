// What a session tells of its ranks, and what it does about lost ones: include/sk/session.h.
#include "lib/api/exec_handles.h"
#include "lib/api/guard.h"
#include "sk/session.h"

using namespace sk::api;  // NOLINT(google-build-using-namespace): the shell speaks of nothing else.

namespace {

sk_status ask_about(const char* call, sk_session* session, uint32_t kind, const char* ranks,
                    uint64_t* out_request) noexcept {
  return with_session(call, session, [&](SessionHandle& handle) -> sk::Status {
    SK_RETURN_IF_ERROR(check_out(call, "out_request", out_request));
    SK_ASSIGN_OR_RETURN(auto ask, sk::control::to_rank_ask(kind, ranks));
    SK_ASSIGN_OR_RETURN(*out_request, handle.session->ask(std::move(ask)));
    return {};
  });
}

}  // namespace

extern "C" {

sk_status sk_session_status(sk_session* session, uint64_t* out_request) noexcept {
  return ask_about("sk_session_status", session, sk::control::kAskStatus, nullptr, out_request);
}

sk_status sk_session_revive(sk_session* session, const char* ranks,
                            uint64_t* out_request) noexcept {
  return ask_about("sk_session_revive", session, sk::control::kAskRevive, ranks, out_request);
}

sk_status sk_session_stack(sk_session* session, const char* ranks, uint64_t* out_request) noexcept {
  return ask_about("sk_session_stack", session, sk::control::kAskStack, ranks, out_request);
}

}  // extern "C"
