#include "cuda/exec/image.h"

#include <algorithm>
#include <cstring>

namespace sk::cuda {
namespace {

constexpr uint64_t kAlign = 256;  // What the widest copies ask for, and more.

template <typename T>
T* pointer(uint64_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): a GPU's.
}

// Appends tables and knows where each will lie.
class Blob {
 public:
  explicit Blob(uint64_t at) : at_(at) {}

  template <typename T>
  const T* add(std::span<const T> table) {
    const uint64_t offset = align_up(bytes_.size(), kAlign);
    bytes_.resize(offset + table.size_bytes());
    if (!table.empty()) std::memcpy(bytes_.data() + offset, table.data(), table.size_bytes());
    return pointer<const T>(at_ + offset);
  }
  template <typename T>
  const T* add(const std::vector<T>& table) {
    return add(std::span<const T>(table));
  }
  std::vector<std::byte> finish(const Image& image) {
    std::memcpy(bytes_.data(), &image, sizeof image);
    return std::move(bytes_);
  }

 private:
  const uint64_t at_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(sizeof(Image));
};

// Where byte `offset` of `buffer` lies.
TaskPlace place(const Plan& plan, const Buffer& buffer, uint64_t offset,
                std::span<const uint64_t> ranks) {
  TaskPlace place{{offset, offset}, buffer.owner, buffer.operand};
  if (buffer.kind != BufferKind::kWorkspace) return place;
  const RankMemory memory = rank_memory(plan, buffer.owner);
  place.operand = kWorkspacePlace;
  for (uint32_t parity = 0; parity < 2; ++parity) {
    const uint64_t area = buffer.generations == 2 ? memory.staging[parity] : memory.workspace;
    place.address[parity] += ranks[buffer.owner] + area + buffer.offset;
  }
  return place;
}

// Rows of equal length, one for each task, so that a task's is found without another look: `fill`
// appends what the task has.
template <typename T, typename Fill>
std::vector<T> rows(const RankPlan& part, uint32_t length, const T& nothing, const Fill& fill) {
  std::vector<T> all;
  all.reserve(part.tasks.size() * length);
  for (size_t i = 0; i < part.tasks.size(); ++i) {
    fill(all, part.tasks[i]);
    all.resize((i + 1) * length, nothing);
  }
  return all;
}

uint32_t place_count(const RankPlan& part, const Task& task) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < task.region_count; ++i)
    count += part.regions[task.first_region + i].buffer_count;
  return count;
}

std::vector<TaskPlace> place_tasks(const Plan& plan, const RankPlan& part, uint32_t length,
                                   std::span<const uint64_t> ranks) {
  const auto fill = [&](std::vector<TaskPlace>& all, const Task& task) {
    for (uint32_t i = 0; i < task.region_count; ++i) {
      const Region& region = part.regions[task.first_region + i];
      for (uint32_t j = 0; j < region.buffer_count; ++j)
        all.push_back(place(plan, plan.buffers[region.buffer + j], region.offset, ranks));
    }
  };
  return rows<TaskPlace>(part, length, {{0, 0}, 0, kNoPlace}, fill);
}

std::vector<PlacedWait> first_waits(const RankPlan& part, uint32_t length,
                                    const std::vector<PlacedWait>& waits) {
  const auto fill = [&](std::vector<PlacedWait>& all, const Task& task) {
    const auto first = waits.begin() + task.first_wait;
    all.insert(all.end(), first, first + std::min<uint32_t>(task.wait_count, length));
  };
  return rows<PlacedWait>(part, length, {}, fill);
}

std::vector<PlacedWait> place_waits(const RankPlan& part) {
  std::vector<PlacedWait> placed;
  for (const Wait& wait : part.waits) {
    const uint32_t place = part.find_signal(wait.producer, wait.signal);
    placed.push_back({place, wait.target, part.signals[place].posts_per_run});
  }
  return placed;
}

std::vector<PlacedPost> place_posts(const Plan& plan, const RankPlan& part) {
  std::vector<PlacedPost> placed;
  for (const Post& post : part.posts) {
    const uint32_t place = plan.part(post.rank)->find_signal(part.rank, post.signal);
    placed.push_back({post.rank, place, post.add});
  }
  return placed;
}

}  // namespace

Queue launched_tasks(const RankPlan& part, Queue queue) {
  for (; queue.task_count > 0; --queue.task_count) {
    const Task& last = part.tasks[queue.first_task + queue.task_count - 1];
    if (last.op != TaskOp::kNop || last.post_count != 0) break;
  }
  return queue;
}

RankMemory rank_memory(const Plan& plan, uint32_t rank) {
  RankMemory memory;
  memory.entries = align_up(sizeof(RankState), kAlign);
  memory.workspace = align_up(memory.entries + 2 * plan.world_size() * sizeof(Entry), kAlign);
  memory.staging[0] = align_up(memory.workspace + workspace_bytes(plan, rank, 1), kAlign);
  const uint64_t staged = workspace_bytes(plan, rank, 2);
  memory.staging[1] = align_up(memory.staging[0] + staged, kAlign);
  memory.signals = align_up(memory.staging[1] + staged, kAlign);
  const RankPlan* part = plan.part(rank);
  memory.bytes = memory.signals + (part != nullptr ? part->signals.size() : 0) * sizeof(uint64_t);
  return memory;
}

std::vector<std::byte> make_image(const Plan& plan, const RankPlan& part, uint64_t at,
                                  std::span<const uint64_t> ranks,
                                  std::span<const TaskRecord> records) {
  Blob blob(at);
  std::vector<Peer> all;
  for (uint32_t rank = 0; rank < plan.world_size(); ++rank) {
    const RankMemory memory = rank_memory(plan, rank);
    all.push_back({pointer<uint64_t>(ranks[rank] + memory.signals),
                   pointer<Entry>(ranks[rank] + memory.entries)});
  }
  const uint64_t own = ranks[part.rank];
  Image image{};
  image.rank = part.rank;
  image.world_size = plan.world_size();
  image.queue_count = uint32_t(part.queues.size());
  image.peer_count = uint32_t(part.peers.size());
  image.fingerprint = plan.op.hash();
  for (const Task& task : part.tasks) {
    image.places_per_task = std::max(image.places_per_task, place_count(part, task));
    image.waits_ahead_per_task = std::max<uint32_t>(image.waits_ahead_per_task, task.wait_count);
  }
  image.waits_ahead_per_task = std::min(image.waits_ahead_per_task, kWaitsAheadMax);
  const std::vector<PlacedWait> waits = place_waits(part);
  image.tasks = blob.add(part.tasks);
  image.records = blob.add(records);
  image.places = blob.add(place_tasks(plan, part, image.places_per_task, ranks));
  image.waits_ahead = blob.add(first_waits(part, image.waits_ahead_per_task, waits));
  image.waits = blob.add(waits);
  image.posts = blob.add(place_posts(plan, part));
  image.peers = blob.add(part.peers);
  image.all = blob.add(all);
  image.state = pointer<RankState>(own + rank_memory(plan, part.rank).state);
  image.signals = all[part.rank].signals;
  image.entries = all[part.rank].entries;
  return blob.finish(image);
}

}  // namespace sk::cuda
