#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/api/creations.h"
#include "lib/api/exec_handles.h"
#include "lib/api/objects.h"
#include "lib/base/lasting.h"
#include "lib/comm/arguments.h"
#include "lib/comm/checks.h"
#include "lib/comm/make_communicator.h"
#include "lib/comm/trace.h"
#include "sk/comm.h"
#include "sk/trace.h"

using namespace sk;       // NOLINT(google-build-using-namespace): the shell speaks of nothing else.
using namespace sk::api;  // NOLINT(google-build-using-namespace)

namespace {

class ProcessCollectives final : public control::Collectives {
 public:
  static ProcessCollectives& instance() {
    static Lasting<ProcessCollectives> all;
    return *all;
  }
  Absence& absence() { return absence_; }

  void mark() override {
    marked_.clear();
    comms.for_each_in_use([&](Comm& comm, uint32_t turn) { marked_.emplace_back(&comm, turn); });
  }
  // One rank may have skipped the barrier in which this one waits.
  void interrupt() override {
    comms.for_each_in_use([&](Comm& comm, uint32_t turn) {
      const auto call = std::pair<const Comm*, uint32_t>(&comm, turn);
      if (std::find(marked_.begin(), marked_.end(), call) == marked_.end()) return;
      // Of what a rank does alone nobody waits for others, and the lane is there for good.
      if (comm.local != nullptr) comm.communicator->abort("interrupted");
    });
    marked_.clear();
    end_creations(error(SK_ERR_ABORTED, "interrupted while the ranks were connecting"), false);
  }
  void lose_ranks(const Status& why) override { end_creations(why, true); }
  void set_absent(std::vector<AbsentPeers> groups) override { absence_.set(std::move(groups)); }
  Wait waiting() const override {
    AwaitedPeers wait = absence_.waiting();
    return {std::move(wait.call), std::move(wait.ranks)};
  }
  bool used_beside_cells(bool some_go_on) override {
    bool used = absence_.take_called_elsewhere();
    called_beside_ = called_beside_ || used;
    used = used || (some_go_on && called_beside_);
    comms.for_each_in_use([&](Comm&, uint32_t) { used = true; });
    return used;
  }

 private:
  // Both under the asking worker's mutex.
  std::vector<std::pair<const Comm*, uint32_t>> marked_;  // Only to be compared.
  bool called_beside_ = false;                            // Ever.
  Absence absence_{home_thread().load()};
};

// The context itself is not held while ranks are waited for.
Result<Child> child_of(const sk_context* context) {
  SK_ASSIGN_OR_RETURN(const auto owner, contexts.pin(context));
  return Child(*owner);
}

Result<std::unique_ptr<Communicator>> create(Communicator::Config config,
                                             std::shared_ptr<Cancel> cancel) {
  ProcessCollectives& all = ProcessCollectives::instance();
  collectives().store(&all);
  const int32_t kind = config.bootstrap.kind;
  const bool spans_job = kind == SK_BOOTSTRAP_AUTO || kind == SK_BOOTSTRAP_ENV;
  // Those that are left are no fewer because a rank has ended.
  const Creation creation(cancel, spans_job && !config.bootstrap.gone);
  if (spans_job) config.absence = &all.absence();
  config.bootstrap.cancel = std::move(cancel);
  return make_communicator(std::move(config), backend());
}

// A rank that dies while they meet, or connect, ends that for all: they meet again without it.
Result<std::unique_ptr<Communicator>> meet_survivors(Communicator& old,
                                                     const std::shared_ptr<Cancel>& cancel,
                                                     int64_t timeout_ns) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  int64_t left_ns = timeout_ns;
  while (true) {
    SK_ASSIGN_OR_RETURN(Communicator::Config config, old.for_survivors(left_ns));
    auto made = create(std::move(config), cancel);
    left_ns = std::chrono::nanoseconds(end - Clock::now()).count();
    if (made.ok() || made.status().code() != SK_ERR_PEER_LOST || left_ns <= 0) return made;
  }
}

// Of a communicator that its caller may free.
Result<int64_t> timeout_of(const sk_comm* comm) {
  SK_ASSIGN_OR_RETURN(const auto use, comms.pin(comm));
  if (use->local != nullptr) return use->timeout_ns;
  return error(SK_ERR_INVALID_ARGUMENT,
               "this communicator is of sk_comm_self(): sk_finalize() ends it");
}

std::unique_ptr<Comm> as_object(Child child, std::unique_ptr<Communicator> made,
                                int64_t timeout_ns) {
  const auto workers = uint32_t(made->info().workers);
  auto tiles = child.context().tiles;
  return std::make_unique<Comm>(Comm{std::move(child), std::move(tiles), std::move(made), workers,
                                     timeout_ns, std::make_unique<Lane>(),
                                     std::make_unique<Successor>()});
}

Result<std::unique_ptr<Comm>> shrink(Comm& old, int64_t timeout_ms) {
  if (old.local == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "this communicator is of sk_comm_self(): it has no other ranks to lose");
  }
  Child child = old.child.another();
  SK_ASSIGN_OR_RETURN(auto cancel, Cancel::make(-1));
  const Successor::UnderWay under_way(*old.successor, cancel);
  const int64_t timeout_ns = timeout_ms != 0 ? timeout_ms * 1'000'000 : old.timeout_ns;
  SK_ASSIGN_OR_RETURN(auto made, meet_survivors(*old.communicator, cancel, timeout_ns));
  return as_object(std::move(child), std::move(made), old.timeout_ns);
}

}  // namespace

