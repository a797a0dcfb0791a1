#include "cuda/exec/program.h"

#include <algorithm>
#include <cstring>

#include "cuda/exec/decode.h"
#include "cuda/exec/image.h"
#include "cuda/exec/kernels.h"
#include "cuda/exec/trace.h"
#include "cuda/exec/verdict.h"

namespace sk::cuda {
namespace {

constexpr uint64_t kAlign = 256;

// That multiplies boxes; none: there is nothing to multiply, or this GPU has none for it.
std::optional<KernelId> box_kernel(const Device& device, const TileNeeds& needs, bool pairs) {
  if (!needs.multiplies() || (pairs && !needs.wide_tiles)) return std::nullopt;
  const std::optional<KernelId> id = find_kernel(needs, pairs ? Way::kPairs : way_of_boxes(needs));
  return id && device.kernel(*id).blocks_max != 0 ? id : std::nullopt;
}

// Of a plan that no kernel runs.
Status why_not(const Plan& plan) {
  for (const RankPlan& part : plan.ranks) SK_RETURN_IF_ERROR(check_part(plan, part));
  return error(SK_ERR_UNSUPPORTED, "no kernel does all tasks of the plan on a GPU");
}

uint32_t queue_count(const Plan& plan) {
  uint64_t count = 0;
  for (const RankPlan& part : plan.ranks) count += part.queues.size();
  return uint32_t(count);
}

}  // namespace

// One allocation: [ranks' memory] [control] [tables] [roles] [times] [clock]. The tables and roles
// are uploaded, the rest begins as zeros.
struct GpuProgram::Layout {
  uint64_t bytes = 0;
  std::vector<uint64_t> ranks, tables, times;  // Offsets, by rank.
  uint64_t control = 0, roles = 0, clock = 0;

  uint64_t take(uint64_t size) { return std::exchange(bytes, align_up(bytes + size, kAlign)); }

