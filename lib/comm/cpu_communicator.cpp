#include "lib/comm/cpu_communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "lib/comm/agreement.h"
#include "transport/absence.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;

bool ends_communicator(int32_t code) {
  return code != SK_OK && code != SK_ERR_DESYNC && code != SK_ERR_NO_MEMORY;
}

RankFacts facts_of(const Communicator::Config& config, const Backend& backend) {
  RankFacts facts;
  facts.version = SK_VERSION_MAJOR << 16 | SK_VERSION_MINOR << 8 | SK_VERSION_PATCH;
  facts.workers = config.workers;
  facts.kernel_set = backend.kernel_set();
  facts.put_only = config.put_only ? 1 : 0;
  facts.memory_bytes = memory_bytes();
  facts.heap_bytes_max = config.heap_bytes_max;
  facts.cache_bytes = shared_cache_bytes();
  facts.cpus = usable_cpus();
  return facts;
}

LinkFacts links_of(Endpoint& endpoint) {
  LinkFacts links{endpoint.mapped(), UINT64_MAX};
  for (uint32_t peer = 0; peer < endpoint.world_size(); ++peer) {
    if (peer == endpoint.rank()) continue;
    links.put_bytes_max =
        std::min(links.put_bytes_max, endpoint.session(peer).caps().put_bytes_max);
  }
  return links;
}

bool is_pair(const OpDesc& op) { return op.kind == OpKind::kSendRecv; }

}  // namespace

Result<std::unique_ptr<Communicator>> CpuCommunicator::create(const Config& config,
                                                              const Backend& backend) {
  SK_RETURN_IF_ERROR(backend.check());
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, make_bootstrap(config.bootstrap));
  CommLog log(config.log, *bootstrap);
  log.meeting(config.bootstrap, *bootstrap);
  SK_ASSIGN_OR_RETURN(const Agreement agreed,
                      agree_on_target(*bootstrap, facts_of(config, backend), config.timeout_ns));
  const uint32_t world_size = uint32_t(bootstrap->world_size());
  const uint32_t per_producer = signals_per_producer(world_size);
  SegmentLayout layout;
  layout.world_size = world_size;
  layout.signal_count_max = world_size * per_producer;
  layout.workspace_bytes_max = align_up(backend.staging_bytes + agreed.memory_bytes, kPage);
  layout.heap_bytes_max = align_up(agreed.heap_bytes_max, kPage);

  std::unique_ptr<CpuCommunicator> comm(new CpuCommunicator(config.absence));
  comm->backend_ = backend;
  SK_ASSIGN_OR_RETURN(comm->endpoint_,
                      backend.connect(*bootstrap, layout, config.timeout_ns, agreed.put_only));
  comm->endpoint_->set_absence(config.absence);
  SK_RETURN_IF_ERROR(comm->endpoint_->commit(layout.workspace_offset(), backend.staging_bytes));
  comm->timeout_ns_ = config.timeout_ns;
  comm->local_rank_ = bootstrap->local_rank();
  comm->local_size_ = bootstrap->local_size();
  comm->one_process_ = config.bootstrap.kind == SK_BOOTSTRAP_THREADS || world_size == 1;
  comm->pair_seq_.resize(world_size);
  comm->ledger_ = std::make_unique<Ledger>(world_size, per_producer);
  if (!comm->ledger_->has_memory())
    return error(SK_ERR_NO_MEMORY, "no memory for the signals of {} ranks", world_size);
  comm->heap_ = std::make_unique<Heap>(*comm->endpoint_);

  SK_ASSIGN_OR_RETURN(const LinkFacts links,
                      agree_on_links(*bootstrap, links_of(*comm->endpoint_), config.timeout_ns));
  Target& target = comm->target_;
  target = agreed.target;
  target.mapped = links.mapped;
  target.put_bytes_max = links.put_bytes_max;
  comm->kernel_sets_ = agreed.kernel_sets;
  const bool shared_cores = uint32_t(bootstrap->local_size()) * target.workers > target.cores;
  comm->executor_ =
      backend.make_executor(*comm->endpoint_, *comm->ledger_, target.workers, shared_cores);
  log.info("target: {} workers a rank, {} cores of the host for its ranks{}, {} here",
           target.workers, target.cores, shared_cores ? ", shared" : "", backend.kernel_set_name);
  log.info("transport {}: {}; a wait lasts {} ms at most", backend.transport_name,
           target.mapped ? "all peers' memory is mapped" : "puts alone",
           config.timeout_ns / 1'000'000);
  comm->log_ = log;
  return std::unique_ptr<Communicator>(std::move(comm));
}

