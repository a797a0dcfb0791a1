#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "lib/api/objects.h"
#include "lib/api/serial_turns.h"
#include "lib/base/fork_lock.h"
#include "lib/comm/arguments.h"
#include "lib/effect/term.h"
#include "lib/plan/task_info.h"
#include "sk/base.h"

namespace sk::api {

namespace {

Result<std::shared_ptr<Context>> make_context(const sk_config* config) {
  SK_ASSIGN_OR_RETURN(const sk_config read, read_struct("sk_config", config));
  auto context = std::make_shared<Context>();
  SK_ASSIGN_OR_RETURN(context->log,
                      Log::make(read.log, read.log_user, read.log_level, std::getenv("SK_LOG")));
  context->log.write(SK_LOG_INFO, "context", "libsk {}.{}.{} in process {}", SK_VERSION_MAJOR,
                     SK_VERSION_MINOR, SK_VERSION_PATCH, getpid());
  return context;
}

ForkLock making;

// What is made once in a process and calls look at: a fork while one of them made it would leave it
// half made for ever, and its child waiting. So forks wait until it is made.
void make_what_is_made_once() {
  const std::scoped_lock locked(making);
  (void)backend();
  (void)effect_of(TaskOp::kNop);
  (void)effect::Joining::hash_of(0);
  (void)Status::no_memory().message();
}

Status check_childless(const Context& context) {
  const int alive = context.children.load();
  if (alive == 0) return {};
  return error(SK_ERR_BUSY, "{} communicators of this context are alive", alive);
}

void forget_all() {
  contexts.forget_all();
  comms.forget_all();
  packed_weights.forget_all();
  plans.forget_all();
  operations.forget_all();
  SerialTurn::forget_all();
}

}  // namespace

// Nobody can ask for a communicator, or for the lane, once calls have drained.
Status end_context(const void* context, int64_t limit_ns) {
  SK_RETURN_IF_ERROR(check_outside_tiles());
  SK_ASSIGN_OR_RETURN(auto ending, contexts.end(context, limit_ns));
  SK_RETURN_IF_ERROR(check_childless(**ending));
  ending.close();
  const auto drains = [&]() -> Status {
    SK_RETURN_IF_ERROR(ending.drain());
    return check_childless(**ending);
  };
  SK_RETURN_IF_ERROR((*ending)->self.end(ending.left_ns(), drains));
  const auto gone = std::move(ending).take();
  return {};
}

}  // namespace sk::api

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

sk_status sk_init(const sk_config* config, sk_context** out_context) noexcept {
  return guard([&]() -> Status {
    SK_RETURN_IF_ERROR(require("out_context", out_context));
    make_what_is_made_once();
    SK_RETURN_IF_ERROR(watch_forks(&forget_all));
    SK_ASSIGN_OR_RETURN(std::shared_ptr<Context> context, make_context(config));
    SK_ASSIGN_OR_RETURN(
        void* handle, contexts.add(std::make_unique<std::shared_ptr<Context>>(std::move(context))));
    *out_context = static_cast<sk_context*>(handle);
    return {};
  });
}

sk_status sk_finalize(sk_context* context) noexcept {
  return guarded([&] { return end_context(context, kTurnNs); });
}
