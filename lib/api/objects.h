// What the public handles stand for.
#ifndef SK_LIB_API_OBJECTS_H_
#define SK_LIB_API_OBJECTS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "lib/api/guard.h"
#include "lib/api/handles.h"
#include "lib/base/interruption.h"
#include "lib/base/log.h"
#include "lib/comm/arguments.h"
#include "lib/comm/communicator.h"
#include "lib/tile/user_table.h"
#include "transport/bootstrap/cancel.h"

namespace sk::api {

struct Context;

// A communicator in which this process is alone and which any thread may call: made when it is
// first asked for. Whoever has it ends it before it goes itself.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  // Its handle. `workers`: 0 is one for each core that this process may use. `timeout_ns`: so long
  // its calls wait for each other.
  Result<void*> get(const Context& context, uint32_t workers, int64_t timeout_ns);
  // Whoever waits for its turn is refused at once: it may keep its owner from going. Behind
  // `owner_drains` nobody can get() it. SK_ERR_TIMEOUT, and it stays, where a thread is inside of
  // it longer.
  Status end(int64_t limit_ns, const std::function<Status()>& owner_drains);

 private:
  std::atomic<void*> comm_{nullptr};
};

struct Context {
  Log log;
  std::shared_ptr<TileSet> tiles = std::make_shared<TileSet>();  // Plans of its communicators.
  SharedInterruption interruption;  // Of waits for a lane's turn, and for a tile's check.
  std::atomic<int> children{0};     // Communicators and sessions alive.
  Lane self;
};

// Keeps a context from being finalized, from before its communicator comes about to behind its end.
class Child {
 public:
  Child() = default;
  explicit Child(std::shared_ptr<Context> context) : context_(std::move(context)) {
    context_->children.fetch_add(1);
  }
  Child(Child&&) noexcept = default;
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (context_ != nullptr) context_->children.fetch_sub(1);
  }
  const Context& context() const { return *context_; }
  // Keeps the same one.
  Child another() const { return Child(context_); }

 private:
  std::shared_ptr<Context> context_;
};

// The creation of a communicator of those that are left of another one, while it is under way:
// what ends that one's calls ends this, too.
class Successor {
 public:
  class UnderWay {
   public:
    UnderWay(Successor& successor, std::shared_ptr<Cancel> cancel) : successor_(successor) {
      const std::lock_guard lock(successor_.mutex_);
      successor_.cancel_ = std::move(cancel);
    }
    ~UnderWay() {
      const std::lock_guard lock(successor_.mutex_);
      successor_.cancel_ = nullptr;
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

   private:
    Successor& successor_;
  };
  // Any thread.
  void end(const Status& why) {
    const std::lock_guard lock(mutex_);
    if (cancel_ != nullptr) cancel_->request(why);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Cancel> cancel_;
};

struct Comm {
  Child child;                     // Goes last. Of a lane it is nobody's.
  std::shared_ptr<TileSet> tiles;  // Of its context; outlives its plans, which name them.
  std::unique_ptr<Communicator> communicator;
  uint32_t workers = 0;  // Of a lane for this rank.
  int64_t timeout_ns = 0;
  std::unique_ptr<Lane> local{};  // For what this rank does alone; null: this is a lane itself.
  std::unique_ptr<Successor> successor{};  // Not of a lane.
  SharedInterruption::Use interruption{};  // Of a lane, whose calls wait for each other.
};

struct PlanHandle {
  void* comm;   // Handle of its communicator, which may be freed meanwhile.
  World world;  // As its communicator has it.
  std::shared_ptr<const Plan> plan;
  Pinned pinned{};
  // What the last run was given: with the same the call is the same.
  const void *in = nullptr, *weights = nullptr, *out = nullptr;
};

// A call of sk_call() that is kept ready.
struct OpHandle {
  void* comm;  // Handle of its communicator, or of the lane of one, which may be freed meanwhile.
  const Schema* schema;  // Of a user's: its context has it, which outlives the communicator.
  const ArgLayout* layout;
  Call call{};        // The last one that was asked for.
  CallWords words{};  // What that was given; none where its structs are older.
  std::array<const void*, OpDesc::kOperandsMax> packed{};  // Handles of those, by operand.
  Pinned pinned{};
};

inline constinit HandleTable<std::shared_ptr<Context>, HandleKind::kContext> contexts;
inline constinit HandleTable<Comm, HandleKind::kComm> comms;
inline constinit HandleTable<Packed, HandleKind::kPacked> packed_weights;
inline constinit HandleTable<PlanHandle, HandleKind::kPlan> plans;
inline constinit HandleTable<OpHandle, HandleKind::kOp> operations;

// What sk_finalize() does, in `limit_ns` at most: where calls last longer, SK_ERR_TIMEOUT, and the
// context is as before.
Status end_context(const void* context, int64_t limit_ns);

// Shared memory and the CPU; GPUs.
const Backend& backend();

inline World world_of(const Communicator& comm) {
  return {int32_t(comm.rank()), int32_t(comm.world_size()), comm.device()};
}

// What options say of a call's turn.
Result<Turn> turn_of(const sk_run_options& options);

// `comm` for its one user, who waits for its turn as `options` say where calls come one after
// another: as long as the communicator does where they say nothing.
inline Result<decltype(comms)::Use> use_comm(const void* comm, const sk_run_options* options) {
  if (options == nullptr) [[likely]]
    return comms.use(comm);
  SK_ASSIGN_OR_RETURN(const Turn turn, turn_of(*options));
  return comms.use(comm, turn);
}

// The same of what was made for a communicator, in `table`, with that.
template <typename Table>
auto use_for_comm(Table& table, const void* handle, const sk_run_options* options)
    -> decltype(table.use_for(comms, handle)) {
  if (options == nullptr) [[likely]]
    return table.use_for(comms, handle);
  SK_ASSIGN_OR_RETURN(const Turn turn, turn_of(*options));
  return table.use_for(comms, handle, turn);
}

// Runs body(Communicator&) as the one user of `comm`.
template <typename Body>
sk_status with_comm(const void* comm, const sk_run_options* options, const Body& body) noexcept {
  return guarded([&]() -> Status {
    SK_ASSIGN_OR_RETURN(const auto use, use_comm(comm, options));
    return body(*use->communicator);
  });
}
template <typename Body>
sk_status with_comm(const void* comm, const Body& body) noexcept {
  return with_comm(comm, nullptr, body);
}

}  // namespace sk::api

#endif  // SK_LIB_API_OBJECTS_H_
