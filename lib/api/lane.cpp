#include "lib/api/objects.h"
#include "lib/comm/cpu_communicator.h"

namespace sk::api {
namespace {

constexpr const char* kWhat = "its lane, where local operations run";

// No launcher is looked for: whatever the job, this process is alone here.
Result<std::unique_ptr<Comm>> make(const Context& context, uint32_t workers, int64_t timeout_ns) {
  Communicator::Config config;
  config.bootstrap.kind = SK_BOOTSTRAP_AUTO;
  config.bootstrap.timeout_ns = config.timeout_ns = timeout_ns;
  config.bootstrap.env = [](const char*) { return std::optional<std::string>(); };
  config.workers = workers;
  config.log = context.log;
  SK_ASSIGN_OR_RETURN(auto made, CpuCommunicator::create(config, backend()));
  return std::make_unique<Comm>(Comm{.child = Child(),
                                     .tiles = context.tiles,
                                     .communicator = std::move(made),
                                     .workers = workers,
                                     .timeout_ns = timeout_ns,
                                     .interruption = context.interruption.use()});
}

}  // namespace

// Of two threads that make one at the same time, one keeps its own.
Result<void*> Lane::get(const Context& context, uint32_t workers, int64_t timeout_ns) {
  if (void* known = comm_.load(std::memory_order_acquire)) return known;
  SK_ASSIGN_OR_RETURN(auto made, make(context, workers, timeout_ns));
  SK_ASSIGN_OR_RETURN(void* handle, comms.add(std::move(made), /*turn_ns=*/timeout_ns));
  void* before = nullptr;
  if (comm_.compare_exchange_strong(before, handle, std::memory_order_acq_rel)) return handle;
  (void)comms.remove(handle);  // Which nobody else has.
  return before;
}

// One that comes about meanwhile has been made by a call that its owner waits for.
Status Lane::end(int64_t limit_ns, const std::function<Status()>& owner_drains) {
  void* handle = comm_.load(std::memory_order_acquire);
  if (handle == nullptr) {
    SK_RETURN_IF_ERROR(owner_drains());
    handle = comm_.load(std::memory_order_acquire);
    if (handle == nullptr) return {};
  }
  auto ending = comms.end(handle, limit_ns);
  if (!ending.ok()) return std::move(ending.status()).with_context(kWhat);
  SK_RETURN_IF_ERROR(owner_drains());
  SK_RETURN_IF_ERROR(ending->drain().with_context(kWhat));
  const auto gone = std::move(*ending).take();
  comm_.store(nullptr, std::memory_order_release);
  return {};
}

}  // namespace sk::api
