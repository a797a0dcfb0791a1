#include "cuda/exec/executor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "cuda/exec/cut.h"
#include "cuda/exec/decode.h"
#include "cuda/exec/kernels.h"
#include "cuda/exec/program.h"
#include "cuda/exec/trace.h"
#include "lib/base/lasting.h"

namespace sk::cuda {
namespace {

struct OpenDevice {
  Runtime runtime;
  std::unique_ptr<Device> device;
};

// Asks `done`, less and less often, until it says so; false: not within `timeout_ns`.
template <typename Done>
Result<bool> ask_until(Done done, int64_t timeout_ns) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::chrono::microseconds nap{10};
  for (;; nap = std::min(nap * 2, std::chrono::microseconds(1000))) {
    SK_ASSIGN_OR_RETURN(const bool is_done, done());
    if (is_done || Clock::now() >= end) return is_done;
    std::this_thread::sleep_for(nap);
  }
}

// Communicators of one GPU share its context and the loaded kernels.
Result<std::shared_ptr<OpenDevice>> shared_device(int32_t ordinal) {
  struct Table {
    std::mutex mutex;
    std::map<int32_t, std::weak_ptr<OpenDevice>> open;
  };
  static Lasting<Table> table;
  const std::lock_guard lock((*table).mutex);
  std::weak_ptr<OpenDevice>& known = (*table).open[ordinal];
  if (auto open = known.lock()) return open;
  auto open = std::make_shared<OpenDevice>();
  SK_ASSIGN_OR_RETURN(open->runtime, load_runtime());
  SK_ASSIGN_OR_RETURN(open->device, Device::open(open->runtime, ordinal));
  known = open;
  return open;
}

// Packed weights may outlive every communicator of their device.
struct Weights {
  explicit Weights(std::shared_ptr<OpenDevice> of) : open(std::move(of)) {}
  ~Weights() {
    if (packed == nullptr) return;
    const Current current(open->device->driver(), open->device->context());
    open->device->driver().cuEventDestroy(packed);
  }
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  const std::shared_ptr<OpenDevice> open;
  DeviceMemory memory;
  abi::Event packed = nullptr;  // Behind the packing.
};

RankTrace* trace_of(const GpuEntry& entry) { return static_cast<RankTrace*>(entry.trace.get()); }

// The default stream has two names, null among them.
abi::Stream stream_of(void* handle) {
  const auto stream = static_cast<abi::Stream>(handle);
  return stream == abi::legacy_stream() ? nullptr : stream;
}
abi::Stream stream_of(const GpuEntry& entry) { return stream_of(entry.stream); }

class Executor final : public GpuExecutor {
 public:
  static Result<std::shared_ptr<GpuExecutor>> open(int32_t ordinal);
  ~Executor() override;

  const GpuFacts& facts() const override { return facts_; }
  void cut_moves(Target& target) const override { sk::cuda::cut_moves(target); }
  void cut_product(const Product& product, Target& target) const override {
    sk::cuda::cut_product(device(), product, pairs_, target);
  }
  Result<std::unique_ptr<GpuPlan>> prepare(std::shared_ptr<const Plan> plan) override;
  Status check_memory(const char* name, const void* memory) const override;
  Status check_stream(void* stream) const override;
  Result<std::shared_ptr<void>> allocate(uint64_t bytes) override;
  Result<std::shared_ptr<void>> pack(const PackArgs& args, int64_t timeout_ns) override;
  Result<std::shared_ptr<GpuTrace>> start_trace(uint32_t rank, uint64_t event_count_max) override;
  Status drain(int64_t timeout_ns) override;
  Status wait(void* stream, int64_t timeout_ns) override;
  Status failure() override;
  void abort() override { epoch_->abort(); }

 private:
  // One prepared plan; known to its executor while it lives.
  class Ready final : public GpuPlan {
   public:
    Ready(Executor& executor, std::unique_ptr<GpuProgram> program);
    ~Ready() override;
    Status launch(std::span<const GpuEntry> ranks, int64_t timeout_ns) override;
    bool captured() const override { return program_->captured(); }
    Status status() { return program_->status(); }
    Result<bool> idle() { return program_->idle(); }

   private:
    Result<std::vector<TimesPlace>> places_of_times(std::span<const GpuEntry> ranks) const;

