#include "lib/api/objects.h"
#include "lib/comm/cpu_communicator.h"

namespace sk::api {
namespace {

constexpr int64_t kTimeoutNs = 300'000'000'000;  // Nobody else is waited for.

// No launcher is looked for: whatever the job, this process is alone here.
Result<std::unique_ptr<Comm>> make(const Context& context, uint32_t workers) {
  Communicator::Config config;
  config.bootstrap.kind = SK_BOOTSTRAP_AUTO;
  config.bootstrap.timeout_ns = config.timeout_ns = kTimeoutNs;
  config.bootstrap.env = [](const char*) { return std::optional<std::string>(); };
  config.workers = workers;
  config.log = context.log;
  SK_ASSIGN_OR_RETURN(auto made, CpuCommunicator::create(config, backend()));
  return std::make_unique<Comm>(Comm{.child = Child(),
                                     .tiles = context.tiles,
                                     .communicator = std::move(made),
                                     .interruption = context.interruption});
}

}  // namespace

// Of two threads that make one at the same time, one keeps its own.
Result<void*> Lane::get(const Context& context, uint32_t workers) {
  if (void* known = comm_.load(std::memory_order_acquire)) return known;
  SK_ASSIGN_OR_RETURN(auto made, make(context, workers));
  SK_ASSIGN_OR_RETURN(void* handle, comms.add(std::move(made), /*queues=*/true));
  void* before = nullptr;
  if (comm_.compare_exchange_strong(before, handle, std::memory_order_acq_rel)) return handle;
  (void)comms.remove(handle);
  return before;
}

Lane::~Lane() {
  if (void* handle = comm_.load(std::memory_order_acquire)) (void)comms.remove(handle);
}

}  // namespace sk::api
