#include "tests/devhost/world.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "cuda/exec/decode.h"
#include "cuda/exec/image.h"
#include "cuda/exec/kernels.h"
#include "cuda/ptx/bulk.cuh"
#include "tests/devhost/machine.h"
#include "tests/devhost/planted.h"

namespace sk::devhost {
namespace {

constexpr std::byte kPoison{0xab};
constexpr uint32_t kThreads = 384;
constexpr size_t kSharedBytes = 227 << 10;

std::string sentence(const cuda::Control& control) {
  const char* what[] = {"is running", "was aborted", "ran out of time", "met another operation",
                        "met a task it cannot do"};
  return fmt::format("rank {} queue {} task {} {}: rank {}, signal {}, wanted {}, saw {}",
                     control.rank, control.queue, control.task, what[control.verdict], control.peer,
                     int32_t(control.signal), control.wanted, control.seen);
}

}  // namespace

cuda::TensorMap map_of(const cuda::BoxView& view) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a driver gets an address too.
  const cuda::ptx::HostMap host{reinterpret_cast<const std::byte*>(view.address),
                                view.rows,
                                view.columns,
                                view.pitch,
                                view.box_rows,
                                cuda::kBoxDepth};
  cuda::TensorMap map{};
  std::memcpy(&map, &host, sizeof host);
  return map;
}

struct DeviceWorld::Rank {
  const RankPlan* part;
  std::unique_ptr<Aligned> memory;
  std::unique_ptr<Aligned> operands[3];
  bool is_input[3] = {};
  std::vector<cuda::TaskTimes> times;
};

struct DeviceWorld::Launch {
  std::vector<uint32_t> ranks;
  std::vector<std::vector<std::byte>> tables;
  std::vector<cuda::BlockRole> blocks;
  cuda::Control control{};
};

DeviceWorld::DeviceWorld(const Plan& plan, Kernel kernel, const Options& options)
    : plan_(plan), kernel_(std::move(kernel)), options_(options) {
  const cuda::TileNeeds needs = cuda::needs_of(plan);
  const auto boxes =
      cuda::find_kernel(needs, options.pairs ? cuda::Way::kPairs : cuda::way_of_boxes(needs));
  if (boxes) views_ = cuda::views_of(plan, cuda::traits_of(*boxes).shape());
  if (planted.first_view) {
    for (std::vector<cuda::ProductViews>& tasks : views_->tasks)
      for (cuda::ProductViews& views : tasks) views.a = 0;
  }
  for (const RankPlan& part : plan.ranks) {
    auto rank = std::make_unique<Rank>();
    rank->part = &part;
    const cuda::RankMemory layout = cuda::rank_memory(plan, part.rank);
    rank->memory = std::make_unique<Aligned>(layout.bytes);
    std::memset(rank->memory->data() + layout.workspace, int(kPoison),
                layout.signals - layout.workspace);
    bases_.push_back(reinterpret_cast<uint64_t>(rank->memory->data()));
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.kind == BufferKind::kWorkspace || buffer.owner != part.rank) continue;
      rank->operands[buffer.operand] = std::make_unique<Aligned>(buffer.bytes, kPoison);
      rank->is_input[buffer.operand] = buffer.kind != BufferKind::kOutput;
    }
    rank->times.resize(part.tasks.size());
    ranks_.push_back(std::move(rank));
  }
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    if (launches_.empty() || !options.one_launch) launches_.push_back(std::make_unique<Launch>());
    Launch& launch = *launches_.back();
    const RankPlan& part = *ranks_[i]->part;
    // Built twice: for the size, then for the address.
    std::vector<std::byte>& table = launch.tables.emplace_back();
    const std::vector<cuda::TaskRecord> records =
        cuda::decode(plan, part, views_ ? &views_->tasks[i] : nullptr).value();
    table.resize(cuda::make_image(plan, part, 0, bases_, records).size());
    const auto at = reinterpret_cast<uint64_t>(table.data());
    const std::vector<std::byte> made = cuda::make_image(plan, part, at, bases_, records);
    std::memcpy(table.data(), made.data(), made.size());
    for (uint32_t queue = 0; queue < part.queues.size(); ++queue) {
      launch.blocks.push_back({{}, part.queues[queue], uint32_t(launch.ranks.size()), queue});
      std::memcpy(&launch.blocks.back().image, table.data(), sizeof(cuda::Image));
    }
    launch.ranks.push_back(i);
  }
}

DeviceWorld::~DeviceWorld() = default;

void DeviceWorld::begin(Rank& rank, const OperandBytes& inputs) {
  for (uint32_t i = 0; i < 3; ++i) {
    if (rank.operands[i] == nullptr) continue;
    std::memset(rank.operands[i]->data(), int(kPoison), rank.operands[i]->size);
    if (rank.is_input[i] && !inputs[i].empty())
      std::memcpy(rank.operands[i]->data(), inputs[i].data(), inputs[i].size());
  }
}