    Executor& executor_;
    const std::unique_ptr<GpuProgram> program_;
  };

  explicit Executor(std::shared_ptr<OpenDevice> open) : open_(std::move(open)) {}
  const Device& device() const { return *open_->device; }
  const Driver& driver() const { return device().driver(); }
  Status start();
  Status check_captures(std::span<const GpuEntry> ranks) const;
  Status find_failure();
  Result<bool> idle();

  const std::shared_ptr<OpenDevice> open_;
  GpuFacts facts_;
  bool pairs_ = true;  // Of blocks, where they fill the GPU.
  std::unique_ptr<Epoch> epoch_;
  abi::Event before_ = nullptr, after_ = nullptr;  // Of the launch under way.
  std::mutex mutex_;                               // All below.
  std::vector<Ready*> ready_;
  Status failure_;
  std::vector<std::shared_ptr<Weights>> late_;  // Given up, but perhaps not yet packed.
};

// Of kernels of single blocks, those that multiply or those that do not.
uint32_t least_blocks(const Device& device, bool multiply) {
  uint32_t least = UINT32_MAX;
  for (uint32_t id = 0; id < kKernelCount; ++id) {
    const KernelTraits& traits = traits_of(KernelId(id));
    if (traits.way == Way::kPairs || (traits.types != 0) != multiply) continue;
    // A GPU that has no such kernel runs its plans with another one.
    if (const uint32_t blocks = device.kernel(KernelId(id)).blocks_max; blocks != 0)
      least = std::min(least, blocks);
  }
  return least == UINT32_MAX ? 0 : least;
}

Result<std::shared_ptr<GpuExecutor>> Executor::open(int32_t ordinal) {
  SK_ASSIGN_OR_RETURN(std::shared_ptr<OpenDevice> device, shared_device(ordinal));
  std::shared_ptr<Executor> executor(new Executor(std::move(device)));
  SK_RETURN_IF_ERROR(executor->start());
  return std::shared_ptr<GpuExecutor>(std::move(executor));
}

Status Executor::start() {
  SK_RETURN_IF_ERROR(device().usable());
  SK_ASSIGN_OR_RETURN(pairs_, pairs_wanted());
  facts_ = {device().ordinal(), device().name(), kLaunchRanksMax,
            least_blocks(device(), /*multiply=*/false), least_blocks(device(), /*multiply=*/true)};
  SK_ASSIGN_OR_RETURN(epoch_, Epoch::begin(device()));
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  const OutsideCaptures outside(driver());
  SK_DEVICE_TRY(device(), cuEventCreate, &before_, abi::kEventDisableTiming);
  SK_DEVICE_TRY(device(), cuEventCreate, &after_, abi::kEventDisableTiming);
  return {};
}

Executor::~Executor() {
  const Current current(driver(), device().context());
  for (const abi::Event event : {before_, after_})
    if (event != nullptr) driver().cuEventDestroy(event);
}

Result<std::unique_ptr<GpuPlan>> Executor::prepare(std::shared_ptr<const Plan> plan) {
  const ProgramOptions options{.pairs = is_cut_for_pairs(*plan)};
  SK_ASSIGN_OR_RETURN(std::unique_ptr<GpuProgram> program,
                      GpuProgram::prepare(device(), *epoch_, std::move(plan), options));
  return std::unique_ptr<GpuPlan>(std::make_unique<Ready>(*this, std::move(program)));
}

Status Executor::check_memory(const char* name, const void* memory) const {
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  return check_place(device(), name, memory);
}

Status Executor::check_stream(void* stream) const {
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  return std::move(is_captured(device(), stream_of(stream)).status());
}

Result<std::shared_ptr<void>> Executor::allocate(uint64_t bytes) {
  SK_RETURN_IF_ERROR(device().usable());
  SK_ASSIGN_OR_RETURN(DeviceMemory memory,
                      DeviceMemory::allocate(device().owner(), bytes, "sk_alloc()"));
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(device().clear(memory.address(), bytes));
  const auto held = std::make_shared<DeviceMemory>(std::move(memory));
  return std::shared_ptr<void>(held, pointer<void>(held->address()));
}

// On the default stream, behind what the caller has there: the call takes no stream.
Result<std::shared_ptr<void>> Executor::pack(const PackArgs& args, int64_t timeout_ns) {
  SK_RETURN_IF_ERROR(device().usable());
  SK_RETURN_IF_ERROR(check_gemm_type(args.dtype));
  const uint64_t bytes = uint64_t(args.n) * packed_pitch_of(args.dtype, args.k);
  const auto held = std::make_shared<Weights>(open_);
  SK_ASSIGN_OR_RETURN(
      held->memory,
      DeviceMemory::allocate(device().owner(), std::max<uint64_t>(bytes, 1), "sk_pack()"));
  std::shared_ptr<void> packed(held, pointer<void>(held->memory.address()));
  if (bytes == 0) return packed;
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(check_stream(nullptr));
  BareWeights weights{};
  weights.from = static_cast<const std::byte*>(args.b);
  weights.to = static_cast<std::byte*>(packed.get());
  weights.from_pitch = uint64_t(args.ldb) * dtype_bytes(args.dtype);
  weights.packed_bytes = bytes;
  weights.k = uint64_t(args.k);
  weights.n = uint64_t(args.n);
  weights.dtype = uint32_t(args.dtype);
  weights.transposed = args.transpose_b ? 1 : 0;
  {
    const OutsideCaptures outside(driver());
    SK_DEVICE_TRY(device(), cuEventCreate, &held->packed, abi::kEventDisableTiming);
  }
  SK_RETURN_IF_ERROR(device().pack(weights, nullptr));
  SK_DEVICE_TRY(device(), cuEventRecord, held->packed, nullptr);
  Status waited = wait(nullptr, timeout_ns);
  if (waited.code() == SK_ERR_TIMEOUT) {  // The driver would wait for it without a limit.
    const std::lock_guard lock(mutex_);
    late_.push_back(held);
  }
  SK_RETURN_IF_ERROR(std::move(waited));
  return packed;
}

Status Executor::wait(void* handle, int64_t timeout_ns) {
  const abi::Stream stream = stream_of(handle);
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  SK_ASSIGN_OR_RETURN(const bool captured, is_captured(device(), stream));
  if (captured) return error(SK_ERR_INVALID_ARGUMENT, "a stream that is captured runs nothing");
  const OutsideCaptures outside(driver());  // Of other threads, on other streams.
  const auto ended = [&]() -> Result<bool> {
    const abi::Result found = driver().cuStreamQuery(stream);
    if (found == abi::kNotReady) return false;
    SK_RETURN_IF_ERROR(device().check(found, "cuStreamQuery"));
    return true;
  };
  SK_ASSIGN_OR_RETURN(const bool done, ask_until(ended, timeout_ns));
  if (done) return {};
  return error(SK_ERR_TIMEOUT, "the stream still had work to do after {:.1f} s",
               double(timeout_ns) / 1e9);
}

Result<bool> Executor::idle() {
  std::vector<std::shared_ptr<Weights>> packed;  // Freed once nothing runs, and without the lock.
  const std::lock_guard lock(mutex_);
  for (Ready* each : ready_) {
    SK_ASSIGN_OR_RETURN(const bool done, each->idle());
    if (!done) return false;
  }
  for (const std::shared_ptr<Weights>& each : late_) {
    SK_ASSIGN_OR_RETURN(const bool done, device().has_ended(each->packed));
    if (!done) return false;
  }
  packed.swap(late_);
  return true;
}

Status Executor::drain(int64_t timeout_ns) {
  const Current current(driver(), device().context());
  SK_RETURN_IF_ERROR(current.status());
  SK_ASSIGN_OR_RETURN(const bool done, ask_until([this] { return idle(); }, timeout_ns));
  if (done) return {};
  return error(SK_ERR_TIMEOUT, "a launch on {} had not ended", device().name());
}

Result<std::shared_ptr<GpuTrace>> Executor::start_trace(uint32_t rank, uint64_t event_count_max) {
  SK_RETURN_IF_ERROR(device().usable());
  SK_ASSIGN_OR_RETURN(std::shared_ptr<RankTrace> trace,
                      RankTrace::start(device(), rank, event_count_max));
  return std::shared_ptr<GpuTrace>(std::move(trace));
}

Status Executor::failure() {
  SK_RETURN_IF_ERROR(device().usable());
  if (!epoch_->over()) [[likely]]
    return {};
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = find_failure();
  return failure_.clone();
}

// The plan whose launch has failed says why; others only know that one has.
Status Executor::find_failure() {
  Status found = error(SK_ERR_ABORTED, "an operation on {} was aborted", device().name());
  for (Ready* each : ready_) {
    Status status = each->status();
    if (!status.ok() && status.code() != SK_ERR_ABORTED) found = std::move(status);
  }
  return found;
}

// A capture has no end that others could wait for, so it must be the only stream.
Status Executor::check_captures(std::span<const GpuEntry> ranks) const {
  const auto other = std::find_if(ranks.begin(), ranks.end(), [&](const GpuEntry& each) {
    return stream_of(each) != stream_of(ranks.front());
  });
  if (other == ranks.end()) return {};
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    SK_ASSIGN_OR_RETURN(const bool captured, is_captured(device(), stream_of(ranks[rank])));
    if (!captured) continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "the stream of rank {} is captured, but the ranks pass several streams; in a "
                 "capture all pass the one that is captured",
                 rank);
  }
  return {};
}

