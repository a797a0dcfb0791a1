// The bootstraps that need no wire: a world of one, the caller's all-gather, and threads that meet
// in a table of this process.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>

#include "lib/base/lasting.h"
#include "lib/base/world.h"
#include "transport/bootstrap/kinds.h"

namespace sk {
namespace {

constexpr size_t kHostIdBytes = 16;

class SingleBootstrap final : public Bootstrap {
 public:
  SingleBootstrap() : Bootstrap(0, 1) {}
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, int64_t) override {
    return std::vector<std::byte>(mine.begin(), mine.end());
  }
};

class CallbackBootstrap final : public Bootstrap {
 public:
  explicit CallbackBootstrap(const BootstrapConfig& config)
      : Bootstrap(config.rank, config.world_size, config.cancel),
        fn_(config.allgather),
        user_(config.user) {}

  // How long the caller's function waits is the caller's: no bound of ours can end it.
  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine, int64_t) override {
    std::vector<std::byte> out(mine.size() * size_t(world_size()));
    int32_t code = 0;
    try {
      code = fn_(user_, mine.data(), mine.size(), out.data());
    } catch (...) {
      return error(SK_ERR_TRANSPORT, "the caller's all-gather threw an exception on rank {}",
                   rank());
    }
    if (code != 0) {
      return error(SK_ERR_TRANSPORT, "the caller's all-gather returned {} on rank {}", code,
                   rank());
    }
    return out;
  }

  Status meet() {
    SK_ASSIGN_OR_RETURN(const std::vector<std::byte> mine, host_id());
    SK_ASSIGN_OR_RETURN(const std::vector<std::byte> ids, allgather(mine, 0));
    const auto* own = &ids[size_t(rank()) * kHostIdBytes];
    if (!std::equal(mine.begin(), mine.end(), own)) {
      return error(SK_ERR_TRANSPORT,
                   "the caller's all-gather did not put the bytes of rank {} at place {}", rank(),
                   rank());
    }
    place(ids);
    return {};
  }

 private:
  sk_allgather_fn fn_;
  void* user_;
};