sk_comm_info CpuCommunicator::info() const {
  sk_comm_info info{};
  info.struct_size = sizeof(info);
  info.rank = int32_t(rank());
  info.world_size = int32_t(world_size());
  info.local_rank = local_rank_;
  info.local_size = local_size_;
  info.workers = int32_t(target_.workers);
  info.mapped = target_.mapped ? 1 : 0;
  info.symmetric_bytes = heap_->bytes_held();
  info.calls = seq_;
  info.plans = cache_.size();
  info.over = over().code();
  return info;
}

Status CpuCommunicator::execute(const Call& call, const CallKey& key) {
  RunArgs args;
  args.timeout_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns_;
  const auto place = [&](const CallOperand& operand, Operand& slot) {
    slot.data = const_cast<void*>(operand.data);
    if (operand.data == nullptr || operand.bytes == 0) return false;
    const std::optional<Reach> reach = heap_->find(operand.data, operand.bytes);
    if (reach) slot.segment_offset = reach->segment_offset;
    return reach.has_value();
  };
  const bool symmetric_in = place(call.in, args.operands[0]);
  const bool symmetric_out = place(call.out, args.operands[1]);
  const OpDesc op = with_symmetry(call.op, symmetric_in, symmetric_out);
  place(call.weights, args.operands[2]);
  Result<Program*> program = program_for(op);
  if (!program.ok()) {
    SK_RETURN_IF_ERROR(decline(op, args.timeout_ns));
    return std::move(program.status());
  }
  calls_.remember({key, *program, &last_->last_use, args});
  return run(**program, args);
}

Status CpuCommunicator::run(KnownCall& call) {
  *call.last_use = seq_;
  return run(*call.program, call.args);
}

Status CpuCommunicator::over() const {
  if (!broken_.ok()) [[unlikely]]
    return broken_.clone();
  // A run whose peers have all arrived never waits, so it would not see an abort by itself.
  if (endpoint_->header().abort_word.load(std::memory_order_acquire) != 0) [[unlikely]]
    return endpoint_->abort_status();
  return {};
}

CpuCommunicator::~CpuCommunicator() { log_.end(seq_); }

// Out of the way of calls that succeed.
void CpuCommunicator::note_failure(const Status& status) {
  const bool ends = ends_communicator(status.code());
  if (ends && broken_.ok()) broken_ = status.clone();
  log_.failure(status, ends);
}

Status CpuCommunicator::run(Program& program, RunArgs& args) {
  if (Status ended = over(); !ended.ok()) [[unlikely]] {
    log_.failure(ended, /*ends=*/true);
    return ended;
  }
  if (absence_ != nullptr) absence_->note_call(std::this_thread::get_id());
  const OpDesc& op = program.plan().op;
  if (is_pair(op)) {
    const int32_t me = int32_t(rank());
    args.lane = kPairLane;
    args.seq = ++pair_seq_[size_t(op.root == me ? op.peer : op.root)];
  } else {
    args.seq = ++seq_;
  }
  Status status = program.run(args);
  if (!status.ok()) [[unlikely]]
    note_failure(status);
  return status;
}

// Peers that have entered `op` learn that this rank cannot, instead of waiting for it.
Status CpuCommunicator::decline(const OpDesc& op, int64_t timeout_ns) {
  OpDesc nothing = op;
  nothing.count = nothing.m = nothing.n = nothing.k = 0;
  Result<Program*> program = program_for(nothing);
  if (!program.ok()) return std::move(program.status());
  RunArgs args;
  args.timeout_ns = timeout_ns;
  args.decline = true;
  return run(**program, args);
}

Result<Program*> CpuCommunicator::program_for(const OpDesc& op) {
  if (last_op_ != nullptr && *last_op_ == op) [[likely]] {
    last_->last_use = seq_;
    return last_->program.get();
  }
  auto found = cache_.find(op);
  if (found == cache_.end()) {
    SK_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, plan_for(op));
    SK_RETURN_IF_ERROR(ensure_workspace(*plan));
    auto part = std::make_shared<const Plan>(part_of(*plan, rank()));
    SK_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                        executor_->prepare(std::move(part), fingerprint(*plan)));
    if (cache_.size() >= kCachedPlansMax) evict_one();
    found = cache_.emplace(op, Cached{std::move(program)}).first;
    log_.plan(*plan);
  }
  last_op_ = &found->first;
  last_ = &found->second;
  last_->last_use = seq_;
  return last_->program.get();
}

