// What the public handles stand for.
#ifndef SK_LIB_API_OBJECTS_H_
#define SK_LIB_API_OBJECTS_H_

#include <atomic>
#include <memory>

#include "lib/api/guard.h"
#include "lib/api/handles.h"
#include "lib/base/log.h"
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
  void* comm;  // Handle of its communicator, which may be freed meanwhile.
  int32_t rank, world_size;
  std::shared_ptr<const Plan> plan;
};

HandleTable<std::shared_ptr<Context>>& contexts();
HandleTable<Comm>& comms();
HandleTable<Packed>& packed_weights();
HandleTable<PlanHandle>& plans();

// The CPU backend over shared memory.
const Backend& cpu_backend();

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