sk_status sk_comm_create(sk_context* context, const sk_comm_config* config,
                         sk_comm** out_comm) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_may_connect());
    SK_RETURN_IF_ERROR(require("out_comm", out_comm));
    SK_ASSIGN_OR_RETURN(Child child, child_of(context));
    SK_ASSIGN_OR_RETURN(Communicator::Config checked, comm_config(config));
    checked.log = child.context().log;
    const int64_t timeout_ns = checked.timeout_ns;
    SK_ASSIGN_OR_RETURN(auto cancel, Cancel::make(checked.cancel_fd));
    SK_ASSIGN_OR_RETURN(auto made, create(std::move(checked), std::move(cancel)));
    SK_ASSIGN_OR_RETURN(void* handle,
                        comms.add(as_object(std::move(child), std::move(made), timeout_ns)));
    *out_comm = static_cast<sk_comm*>(handle);
    return {};
  });
}

sk_status sk_comm_shrink(sk_comm* comm, int64_t timeout_ms, sk_comm** out_comm) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_may_connect());
    SK_RETURN_IF_ERROR(require("out_comm", out_comm));
    SK_RETURN_IF_ERROR(check::timeout_ms("timeout_ms", timeout_ms));
    SK_ASSIGN_OR_RETURN(const auto use, comms.use(comm));
    SK_ASSIGN_OR_RETURN(auto left, shrink(*use, timeout_ms));
    SK_ASSIGN_OR_RETURN(void* handle, comms.add(std::move(left)));
    *out_comm = static_cast<sk_comm*>(handle);
    return {};
  });
}

sk_status sk_comm_free(sk_comm* comm) noexcept {
  return guarded([&]() -> Status {
    SK_RETURN_IF_ERROR(check_outside_tiles());
    SK_ASSIGN_OR_RETURN(const int64_t timeout_ns, timeout_of(comm));
    SK_ASSIGN_OR_RETURN(auto ending, comms.end(comm, timeout_ns));
    SK_RETURN_IF_ERROR(ending->communicator->prepare_to_end());
    ending.close();
    SK_RETURN_IF_ERROR(ending->local->end(ending.left_ns(), [&] { return ending.drain(); }));
    const auto gone = std::move(ending).take();
    return {};
  });
}

sk_status sk_comm_abort(sk_comm* comm, const char* reason) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, comms.pin(comm));
    if (use->local == nullptr) {
      return error(SK_ERR_INVALID_ARGUMENT,
                   "this communicator is of sk_comm_self(): nobody waits for others in its calls");
    }
    const std::string text = reason == nullptr ? "" : std::string(reason).substr(0, 199);
    use->communicator->abort(text);
    use->successor->end(error(SK_ERR_ABORTED, "sk_comm_abort() was called on the communicator{}{}",
                              text.empty() ? "" : ": ", text));
    return {};
  });
}

sk_status sk_comm_query(const sk_comm* comm, sk_comm_info* info) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(check_struct("sk_comm_info", "info", info));
    fill_struct(communicator.info(), info);
    return {};
  });
}

sk_status sk_comm_synchronize(sk_comm* comm, const sk_run_options* options) noexcept {
  return with_comm(comm, options, [&](Communicator& communicator) -> Status {
    SK_ASSIGN_OR_RETURN(const check::RunOptions read,
                        check::run_options(communicator.device(), options));
    return communicator.synchronize(read.stream, read.timeout_ns);
  });
}

sk_status sk_alloc(sk_comm* comm, uint64_t bytes, void** out) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(require("out", out));
    if (bytes == 0) return error(SK_ERR_INVALID_ARGUMENT, "bytes is 0, it must be at least 1");
    SK_ASSIGN_OR_RETURN(*out, communicator.allocate(bytes));
    return {};
  });
}

sk_status sk_free(sk_comm* comm, void* memory) noexcept {
  return with_comm(comm, [&](Communicator& communicator) { return communicator.free(memory); });
}

sk_status sk_register(sk_comm* comm, void* memory, uint64_t bytes) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_RETURN_IF_ERROR(require("memory", memory));
    if (bytes == 0) return error(SK_ERR_INVALID_ARGUMENT, "bytes is 0, it must be at least 1");
    return communicator.register_memory(memory, bytes);
  });
}

sk_status sk_deregister(sk_comm* comm, void* memory) noexcept {
  return with_comm(
      comm, [&](Communicator& communicator) { return communicator.deregister_memory(memory); });
}

sk_status sk_trace_start(sk_comm* comm, uint64_t event_count_max) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    return communicator.start_trace(event_count_max == 0 ? 65'536 : event_count_max);
  });
}

sk_status sk_trace_stop(sk_comm* comm) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    communicator.stop_trace();
    return {};
  });
}

sk_status sk_trace_dump(const sk_comm* comm, char* buffer, size_t capacity,
                        size_t* out_size) noexcept {
  return with_comm(comm, [&](Communicator& communicator) -> Status {
    SK_ASSIGN_OR_RETURN(const TraceBuffer* trace, communicator.trace());
    return copy_out(trace_json(*trace, communicator.rank()), buffer, capacity, out_size);
  });
}