void CpuCommunicator::evict_one() {
  const auto oldest = std::min_element(
      cache_.begin(), cache_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  if (last_ == &oldest->second) last_op_ = nullptr;
  calls_.forget_all();
  cache_.erase(oldest);
}

Target CpuCommunicator::target_for(const OpDesc& op) const {
  Target target = target_;
  if (op.kind == OpKind::kAllreduceGemm) {
    backend_
        .gemm_tiles(op.dtype, op.m, op.n, op.k, target.world_size * target.workers, kernel_sets_)
        .apply(target);
  }
  return target;
}

Result<std::shared_ptr<const Plan>> CpuCommunicator::plan_for(const OpDesc& op) {
  return made_.get(op, target_for(op));
}

Status CpuCommunicator::ensure_workspace(const Plan& plan) {
  const uint64_t needed = align_up(workspace_bytes(plan, rank(), 1), kPage);
  if (needed <= workspace_committed_) return {};
  const SegmentLayout& layout = endpoint_->layout();
  const uint64_t room = layout.workspace_bytes_max - backend_.staging_bytes;
  if (needed > room) {
    return error(SK_ERR_NO_MEMORY, "{} needs {} bytes of workspace, the machine has {}",
                 describe(plan.op), needed, room);
  }
  const uint64_t start = layout.workspace_offset() + backend_.staging_bytes;
  SK_RETURN_IF_ERROR(
      endpoint_->commit(start + workspace_committed_, needed - workspace_committed_));
  workspace_committed_ = needed;
  log_.debug("{} bytes of workspace, for {}", needed, describe(plan.op));
  return {};
}

Status CpuCommunicator::agree(OpKind kind, uint64_t bytes, bool able) {
  calls_.forget_all();  // Where memory lies is about to change.
  OpDesc op;
  op.kind = kind;
  op.count = int64_t(bytes);
  SK_ASSIGN_OR_RETURN(Program * program, program_for(op));
  RunArgs args;
  args.timeout_ns = timeout_ns_;
  args.decline = !able;
  return run(*program, args);
}

Result<void*> CpuCommunicator::allocate(uint64_t bytes) {
  Result<void*> memory = heap_->allocate(bytes);
  Status agreed = agree(OpKind::kAlloc, bytes, memory.ok());
  if (!memory.ok()) return std::move(memory.status());
  if (!agreed.ok()) {
    SK_RETURN_IF_ERROR(heap_->free(*memory));
    return agreed;
  }
  log_.debug("sk_alloc({}): {} bytes are held", bytes, heap_->bytes_held());
  return memory;
}

Status CpuCommunicator::free(void* memory) {
  SK_ASSIGN_OR_RETURN(const uint64_t bytes, heap_->size_of(memory));
  // Behind the exchange no peer is in a call that could still touch it.
  SK_RETURN_IF_ERROR(agree(OpKind::kFree, bytes, true));
  return heap_->free(memory);
}

Status CpuCommunicator::register_memory(void* memory, uint64_t bytes) {
  if (!one_process_) {
    return error(SK_ERR_UNSUPPORTED,
                 "memory of another process cannot be mapped afterwards; take it from sk_alloc(), "
                 "or pass it as it is and it is staged");
  }
  SK_RETURN_IF_ERROR(heap_->add_registered(memory, bytes));
  Status agreed = agree(OpKind::kRegister, bytes, true);
  if (!agreed.ok()) heap_->remove_registered(memory);
  return agreed;
}

Status CpuCommunicator::deregister_memory(void* memory) {
  SK_ASSIGN_OR_RETURN(const uint64_t bytes, heap_->registered_size(memory));
  SK_RETURN_IF_ERROR(agree(OpKind::kDeregister, bytes, true));
  heap_->remove_registered(memory);
  return {};
}

Result<std::unique_ptr<Packed>> CpuCommunicator::pack(const PackArgs& args) const {
  const auto [dtype, b, ldb, k, n, transpose_b] = args;
  // What plans say of it: as much as the ranks' largest layout takes.
  const GemmTiles tiles = backend_.gemm_tiles(dtype, 1, n, k, 1, kernel_sets_);
  const uint64_t bytes = align_up(std::max<uint64_t>(1, tiles.packed_bytes), kPage);
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes));
  if (data == nullptr) return error(SK_ERR_NO_MEMORY, "no memory to pack b of {} x {}", k, n);
  advise_huge_pages(data, bytes);
  backend_.pack(dtype, b, ldb, transpose_b, k, n, data);
  return std::make_unique<Packed>(
      Packed{device(), dtype, k, n, std::shared_ptr<void>(data, std::free)});
}

Status CpuCommunicator::start_trace(uint64_t event_count_max) {
  trace_ = TraceBuffer{.event_count_max = event_count_max, .dropped = 0, .runs = {}};
  executor_->set_trace(&trace_);
  return {};
}

void CpuCommunicator::abort(const std::string& reason) {
  log_.warn("aborts: {}", reason);
  endpoint_->abort(AbortCause::kAborted, rank(), reason);
}

}  // namespace sk
