#include "lib/api/handles.h"

#include <iterator>

#include "lib/base/inside_callback.h"

namespace sk::api {

const char* handle_kind_name(HandleKind kind) {
  static constexpr const char* kNames[] = {nullptr,          "context", "communicator",
                                           "packed weights", "plan",    "topology",
                                           "session",        "worker",  "operation"};
  return size_t(kind) < std::size(kNames) ? kNames[size_t(kind)] : nullptr;
}

Status bad_handle(HandleKind wanted, const void* handle) {
  const char* name = handle_kind_name(wanted);
  if (handle == nullptr) return error(SK_ERR_BAD_HANDLE, "{} is null", name);
  const char* article = wanted == HandleKind::kOp ? "an" : "a";
  const auto value = uint64_t(reinterpret_cast<uintptr_t>(handle));
  const char* other = handle_kind_name(HandleKind(value >> kIndexBits & ((1 << kKindBits) - 1)));
  if (other != nullptr && other != name)
    return error(SK_ERR_BAD_HANDLE, "{} is not {} {} handle; if it is any, it is of kind {}",
                 handle, article, name, other);
  return error(SK_ERR_BAD_HANDLE, "{} is not {} {} handle, or was freed", handle, article, name);
}

Status busy_handle(HandleKind kind, bool ends) {
  return error(SK_ERR_BUSY, "another thread {} this {}", ends ? "ends" : "is inside a call on",
               handle_kind_name(kind));
}

Status inside_call(HandleKind kind) {
  return inside_call(fmt::format("on the same {}", handle_kind_name(kind)));
}

Status inside_call(std::string_view call) {
  const char* by = InsideCallback::name();
  return error(SK_ERR_BUSY, "called from {}, inside a call {} that is not over",
               by != nullptr ? by : "a function of the caller's", call);
}

Status inside_too_many(HandleKind kind) {
  return error(
      SK_ERR_BUSY,
      "this thread is inside of more calls than are known one by one, each from a function "
      "of the one before, and this {} may be in one of them",
      handle_kind_name(kind));
}

Status waits_too_deep(HandleKind kind) {
  const char* by = InsideCallback::name();
  return error(SK_ERR_BUSY,
               "called from {}, inside so many calls, each from a function of the one before, that "
               "no further one waits for this {}",
               by != nullptr ? by : "a function of the caller's", handle_kind_name(kind));
}

Status no_turn(HandleKind kind, TurnQueue::Outcome why, int64_t limit_ns) {
  if (why == TurnQueue::Outcome::kEnds) return busy_handle(kind, /*ends=*/true);
  return no_turn(fmt::format("on this {}", handle_kind_name(kind)), why, limit_ns);
}

// Of a child that is not to be there.
static Status came_back(std::string_view calls) {
  return error(SK_ERR_FORKED,
               "a function of the wait for other threads' calls {} forked, and its child came back "
               "from it: the call is the parent's",
               calls);
}

Status no_turn(std::string_view calls, TurnQueue::Outcome why, int64_t limit_ns) {
  using Outcome = TurnQueue::Outcome;
  if (why == Outcome::kLate) {
    return error(SK_ERR_TIMEOUT, "other threads' calls {} have not ended for {:.3g} s", calls,
                 double(limit_ns) * 1e-9);
  }
  if (why == Outcome::kForked) return came_back(calls);
  if (why == Outcome::kInterrupted)
    return error(SK_ERR_ABORTED, "interrupted while another thread's call {} ran", calls);
  return error(SK_ERR_BUSY, "other threads' calls {} have not ended, and options.waiting {}", calls,
               why == Outcome::kThrew ? "threw an exception" : "ended the wait");
}

}  // namespace sk::api
