#include "lib/comm/gpu_communicator.h"

#include "lib/comm/gpu_meeting.h"
#include "lib/op/ops/memory.h"

namespace sk {
namespace {

constexpr const char* kProcesses =
    "ranks that share a GPU are threads of one process (SK_BOOTSTRAP_THREADS); kernels of several "
    "processes would wait for each other's turn";

}  // namespace

Result<std::unique_ptr<Communicator>> GpuCommunicator::create(const Config& config,
                                                              const Backend& backend) {
  if (!backend.open_gpu) return error(SK_ERR_UNSUPPORTED, "this library knows no GPUs");
  const BootstrapConfig& meeting = config.bootstrap;
  if (meeting.kind == SK_BOOTSTRAP_CALLBACK && meeting.world_size > 1)
    return Status(SK_ERR_UNSUPPORTED, kProcesses);
  // Before the others are waited for: what lacks here lacks there.
  SK_ASSIGN_OR_RETURN(std::shared_ptr<GpuExecutor> executor, backend.open_gpu(config.device.id));
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, make_bootstrap(meeting));
  if (meeting.kind != SK_BOOTSTRAP_THREADS && bootstrap->world_size() > 1)
    return Status(SK_ERR_UNSUPPORTED, kProcesses);
  SK_ASSIGN_OR_RETURN(std::shared_ptr<GpuGroup> group,
                      meet_group(*bootstrap, config, std::move(executor)));
  const CommLog log(config.log, *bootstrap);
  log.meeting(meeting, *bootstrap);
  log.info("target: GPU {} ({}), {} blocks a rank, {} for products; a wait lasts {} ms at most",
           group->executor().facts().ordinal, group->executor().facts().name,
           group->workers(/*multiply=*/false), group->workers(/*multiply=*/true),
           config.timeout_ns / 1'000'000);
  return std::unique_ptr<Communicator>(
      new GpuCommunicator(std::move(group), config, log, uint32_t(bootstrap->rank())));
}

GpuCommunicator::~GpuCommunicator() {
  log_.end(calls_done_);
  group_->leave(rank_);
}

Status GpuCommunicator::meet(const GpuGroup::Arrival& arrival) {
  Status met = group_->meet(rank_, arrival);
  if (!met.ok()) [[unlikely]]
    log_.failure(met, /*ends=*/!group_->over(rank_).ok());
  return met;
}

sk_comm_info GpuCommunicator::info() const {
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  info.rank = int32_t(rank_);
  info.world_size = int32_t(world_size());
  info.local_rank = info.rank;
  info.local_size = info.world_size;
  info.workers = int32_t(group_->workers(/*multiply=*/true));
  info.mapped = group_->mapped() ? 1 : 0;
  info.symmetric_bytes = held_bytes_;
  info.calls = calls_done_;
  info.plans = group_->plan_count();
  info.over = group_->over(rank_).code();
  return info;
}

// Every rank's memory on the GPU is every other's.
OpDesc GpuCommunicator::with_reach(const OpDesc& op) const {
  return with_symmetry(op, ~uint32_t{0});
}

Status GpuCommunicator::check_memory(const Call& call) const {
  for (uint32_t i = 0; i < kRunOperandMax; ++i) {
    if (call.operands[i].bytes == 0) continue;
    if (i >= kGpuOperandMax) {
      return error(SK_ERR_UNSUPPORTED, "{} has more than {} operands, and runs on no GPU yet",
                   describe(call.op), kGpuOperandMax);
    }
    SK_RETURN_IF_ERROR(
        group_->executor().check_memory(operand_name(call.op, i), call.operands[i].data));
  }
  return {};
}

Status GpuCommunicator::execute(const Call& call, const CallKey&, Pinned*) {
  SK_RETURN_IF_ERROR(group_->over(rank_));
  SK_RETURN_IF_ERROR(check_memory(call));
  SK_RETURN_IF_ERROR(group_->executor().check_stream(call.stream));
  GpuGroup::Arrival arrival;
  arrival.op = with_reach(call.op);
  for (uint32_t i = 0; i < kGpuOperandMax; ++i)
    arrival.entry.operands[i] = const_cast<void*>(call.operands[i].data);
  arrival.entry.stream = call.stream;
  if (tracing_) arrival.entry.trace = trace_;
  arrival.timeout_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns_;
  SK_RETURN_IF_ERROR(meet(arrival));
  ++calls_done_;
  return {};
}

// execute() remembers no call: the pointers of each are looked at anew.
Status GpuCommunicator::run(KnownCall&) {
  return error(SK_ERR_INTERNAL, "a call was remembered on a GPU");
}

// The group makes its programs when all ranks of the GPU have come; the plan is not made again.
Status GpuCommunicator::prepare(const Call& call, Pinned& pinned) {
  SK_RETURN_IF_ERROR(group_->over(rank_));
  SK_RETURN_IF_ERROR(check_memory(call));
  SK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, plan_for(call.op));
  pinned.ready = std::const_pointer_cast<Plan>(std::move(plan));
  return {};
}

// Of a GPU that has failed there is nothing to wait for.
Status GpuCommunicator::prepare_to_end() {
  Status drained = group_->drain(timeout_ns_);
  return drained.code() == SK_ERR_TIMEOUT ? std::move(drained) : Status();
}