void DeviceWorld::end(Rank& rank, OperandBytes& outputs) {
  for (uint32_t i = 0; i < 3; ++i) {
    if (rank.operands[i] == nullptr) continue;
    outputs[i].assign(rank.operands[i]->data(), rank.operands[i]->data() + rank.operands[i]->size);
    std::memset(rank.operands[i]->data(), 0x5a, rank.operands[i]->size);
  }
}

cuda::RankOperands DeviceWorld::operands_of(const Rank& rank) {
  cuda::RankOperands operands{};
  for (uint32_t i = 0; i < operands.size(); ++i)
    if (rank.operands[i] != nullptr) operands[i] = rank.operands[i]->data();
  return operands;
}

// Of all ranks, whichever are in the launch: they read each other's matrices.
bool DeviceWorld::place_views(cuda::BoxLaunchArgs& args) const {
  if (!views_) return false;
  std::vector<cuda::RankOperands> operands;
  for (const std::unique_ptr<Rank>& rank : ranks_) operands.push_back(operands_of(*rank));
  const auto placed = cuda::place_views(plan_, *views_, bases_, operands);
  if (!placed) return false;
  std::transform(placed->begin(), placed->end(), args.views, map_of);
  return true;
}

Status DeviceWorld::run_once(Launch& launch, World& world, uint32_t run) {
  cuda::BoxLaunchArgs args{};
  args.plan.blocks = launch.blocks.data();
  args.plan.control = &launch.control;
  args.plan.abort = planted.no_abort_poll ? &nobody_ : &abort_;
  args.plan.timeout_ns = options_.timeout_ns;
  for (uint32_t i = 0; i < launch.ranks.size(); ++i) {
    Rank& rank = *ranks_[launch.ranks[i]];
    begin(rank, world.inputs[run][launch.ranks[i]]);
    if (options_.trace) args.plan.times[i] = {rank.times.data(), rank.times.size()};
    const cuda::RankOperands operands = operands_of(rank);
    std::copy(operands.begin(), operands.end(), args.plan.operands[i]);
  }
  const bool boxes = place_views(args);
  const bool pairs = options_.pairs && (boxes || !cuda::needs_of(plan_).multiplies());
  const uint32_t queue_blocks = pairs ? cuda::kPairBlocks : 1;
  const bool ended = devhost::launch(
      uint32_t(launch.blocks.size()) * queue_blocks, kThreads, kSharedBytes,
      [&] { kernel_(args, boxes); }, queue_blocks);
  if (!ended) return error(SK_ERR_DEVICE, "the kernel has trapped");
  for (const uint32_t i : launch.ranks) {
    if (planted.frozen_run) reinterpret_cast<cuda::RankState*>(ranks_[i]->memory->data())->run = 0;
  }
  if (launch.control.verdict != 0) return error(SK_ERR_TIMEOUT, "{}", sentence(launch.control));
  for (const uint32_t i : launch.ranks) end(*ranks_[i], world.outputs[run][i]);
  return {};
}

Status DeviceWorld::run(World& world) {
  const auto runs = uint32_t(world.inputs.size());
  world.outputs.assign(runs, std::vector<OperandBytes>(ranks_.size()));
  std::vector<Status> statuses(launches_.size());
  std::vector<std::thread> streams;
  for (size_t i = 0; i < launches_.size(); ++i) {
    streams.emplace_back([&, i] {
      for (uint32_t run = 0; run < runs && statuses[i].ok(); ++run)
        statuses[i] = run_once(*launches_[i], world, run);
    });
  }
  for (std::thread& stream : streams) stream.join();
  for (Status& status : statuses)
    if (!status.ok()) return std::move(status);
  return {};
}

void DeviceWorld::abort() { std::atomic_ref<uint32_t>(abort_).store(1, std::memory_order_relaxed); }

void DeviceWorld::wait_for_entry() const {
  const cuda::RankMemory layout = cuda::rank_memory(plan_, 1);
  auto* const entries =
      reinterpret_cast<cuda::Entry*>(ranks_[1]->memory->data() + layout.entries);  // Of run 0.
  while (std::atomic_ref(entries[0].seq).load(std::memory_order_acquire) == 0)
    std::this_thread::yield();
}

bool DeviceWorld::untouched(uint32_t rank) const {
  for (uint32_t i = 0; i < 3; ++i) {
    const auto& operand = ranks_[rank]->operands[i];
    if (operand == nullptr || ranks_[rank]->is_input[i]) continue;
    const std::byte* const first = operand->data();
    if (std::any_of(first, first + operand->size, [](std::byte b) { return b != kPoison; }))
      return false;
  }
  return true;
}

const cuda::TaskTimes* DeviceWorld::times(uint32_t rank) const {
  return ranks_[rank]->times.data();
}

}  // namespace sk::devhost