// What the threads of one group share. Members hold it; the table holds it only while it fills.
struct Group {
  explicit Group(int world_size)
      : joined(size_t(world_size)),
        came(size_t(world_size)),
        here(size_t(world_size)),
        parts(size_t(world_size)) {}
  bool full() const {
    return std::count(joined.begin(), joined.end(), true) == long(joined.size());
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> joined;  // Entered, and not left since.
  std::vector<bool> came;    // Entered, whether or not they have left since.
  std::string refused;       // What a thread was told that could not enter; the last one.
  bool started = false;      // All have entered once.
  std::vector<bool> here;    // Whose part of the present round is in `parts`.
  std::vector<std::vector<std::byte>> parts;
  uint64_t round = 0;
  std::shared_ptr<const std::vector<std::byte>> whole;  // Of the last round that was finished.
  Status failure;                                       // Once set, every call ends with it.
};

std::vector<bool> inverse(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

struct Table {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Group>> filling;  // By name.
};

Table& table() {
  static Lasting<Table> instance;
  return *instance;
}

std::chrono::steady_clock::time_point deadline_after(int64_t timeout_ns) {
  constexpr int64_t kMost = int64_t(3600) * 24 * 365 * 1'000'000'000;
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(std::clamp<int64_t>(timeout_ns, 0, kMost));
}

class ThreadsBootstrap final : public Bootstrap {
 public:
  ThreadsBootstrap(const BootstrapConfig& config, std::shared_ptr<Group> group)
      : Bootstrap(config.rank, config.world_size, config.cancel), group_(std::move(group)) {
    place(std::vector<std::byte>(kHostIdBytes * size_t(config.world_size)));
  }

  // Those who still wait for this rank must not wait for their whole timeout.
  ~ThreadsBootstrap() override {
    const std::lock_guard lock(group_->mutex);
    if (group_->failure.ok() && std::count(group_->here.begin(), group_->here.end(), true) > 0) {
      fail(error(SK_ERR_PEER_LOST, "rank {} left while others waited for it", rank()));
    }
    group_->joined[size_t(rank())] = false;
  }

  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    std::unique_lock lock(group_->mutex);
    Group& group = *group_;
    if (!group.failure.ok()) return group.failure.clone();
    if (!group.full()) {
      fail(error(SK_ERR_PEER_LOST, "{} left", rank_list(inverse(group.joined))));
      return group.failure.clone();
    }
    const uint64_t round = group.round;
    group.parts[size_t(rank())].assign(mine.begin(), mine.end());
    group.here[size_t(rank())] = true;
    if (std::count(group.here.begin(), group.here.end(), true) == world_size()) {
      finish_round();
    } else if (!cancel().wait_until(group.changed, lock, deadline_after(timeout_ns),
                                    [&] { return group.round != round || !group.failure.ok(); })) {
      Status cancelled = cancel().status();
      fail(!cancelled.ok() ? std::move(cancelled)
                           : error(SK_ERR_TIMEOUT, "{} did not come to the all-gather within {} ms",
                                   rank_list(inverse(group.here)), timeout_ns / 1'000'000));
    }
    // A round that was finished counts, also when a rank has left or failed since.
    if (group.round == round) return group.failure.clone();
    return *group.whole;
  }

 private:
  // Both are called with the group's mutex held.
  void finish_round() {
    Group& group = *group_;
    auto whole = std::make_shared<std::vector<std::byte>>();
    for (size_t r = 0; r < group.parts.size(); ++r) {
      if (group.parts[r].size() != group.parts[0].size()) {
        return fail(error(SK_ERR_DESYNC, "rank {} gathers {} bytes where rank 0 gathers {}", r,
                          group.parts[r].size(), group.parts[0].size()));
      }
      whole->insert(whole->end(), group.parts[r].begin(), group.parts[r].end());
    }
    group.whole = std::move(whole);
    group.here.assign(group.here.size(), false);
    ++group.round;
    group.changed.notify_all();
  }
  void fail(Status status) {
    group_->failure = std::move(status);
    group_->changed.notify_all();
  }

  std::shared_ptr<Group> group_;
};

Status check_place(const BootstrapConfig& config) {
  if (config.world_size < 1 || config.world_size > kWorldSizeMax) {
    return error(SK_ERR_INVALID_ARGUMENT, "world_size is {}: it must be from 1 to {}",
                 config.world_size, kWorldSizeMax);
  }
  if (config.rank < 0 || config.rank >= config.world_size) {
    return error(SK_ERR_INVALID_ARGUMENT, "rank is {}: it must be from 0 to {}", config.rank,
                 config.world_size - 1);
  }
  return {};
}

// The group of this name that is filling, this rank entered into it.
Result<std::shared_ptr<Group>> enter(const BootstrapConfig& config) {
  const std::lock_guard table_lock(table().mutex);
  std::shared_ptr<Group>& group = table().filling[config.name];
  if (group == nullptr) group = std::make_shared<Group>(config.world_size);
  const std::lock_guard lock(group->mutex);
  const size_t rank = size_t(config.rank);
  const auto refuse = [&](Status why) {
    group->refused = fmt::format("; meanwhile rank {} was refused: {}", config.rank, why.message());
    return why;
  };
  if (group->joined.size() != size_t(config.world_size)) {
    return refuse(error(SK_ERR_INVALID_ARGUMENT,
                        "world_size is {} where other threads of group \"{}\" said {}",
                        config.world_size, config.name, group->joined.size()));
  }
  if (group->joined[rank]) {
    return refuse(error(SK_ERR_INVALID_ARGUMENT,
                        "rank {} of group \"{}\" was given by another thread", config.rank,
                        config.name));
  }
  group->joined[rank] = group->came[rank] = true;
  std::shared_ptr<Group> mine = group;
  if (mine->full()) {
    mine->started = true;
    table().filling.erase(config.name);  // The next group of this name starts afresh.
    mine->changed.notify_all();
  }
  return mine;
}

}  // namespace

BootstrapResult make_single_bootstrap() {
  return std::unique_ptr<Bootstrap>(std::make_unique<SingleBootstrap>());
}

BootstrapResult make_callback_bootstrap(const BootstrapConfig& config) {
  SK_RETURN_IF_ERROR(check_place(config));
  if (config.allgather == nullptr) {
    return error(SK_ERR_INVALID_ARGUMENT,
                 "allgather is NULL: SK_BOOTSTRAP_CALLBACK needs the caller's all-gather");
  }
  auto made = std::make_unique<CallbackBootstrap>(config);
  SK_RETURN_IF_ERROR(made->meet());
  return std::unique_ptr<Bootstrap>(std::move(made));
}

BootstrapResult make_threads_bootstrap(const BootstrapConfig& config) {
  SK_RETURN_IF_ERROR(check_place(config));
  SK_ASSIGN_OR_RETURN(const std::shared_ptr<Group> group, enter(config));
  const auto deadline = deadline_after(config.timeout_ns);
  const Cancel& cancel = config.cancel != nullptr ? *config.cancel : Cancel::never();
  {
    std::unique_lock lock(group->mutex);
    cancel.wait_until(group->changed, lock, deadline, [&] { return group->started; });
  }
  // Once more with the table held: the last thread may have come as the time ran out.
  const std::lock_guard table_lock(table().mutex);
  const std::lock_guard lock(group->mutex);
  if (group->started) {
    return std::unique_ptr<Bootstrap>(std::make_unique<ThreadsBootstrap>(config, group));
  }
  const std::string absent = absent_list(inverse(group->joined), group->came);
  group->joined[size_t(config.rank)] = false;
  if (std::count(group->joined.begin(), group->joined.end(), true) == 0) {
    table().filling.erase(config.name);
  }
  SK_RETURN_IF_ERROR(cancel.status());
  return error(SK_ERR_TIMEOUT, "{} within {} ms; they meet in thread group \"{}\"{}", absent,
               config.timeout_ns / 1'000'000, config.name, group->refused);
}

}  // namespace sk
