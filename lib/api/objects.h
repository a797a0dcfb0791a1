// What the public handles stand for.
#ifndef SK_LIB_API_OBJECTS_H_
#define SK_LIB_API_OBJECTS_H_

#include <atomic>
#include <memory>

#include "lib/api/guard.h"
#include "lib/api/handles.h"
#include "lib/base/log.h"
#include "lib/comm/arguments.h"
#include "lib/comm/communicator.h"

namespace sk::api {

struct Context {
  Log log;
  std::atomic<int> children{0};  // Communicators and sessions alive.
};

struct Comm {
  std::shared_ptr<Context> context;
  std::unique_ptr<Communicator> communicator;
  Comm(std::shared_ptr<Context> owner, std::unique_ptr<Communicator> made)
      : context(std::move(owner)), communicator(std::move(made)) {
    context->children.fetch_add(1);
  }
  ~Comm() {
    communicator.reset();
    context->children.fetch_sub(1);
  }
};

struct PlanHandle {
  void* comm;   // Handle of its communicator, which may be freed meanwhile.
  World world;  // As its communicator has it.
  std::shared_ptr<const Plan> plan;
};

HandleTable<std::shared_ptr<Context>>& contexts();
HandleTable<Comm>& comms();
HandleTable<Packed>& packed_weights();
HandleTable<PlanHandle>& plans();

// Shared memory and the CPU; GPUs.
const Backend& backend();

inline World world_of(const Communicator& comm) {
  return {int32_t(comm.rank()), int32_t(comm.world_size()), comm.device()};
}

// Runs body(Communicator&) as the one user of `comm`.
template <typename Body>
sk_status with_comm(const void* comm, const Body& body) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, comms().use(comm));
    return body(*use->communicator);
  });
}

}  // namespace sk::api

#endif  // SK_LIB_API_OBJECTS_H_