  Layout(const Plan& plan, std::span<const std::vector<TaskRecord>> records, bool trace) {
    for (const RankPlan& part : plan.ranks)
      ranks.push_back(take(rank_memory(plan, part.rank).bytes));
    control = take(sizeof(Control));
    const std::vector<uint64_t> nowhere(plan.world_size(), 0);
    for (const RankPlan& part : plan.ranks)
      tables.push_back(take(make_image(plan, part, 0, nowhere, records[part.rank]).size()));
    roles = take(queue_count(plan) * sizeof(BlockRole));
    for (const RankPlan& part : plan.ranks)
      times.push_back(trace ? take(part.tasks.size() * sizeof(TaskTimes)) : 0);
    if (trace) clock = take(sizeof(ClockReading));
  }
};

Result<std::unique_ptr<GpuProgram>> GpuProgram::prepare(const Device& device, Epoch& epoch,
                                                        std::shared_ptr<const Plan> plan,
                                                        const ProgramOptions& options) {
  SK_RETURN_IF_ERROR(device.usable());
  std::unique_ptr<GpuProgram> program(new GpuProgram(device, epoch, std::move(plan)));
  const TileNeeds needs = needs_of(program->plan());
  const std::optional<KernelId> alone = find_kernel(needs, Way::kAlone);
  if (!alone) return why_not(program->plan());
  program->kernel_ = &device.kernel(*alone);
  const std::optional<KernelId> boxes = box_kernel(device, needs, options.pairs);
  if (options.pairs) {
    if (!boxes) {
      return error(SK_ERR_UNSUPPORTED,
                   "blocks in pairs on {}: they multiply bf16 and f16 in tiles of more than {} "
                   "columns, on compute capability 9.0",
                   device.name(), kNarrowBoxRowsB);
    }
    program->queue_blocks_ = kPairBlocks;
  }
  if (boxes) program->see_boxes(device.kernel(*boxes), traits_of(*boxes).shape());
  program->blocks_ = queue_count(program->plan());
  SK_RETURN_IF_ERROR(program->check_plan());
  const Current current(device.driver(), device.context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(program->build(options));
  return program;
}

GpuProgram::~GpuProgram() {
  if (last_run_ == nullptr) return;
  const Current current(device_.driver(), device_.context());
  device_.driver().cuEventDestroy(last_run_);
}

void GpuProgram::see_boxes(const Kernel& kernel, const BoxShape& shape) {
  std::optional<ViewTable> views = views_of(*plan_, shape);
  if (!views) return;
  views_ = std::move(*views);
  box_kernel_ = &kernel;
}

Status GpuProgram::check_plan() const {
  const Plan& plan = *plan_;
  if (plan.ranks.size() != plan.world_size())
    return error(SK_ERR_INTERNAL, "a plan of {} ranks, with {} parts", plan.world_size(),
                 plan.ranks.size());
  if (plan.world_size() > kLaunchRanksMax) {
    return error(SK_ERR_UNSUPPORTED, "{} ranks on one GPU; at most {} can share it",
                 plan.world_size(), kLaunchRanksMax);
  }
  uint32_t blocks_max = kernel_->blocks_max;
  if (box_kernel_ != nullptr)
    blocks_max = std::min(blocks_max, box_kernel_->blocks_max / queue_blocks_);
  if (blocks_ > blocks_max) {
    return error(SK_ERR_UNSUPPORTED,
                 "the plan's {} ranks have {} queues, but only {} {} can be resident at once on {} "
                 "({} multiprocessors): at most {} workers for each rank",
                 plan.world_size(), blocks_, blocks_max,
                 queue_blocks_ == 1 ? "blocks" : "pairs of blocks", device_.name(),
                 device_.multiprocessors(), blocks_max / plan.world_size());
  }
  return {};
}

Status GpuProgram::build(const ProgramOptions& options) {
  const Plan& plan = *plan_;
  std::vector<std::vector<TaskRecord>> records;
  for (const RankPlan& part : plan.ranks) {
    const auto* const views = box_kernel_ != nullptr ? &views_.tasks[part.rank] : nullptr;
    SK_ASSIGN_OR_RETURN(records.emplace_back(), decode(plan, part, views));
  }
  const Layout layout(plan, records, options.trace);
  SK_ASSIGN_OR_RETURN(memory_, DeviceMemory::allocate(device_.owner(), layout.bytes, "the plan"));
  const abi::DevicePtr base = memory_.address();
  for (const uint64_t offset : layout.ranks) ranks_.push_back(base + offset);

  std::vector<std::byte> upload(layout.bytes - layout.tables.front());
  const auto put = [&](uint64_t offset, const void* from, size_t bytes) {
    std::memcpy(upload.data() + (offset - layout.tables.front()), from, bytes);
  };
  uint64_t role = layout.roles;
  for (uint32_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& part = plan.ranks[i];
    if (options.trace)
      times_.push_back({pointer<TaskTimes>(base + layout.times[i]), part.tasks.size()});
    const std::vector<std::byte> image =
        make_image(plan, part, base + layout.tables[i], ranks_, records[i]);
    put(layout.tables[i], image.data(), image.size());
    for (uint32_t queue = 0; queue < part.queues.size(); ++queue, role += sizeof(BlockRole)) {
      BlockRole block{{}, launched_tasks(part, part.queues[queue]), i, queue};
      std::memcpy(&block.image, image.data(), sizeof block.image);
      put(role, &block, sizeof block);
    }
  }
  SK_RETURN_IF_ERROR(device_.clear(base, layout.tables.front()));
  SK_RETURN_IF_ERROR(device_.upload(base + layout.tables.front(), upload.data(), upload.size()));

  if (options.trace) clock_ = base + layout.clock;
  args_.plan.blocks = pointer<const BlockRole>(base + layout.roles);
  args_.plan.control = control_ = pointer<Control>(base + layout.control);
  args_.plan.abort = epoch_.word();
  const OutsideCaptures outside(device_.driver());
  SK_DEVICE_TRY(device_, cuEventCreate, &last_run_, abi::kEventDisableTiming);
  return {};
}

Status GpuProgram::run(abi::Stream stream, std::span<const RankOperands> operands,
                       int64_t timeout_ns, std::span<const TimesPlace> times) {
  SK_RETURN_IF_ERROR(status());
  SK_RETURN_IF_ERROR(device_.usable());
  const Current current(device_.driver(), device_.context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(check_operands(device_, *plan_, operands));
  SK_ASSIGN_OR_RETURN(const bool captured, is_captured(device_, stream));
  if (blocks_ == 0) return {};

  const std::lock_guard running(run_mutex_);
  SK_RETURN_IF_ERROR(bind(operands));
  args_.plan.timeout_ns = uint64_t(timeout_ns);
  const std::span<const TimesPlace> places = times.empty() ? times_ : times;
  for (uint32_t rank = 0; rank < operands.size(); ++rank)
    args_.plan.times[rank] = rank < places.size() ? places[rank] : TimesPlace{};
  {
    const std::lock_guard lock(mutex_);
    timeout_ns_ = timeout_ns;
    enqueues_ = !captured;
  }
  if (captured) {
    captured_.store(true, std::memory_order_relaxed);
    return launch(stream);
  }
  Status enqueued = enqueue(stream);
  const std::lock_guard lock(mutex_);
  enqueues_ = false;
  ran_ = ran_ || enqueued.ok();
  return enqueued;
}

Status GpuProgram::enqueue(abi::Stream stream) {
  SK_RETURN_IF_ERROR(follow_last(stream));
  SK_RETURN_IF_ERROR(launch(stream));
  SK_DEVICE_TRY(device_, cuEventRecord, last_run_, stream);
  last_stream_ = stream;
  return {};
}

// Two runs at once would have one index.
Status GpuProgram::follow_last(abi::Stream stream) {
  {
    const std::lock_guard lock(mutex_);
    if (!ran_ || last_stream_ == stream) return {};
  }
  return device_.check(device_.driver().cuStreamWaitEvent(stream, last_run_, 0),
                       "cuStreamWaitEvent");
}

// Calls mostly repeat their operands.
Status GpuProgram::bind(std::span<const RankOperands> operands) {
  if (std::equal(operands.begin(), operands.end(), bound_.begin(), bound_.end())) return {};
  bound_.clear();
  for (uint32_t rank = 0; rank < operands.size(); ++rank)
    std::copy(operands[rank].begin(), operands[rank].end(), args_.plan.operands[rank]);
  boxes_ = false;
  if (box_kernel_ != nullptr) {
    const std::optional<std::vector<BoxView>> views = place_views(*plan_, views_, ranks_, operands);
    boxes_ = views.has_value();
    for (uint32_t i = 0; boxes_ && i < views->size(); ++i)
      SK_RETURN_IF_ERROR(encode_view(device_, (*views)[i], args_.views[i]));
  }
  bound_.assign(operands.begin(), operands.end());
  return {};
}

Status GpuProgram::launch(abi::Stream stream) {
  const Kernel& kernel = boxes_ ? *box_kernel_ : *kernel_;
  // Cooperative: all blocks become resident, or none, also where other launches hold some of the
  // multiprocessors. Two plans in flight that each got half of their blocks would wait for ever.
  const uint32_t queue_blocks = boxes_ ? queue_blocks_ : 1;
  const Launch all(kernel, blocks_ * queue_blocks, queue_blocks, /*cooperative=*/true, stream);
  void* parameters[] = {&args_};
  SK_DEVICE_TRY(device_, cuLaunchKernelEx, all.config(), kernel.function, parameters, nullptr);
  return {};
}

Status GpuProgram::wait(abi::Stream stream) {
  {
    const Current current(device_.driver(), device_.context());
    SK_RETURN_IF_ERROR(current.status());
    SK_ASSIGN_OR_RETURN(const bool captured, is_captured(device_, stream));
    if (captured) return error(SK_ERR_INVALID_ARGUMENT, "a stream that is captured runs nothing");
    const OutsideCaptures outside(device_.driver());  // Of other threads, on other streams.
    SK_DEVICE_TRY(device_, cuStreamSynchronize, stream);
    if (clock_ != 0) {
      SK_ASSIGN_OR_RETURN(const Moment now, read_moment(device_, clock_));
      const std::lock_guard lock(mutex_);
      waited_ = now;
    }
  }
  return status();
}

Result<bool> GpuProgram::idle() {
  {
    const std::lock_guard lock(mutex_);
    if (enqueues_) return false;
    if (!ran_) return true;
  }
  return device_.has_ended(last_run_);
}

Status GpuProgram::status() {
  if (!epoch_.over()) [[likely]]
    return {};
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_.clone();
  }
  SK_ASSIGN_OR_RETURN(const Control control, read_control());
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = failure_of(control);  // Else somebody has read it meanwhile.
  return failure_.clone();
}

Result<Control> GpuProgram::read_control() {
  const Current current(device_.driver(), device_.context());
  SK_RETURN_IF_ERROR(current.status());
  Control control{};
  SK_RETURN_IF_ERROR(
      device_.download(&control, reinterpret_cast<abi::DevicePtr>(control_), sizeof control));
  return control;
}

Status GpuProgram::failure_of(const Control& control) const {
  Status failure = verdict_status(*plan_, control, timeout_ns_);
  if (!failure.ok()) return failure;
  // The launch that ended the epoch was not of this plan, or none ran.
  if (epoch_.aborted()) return error(SK_ERR_ABORTED, "the communicator was aborted");
  return error(SK_ERR_ABORTED, "another operation of the communicator has failed on {}",
               device_.name());
}

Result<std::vector<TaskEvent>> GpuProgram::events(uint32_t rank) {
  if (times_.empty()) return error(SK_ERR_UNSUPPORTED, "the program was prepared without a trace");
  const RankPlan& part = plan_->ranks[rank];
  const Current current(device_.driver(), device_.context());
  SK_RETURN_IF_ERROR(current.status());
  std::vector<TaskTimes> times(part.tasks.size());
  SK_RETURN_IF_ERROR(device_.download(times.data(),
                                      reinterpret_cast<abi::DevicePtr>(times_[rank].first),
                                      times.size() * sizeof(TaskTimes)));
  const std::lock_guard lock(mutex_);
  return events_of(part, times, ClockMap(waited_, waited_));
}

}  // namespace sk::cuda