Executor::Ready::Ready(Executor& executor, std::unique_ptr<GpuProgram> program)
    : executor_(executor), program_(std::move(program)) {
  const std::lock_guard lock(executor_.mutex_);
  executor_.ready_.push_back(this);
}

Executor::Ready::~Ready() {
  const std::lock_guard lock(executor_.mutex_);
  std::erase(executor_.ready_, this);
}

// The launch is rank 0's stream's; ranks that pass one stream cost no event.
Status Executor::Ready::launch(std::span<const GpuEntry> ranks, int64_t timeout_ns) {
  const Device& device = executor_.device();
  const Current current(device.driver(), device.context());
  SK_RETURN_IF_ERROR(current.status());
  SK_RETURN_IF_ERROR(executor_.check_captures(ranks));
  std::vector<RankOperands> operands;
  std::vector<abi::Stream> others;
  const abi::Stream lead = stream_of(ranks.front());
  for (const GpuEntry& entry : ranks) {
    operands.push_back(entry.operands);
    const abi::Stream stream = stream_of(entry);
    if (stream != lead && std::find(others.begin(), others.end(), stream) == others.end())
      others.push_back(stream);
  }
  SK_ASSIGN_OR_RETURN(const std::vector<TimesPlace> times, places_of_times(ranks));
  for (const abi::Stream stream : others) {
    SK_DEVICE_TRY(device, cuEventRecord, executor_.before_, stream);
    SK_DEVICE_TRY(device, cuStreamWaitEvent, lead, executor_.before_, 0);
  }
  SK_RETURN_IF_ERROR(program_->run(lead, operands, timeout_ns, times));
  for (uint32_t rank = 0; rank < times.size(); ++rank) {
    if (times[rank].first != nullptr) trace_of(ranks[rank])->launched(program_->shared_plan());
  }
  if (others.empty()) return {};
  SK_DEVICE_TRY(device, cuEventRecord, executor_.after_, lead);
  for (const abi::Stream stream : others)
    SK_DEVICE_TRY(device, cuStreamWaitEvent, stream, executor_.after_, 0);
  return {};
}

// By rank; none where no rank has a trace. A graph would write over them, and outlive them.
Result<std::vector<TimesPlace>> Executor::Ready::places_of_times(
    std::span<const GpuEntry> ranks) const {
  const bool traced = std::any_of(ranks.begin(), ranks.end(),
                                  [](const GpuEntry& entry) { return entry.trace != nullptr; });
  if (!traced) return std::vector<TimesPlace>();
  SK_ASSIGN_OR_RETURN(const bool captured,
                      is_captured(executor_.device(), stream_of(ranks.front())));
  if (captured) return std::vector<TimesPlace>();
  std::vector<TimesPlace> places;
  for (const GpuEntry& entry : ranks)
    places.push_back(entry.trace != nullptr ? trace_of(entry)->place(program_->plan())
                                            : TimesPlace{});
  return places;
}

}  // namespace

Result<std::shared_ptr<GpuExecutor>> open_gpu(int32_t ordinal) { return Executor::open(ordinal); }

}  // namespace sk::cuda