Status GpuCommunicator::synchronize(void* stream, int64_t timeout_ns) {
  SK_RETURN_IF_ERROR(group_->executor().wait(stream, timeout_ns != 0 ? timeout_ns : timeout_ns_));
  return group_->over(rank_);
}

Status GpuCommunicator::agree(OpKind kind, uint64_t bytes, bool able) {
  GpuGroup::Arrival arrival;
  arrival.op = memory_call(kind, bytes);
  arrival.able = able;
  arrival.timeout_ns = timeout_ns_;
  return meet(arrival);
}

Result<std::shared_ptr<void>> GpuCommunicator::take(uint64_t bytes) const {
  if (heap_bytes_max_ != 0 && bytes > heap_bytes_max_ - held_bytes_) {
    return error(SK_ERR_OUT_OF_RANGE,
                 "{} bytes asked for, {} of symmetric_bytes_max {} are held already", bytes,
                 held_bytes_, heap_bytes_max_);
  }
  return group_->executor().allocate(bytes);
}

Result<void*> GpuCommunicator::allocate(uint64_t bytes) {
  SK_RETURN_IF_ERROR(group_->over(rank_));
  Result<void*> memory = caught([&] { return take_block(bytes); });
  Status agreed = agree(OpKind::kAlloc, bytes, memory.ok());
  if (!memory.ok()) return memory;
  if (!agreed.ok()) {
    blocks_.erase(*memory);
    return agreed;
  }
  held_bytes_ += bytes;
  return memory;
}

Result<void*> GpuCommunicator::take_block(uint64_t bytes) {
  SK_ASSIGN_OR_RETURN(std::shared_ptr<void> memory, take(bytes));
  void* const at = memory.get();
  blocks_[at] = {std::move(memory), bytes};
  return at;
}

Status GpuCommunicator::free(void* memory) {
  const auto block = blocks_.find(memory);
  if (block == blocks_.end()) {
    return error(SK_ERR_INVALID_ARGUMENT, "memory {} was not returned by sk_alloc() here, or freed",
                 memory);
  }
  // The driver would wait for launches under way without a limit. Behind the meeting no peer is
  // about to make one that could touch the memory.
  SK_RETURN_IF_ERROR(group_->drain(timeout_ns_));
  SK_RETURN_IF_ERROR(agree(OpKind::kFree, block->second.bytes, true));
  held_bytes_ -= block->second.bytes;
  blocks_.erase(block);
  return {};
}

// Peers reach it as it is; only who may be asked to forget it is noted.
Status GpuCommunicator::register_memory(void* memory, uint64_t bytes) {
  if (registered_.contains(memory))
    return error(SK_ERR_INVALID_ARGUMENT, "memory {} is registered already", memory);
  SK_RETURN_IF_ERROR(group_->executor().check_memory("memory", memory));
  Status noted = caught([&]() -> Status {
    registered_[memory] = bytes;
    return {};
  });
  Status agreed = agree(OpKind::kRegister, bytes, noted.ok());
  if (!noted.ok()) return noted;
  if (!agreed.ok()) registered_.erase(memory);
  return agreed;
}

Status GpuCommunicator::deregister_memory(void* memory) {
  const auto found = registered_.find(memory);
  if (found == registered_.end())
    return error(SK_ERR_INVALID_ARGUMENT, "memory {} is not registered", memory);
  SK_RETURN_IF_ERROR(agree(OpKind::kDeregister, found->second, true));
  registered_.erase(found);
  return {};
}

Result<std::shared_ptr<const Plan>> GpuCommunicator::plan_for(const OpDesc& op) {
  const OpDesc reached = with_reach(op);
  return plans_.get(reached, group_->target_for(reached));
}

Status GpuCommunicator::check_fits(const Plan&) {
  return error(SK_ERR_UNSUPPORTED, "a plan from text runs on the CPU so far, not on a GPU");
}

Result<std::unique_ptr<Packed>> GpuCommunicator::pack(const PackArgs& args) const {
  SK_RETURN_IF_ERROR(group_->over(rank_));
  if (args.k > 0 && args.n > 0) SK_RETURN_IF_ERROR(group_->executor().check_memory("b", args.b));
  SK_ASSIGN_OR_RETURN(std::shared_ptr<void> data, group_->executor().pack(args, timeout_ns_));
  return std::make_unique<Packed>(Packed{device_, args.dtype, args.k, args.n, std::move(data)});
}

Status GpuCommunicator::start_trace(uint64_t event_count_max) {
  tracing_ = false;
  SK_RETURN_IF_ERROR(group_->drain(timeout_ns_));  // Also, the last trace's memory goes.
  SK_ASSIGN_OR_RETURN(trace_, group_->executor().start_trace(rank_, event_count_max));
  tracing_ = true;
  return {};
}

Result<const TraceBuffer*> GpuCommunicator::trace() {
  static const TraceBuffer kNothing;
  if (trace_ == nullptr) return &kNothing;
  SK_RETURN_IF_ERROR(group_->drain(timeout_ns_));
  return trace_->read();
}

}  // namespace sk
