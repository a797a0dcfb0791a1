#include "cuda/exec/image.h"

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

std::vector<BufferPlace> place_buffers(const Plan& plan, std::span<const uint64_t> ranks) {
  std::vector<BufferPlace> places;
  for (const Buffer& buffer : plan.buffers) {
    BufferPlace place{{0, 0}, buffer.owner, buffer.operand};
    if (buffer.kind == BufferKind::kWorkspace) {
      const RankMemory memory = rank_memory(plan, buffer.owner);
      place.operand = -1;
      for (uint32_t parity = 0; parity < 2; ++parity) {
        const uint64_t area = buffer.generations == 2 ? memory.staging[parity] : memory.workspace;
        place.address[parity] = ranks[buffer.owner] + area + buffer.offset;
      }
    }
    places.push_back(place);
  }
  return places;
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
  image.tasks = blob.add(part.tasks);
  image.regions = blob.add(part.regions);
  image.records = blob.add(records);
  image.waits = blob.add(place_waits(part));
  image.posts = blob.add(place_posts(plan, part));
  image.peers = blob.add(part.peers);
  image.buffers = blob.add(place_buffers(plan, ranks));
  image.all = blob.add(all);
  image.state = pointer<RankState>(own + rank_memory(plan, part.rank).state);
  image.signals = all[part.rank].signals;
  image.entries = all[part.rank].entries;
  return blob.finish(image);
}

}  // namespace sk::cuda
