#include "lib/comm/gpu_meeting.h"

#include <cstring>
#include <map>
#include <mutex>

#include "lib/base/lasting.h"

namespace sk {
namespace {

// What every rank says of itself. A rank on the CPU says something of another length.
struct Introduction {
  char word[8] = {'s', 'k', ' ', 'g', 'p', 'u', ' ', '1'};
  DeviceId device;
  uint64_t group = 0;  // Rank 0's: its number in this process; 0: it could not be made.
  int32_t code = SK_OK;
  char why[244] = "";
};

// Groups of this process by number, while a rank holds them.
class Groups {
 public:
  static Groups& instance() {
    static Lasting<Groups> all;
    return *all;
  }
  uint64_t add(const std::shared_ptr<GpuGroup>& group) {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
    groups_[++last_] = group;
    return last_;
  }
  std::shared_ptr<GpuGroup> find(uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(number);
    return found == groups_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::map<uint64_t, std::weak_ptr<GpuGroup>> groups_;
};

Status check_introduction(const Introduction& theirs, int rank, const Introduction& mine, int own) {
  if (std::memcmp(theirs.word, mine.word, sizeof mine.word) != 0) {
    return error(SK_ERR_DESYNC, "rank {} is on GPU {}, but rank {} is not on a GPU", own,
                 mine.device.id, rank);
  }
  if (theirs.device != mine.device) {
    return error(
        SK_ERR_UNSUPPORTED,
        "rank {} is on GPU {} and rank {} on GPU {}; the ranks of a communicator share one", own,
        mine.device.id, rank, theirs.device.id);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<GpuGroup>> meet_group(Bootstrap& bootstrap,
                                             const Communicator::Config& config,
                                             std::shared_ptr<GpuExecutor> executor) {
  Introduction mine;
  mine.device = config.device;
  std::shared_ptr<GpuGroup> made;
  if (bootstrap.rank() == 0) {
    Result<std::shared_ptr<GpuGroup>> group =
        GpuGroup::make(std::move(executor), {.world_size = uint32_t(bootstrap.world_size()),
                                             .workers = config.workers,
                                             .put_only = config.put_only});
    if (group.ok()) {
      made = std::move(group).value();
      mine.group = Groups::instance().add(made);
    } else {
      mine.code = group.status().code();
      group.status().message().copy(mine.why, sizeof mine.why - 1);
    }
  }
  SK_ASSIGN_OR_RETURN(const std::vector<std::byte> all,
                      bootstrap.allgather(std::as_bytes(std::span(&mine, 1)), config.timeout_ns));
  Introduction first;
  for (int rank = 0; rank < bootstrap.world_size(); ++rank) {
    Introduction theirs;
    std::memcpy(&theirs, all.data() + size_t(rank) * sizeof theirs, sizeof theirs);
    SK_RETURN_IF_ERROR(check_introduction(theirs, rank, mine, bootstrap.rank()));
    if (rank == 0) first = theirs;
  }
  if (first.code != SK_OK) return Status(first.code, first.why);
  if (made == nullptr) made = Groups::instance().find(first.group);
  if (made == nullptr) return error(SK_ERR_PEER_LOST, "rank 0 has freed the communicator");
  return made;
}

}  // namespace sk
