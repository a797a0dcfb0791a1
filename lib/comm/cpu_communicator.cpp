#include "lib/comm/cpu_communicator.h"

#include <sys/random.h>

#include <algorithm>
#include <atomic>

#include "lib/algo/planner.h"
#include "lib/algo/two_level.h"
#include "lib/base/process_name.h"
#include "lib/comm/agreement.h"
#include "lib/comm/flight.h"
#include "lib/comm/inside.h"
#include "lib/comm/plan_fits.h"
#include "lib/comm/world_memory.h"
#include "lib/op/schema.h"
#include "transport/absence.h"

namespace sk {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int64_t kToConnectNs = 10'000'000'000;

RankFacts facts_of(const Communicator::Config& config, const Backend& backend,
                   uint32_t world_size) {
  RankFacts facts;
  facts.version = SK_VERSION_MAJOR << 16 | SK_VERSION_MINOR << 8 | SK_VERSION_PATCH;
  facts.workers = config.workers;
  facts.kernel_set = backend.kernel_set();
  facts.put_only = config.put_only ? 1 : 0;
  if (getrandom(&facts.drawn, sizeof(facts.drawn), GRND_NONBLOCK) < 0) facts.drawn = 1;
  // Every process maps the segments of all ranks, whose workspace and heap may each have that much.
  facts.memory_bytes = std::min(memory_bytes(), reservable_bytes(world_size) / 2);
  facts.heap_bytes_max = config.heap_bytes_max;
  facts.cache_bytes = shared_cache_bytes();
  facts.cpus = usable_cpus();
  facts.cpu_limit = cpu_limit("");
  facts.staging_bytes = backend.staging_bytes;
  facts.parent = config.lineage.parent;
  facts.grandparent = config.lineage.grandparent;
  facts.has_sibling = config.lineage.has_sibling ? 1 : 0;
  if (is_worth_asking(world_size, backend.staging_bytes)) tell_room(backend.memory_room(), facts);
  return facts;
}

LinkFacts links_of(Endpoint& endpoint) {
  LinkFacts links;
  links.mapped = endpoint.mapped();
  links.host = endpoint.rank();
  links.process_space = own_process_space();
  for (uint32_t peer = 0; peer < endpoint.world_size(); ++peer) {
    if (peer == endpoint.rank()) continue;
    const SessionCaps& caps = endpoint.session(peer).caps();
    links.put_bytes_max = std::min(links.put_bytes_max, caps.put_bytes_max);
    if (!caps.crosses) links.host = std::min(links.host, peer);
  }
  return links;
}

}  // namespace

Result<std::unique_ptr<Communicator>> CpuCommunicator::create(const Config& config,
                                                              const Backend& backend) {
  SK_RETURN_IF_ERROR(backend.check());
  SK_ASSIGN_OR_RETURN(record::CommRecord record, begin_record(config));
  Result<std::unique_ptr<Communicator>> made = meet(config, backend, record);
  // Who never came is what is asked then. A creation that its caller ends is no failure.
  if (!made.ok() && made.status().code() != SK_ERR_ABORTED)
    record.over(made.status().code(), made.status().message());
  return made;
}

Result<std::unique_ptr<Communicator>> CpuCommunicator::meet(const Config& config,
                                                            const Backend& backend,
                                                            record::CommRecord& record) {
  const int64_t timeout_ns = config.bootstrap.timeout_ns;
  int64_t deadline_ns = bootstrap_clock_ns() + timeout_ns;
  SK_ASSIGN_OR_RETURN(std::unique_ptr<Bootstrap> bootstrap, make_bootstrap(config.bootstrap));
  // The last may have come at the end of the time, and hosts have still to connect.
  deadline_ns = std::max(deadline_ns, bootstrap_clock_ns() + std::min(timeout_ns, kToConnectNs));
  CommLog log(config.log, *bootstrap);
  log.meeting(config.bootstrap, *bootstrap);
  const uint32_t world_size = uint32_t(bootstrap->world_size());
  // Who is absent is told by the launcher's numbers.
  Absence* const absence =
      bootstrap->launched_count() == bootstrap->world_size() ? config.absence : nullptr;
  SK_ASSIGN_OR_RETURN(const Agreement agreed,
                      agree_on_target(*bootstrap, facts_of(config, backend, world_size),
                                      time_left_ns(deadline_ns)));
  SegmentLayout layout = control_layout(world_size);
  const uint64_t staging_bytes = staging_in(world_size, backend.staging_bytes);
  layout.workspace_bytes_max = align_up(staging_bytes + agreed.memory_bytes, kPage);
  layout.heap_bytes_max = align_up(agreed.heap_bytes_max, kPage);

  std::unique_ptr<CpuCommunicator> comm(new CpuCommunicator(absence));
  comm->backend_ = backend;
  comm->staging_bytes_ = staging_bytes;
  SK_ASSIGN_OR_RETURN(comm->endpoint_, backend.connect(*bootstrap, layout,
                                                       time_left_ns(deadline_ns), agreed.put_only));
  comm->endpoint_->set_absence(absence);
  Status taken = comm->endpoint_->commit(layout.workspace_offset(), staging_bytes);
  comm->timeout_ns_ = config.timeout_ns;
  comm->local_rank_ = bootstrap->local_rank();
  comm->local_size_ = bootstrap->local_size();
  comm->one_process_ = config.bootstrap.kind == SK_BOOTSTRAP_THREADS || world_size == 1;
  comm->pair_seq_.resize(world_size);
  comm->ledger_ = std::make_unique<Ledger>(world_size, signals_per_edge(world_size));
  if (taken.ok() && !comm->ledger_->has_memory())
    taken = error(SK_ERR_NO_MEMORY, "no memory for the signals of {} ranks", world_size);
  comm->heap_ = std::make_unique<Heap>(*comm->endpoint_);

  Target& target = comm->target_;
  target = agreed.target;
  target.edge_signals_max = comm->ledger_->signals_per_edge();
  comm->kernel_sets_ = agreed.kernel_sets;
  const bool shared_cores = uint32_t(bootstrap->local_size()) * target.workers > target.cores;
  comm->executor_ =
      backend.make_executor(*comm->endpoint_, *comm->ledger_, target.workers, shared_cores);
  comm->executor_->set_waiting(config.waiting);
  if (taken.ok()) taken = caught([&] { return comm->prepare_meeting(); });

  LinkFacts mine = links_of(*comm->endpoint_);
  if (!taken.ok()) mine.fail(taken);
  SK_ASSIGN_OR_RETURN(Links links, agree_on_links(*bootstrap, mine, time_left_ns(deadline_ns)));
  target.mapped = links.mapped;
  target.put_bytes_max = links.put_bytes_max;
  target.host_of = std::move(links.host_of);
  comm->executor_->set_hosts(target.host_of);
  log.info("target: {} workers a rank, {} cores of the host for its ranks{}, {} here",
           target.workers, target.cores, shared_cores ? ", shared" : "", backend.kernel_set_name);
  log.info("transport {}: {}; a wait lasts {} ms at most",
           backend.transport_name == nullptr ? "?" : backend.transport_name(bootstrap->one_host()),
           target.mapped ? "all peers' memory is mapped" : "puts alone",
           config.timeout_ns / 1'000'000);
  comm->log_ = log;
  comm->name_ = agreed.name;
  comm->remember_given(config, *bootstrap, agreed.name, links.one_process_space);
  record.stands(agreed.name, bootstrap->rank(), bootstrap->host_of(),
                backend.far_link == nullptr ? "?" : backend.far_link());
  comm->record_ = std::move(record);
  comm->executor_->set_awaited(comm->record_.awaited());
  comm->executor_->set_still_waiting(
      {.tell = [log](const std::string& what) { log.warn("{}", what); }});
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
  info.calls = calls();
  info.plans = cache_.size();
  info.over = over().code();
  return info;
}

namespace {

// Memory that is symmetric will do where the plan asks for none.
Status check_planned(const Call& call, uint32_t symmetric) {
  const std::span<const OperandSchema> operands = call.op.schema().operands;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    const bool is = (symmetric >> i & 1) != 0 || call.operands[i].bytes == 0;
    if (!operands[i].reached || !call.op.symmetric(i) || is) continue;
    return error(SK_ERR_INVALID_ARGUMENT,
                 "{} is no memory of sk_alloc() or sk_register(), and the plan was made with "
                 "SK_PLAN_SYMMETRIC_{}",
                 operands[i].name, operands[i].role == Role::kIn ? "IN" : "OUT");
  }
  return {};
}

}  // namespace

Result<CpuCommunicator::Placed> CpuCommunicator::place(const Call& call) const {
  Placed placed;
  placed.args.timeout_ns = call.timeout_ns != 0 ? call.timeout_ns : timeout_ns_;
  placed.args.pieces = call.pieces;
  placed.args.values = call.values;
  uint32_t symmetric = 0;
  for (uint32_t i = 0; i < kRunOperandMax; ++i) {
    const CallOperand& operand = call.operands[i];
    Operand& slot = placed.args.operands[i];
    slot.data = const_cast<void*>(operand.data);
    if (operand.data == nullptr || operand.bytes == 0) continue;
    const std::optional<Reach> reach = heap_->find(operand.data, operand.bytes);
    if (!reach) continue;
    slot.segment_offset = reach->segment_offset;
    symmetric |= uint32_t{1} << i;
  }
  if (call.planned) SK_RETURN_IF_ERROR(check_planned(call, symmetric));
  placed.op =
      call.planned ? call.op : with_room(with_symmetry(call.op, symmetric), &placed.args.extent);
  return placed;
}

Status CpuCommunicator::execute(const Call& call, const CallKey& key, Pinned* pinned) {
  SK_ASSIGN_OR_RETURN(Placed placed, place(call));
  Result<Ready*> ready = caught([&] { return ready_for(placed.op, pinned); });
  if (!ready.ok()) {
    SK_RETURN_IF_ERROR(decline(placed.op, placed.args.timeout_ns, ready.status().code()));
    return std::move(ready.status());
  }
  Ready& its = **ready;
  its.last_use = seq_;
  const KnownCall known{key, its.program.get(), &its.last_use, placed.args};
  if (pinned == nullptr) {
    remember(call, known);
  } else {
    pinned->call = known;
    pinned->places = places();
  }
  return run(*its.program, placed.args);
}

Status CpuCommunicator::prepare(const Call& call, Pinned& pinned) {
  SK_ASSIGN_OR_RETURN(const Placed placed, place(call));
  return std::move(caught([&] { return ready_for(placed.op, &pinned); }).status());
}

// Without memory for it the next such call is looked at anew.
void CpuCommunicator::remember(const Call& call, const KnownCall& known) {
  if (call.words == nullptr) return calls_.remember(known);
  (void)caught([&]() -> Status {
    worded_calls_.remember(*call.words, known);
    return {};
  });
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

CpuCommunicator::~CpuCommunicator() { log_.end(calls()); }

template <typename Body>
Status CpuCommunicator::enter(const OpDesc& op, RunArgs& args, Program& program, const Body& body) {
  Inside inside(heap_->has_registered() ? &endpoint_->header().inside : nullptr);
  if (Status ended = over(); !ended.ok()) [[unlikely]] {
    log_.failure(ended, /*ends=*/true);
    record_.over(ended.code(), ended.message());
    return ended;
  }
  if (absence_ != nullptr) absence_->note_call(std::this_thread::get_id());
  args.lane = is_pair(op) ? kPairLane : kCollectiveLane;
  args.seq = ++last_entry(op);
  if (record_.on()) {
    if (program.recorded.line == Program::Recorded::kNone) [[unlikely]]
      program.recorded = find_line(record_, op, program.plan(), rank());
    record_.enter(program.recorded.line, program.recorded.bytes,
                  args.seq | (args.lane == kPairLane ? record::kPairBit : 0));
  }
  Status status = caught(body);
  if (status.code() == SK_ERR_FORKED) [[unlikely]] {
    inside.forget();
    record_.forget();
  }
  if (record_.on()) record_.leave(status.code());
  if (status.ok()) [[likely]]
    return status;
  return failed(op, program, std::move(status));
}

// Past its entry a call has peers that wait for what it owes them, and signals that are no longer
// where the ledger has them: whatever ends it ends the communicator, for all ranks and with its
// sentence. What has ended it for all already keeps its own.
Status CpuCommunicator::failed(const OpDesc& op, Program& program, Status status) {
  const Program::Refusal refusal = program.take_refusal();
  const bool ends = !refusal.refused;
  last_entry(op) += refusal.seqs_taken;
  if (!is_pair(op)) seqs_told_ += refusal.seqs_taken;
  if (ends) {
    const int32_t code = status.code();
    if (code == SK_ERR_NO_MEMORY) {
      (void)caught([&]() -> Status {
        status = error(code, "{} inside {}, which other ranks may have been part of already",
                       status.message(), describe(op));
        return {};
      });
    }
    // A forked child tells nobody: all that the others know is its parent's.
    if (code != SK_ERR_FORKED &&
        endpoint_->header().abort_word.load(std::memory_order_acquire) == 0) {
      endpoint_->abort(code == SK_ERR_TIMEOUT ? AbortCause::kTimeout : AbortCause::kAborted, rank(),
                       status.message());
    }
    (void)caught([&]() -> Status {  // Without memory the abort's sentence is what later calls get.
      if (broken_.ok()) broken_ = status.clone();
      return {};
    });
  }
  log_.failure(status, ends);
  if (ends) record_.over(status.code(), status.message());
  return status;
}

Status CpuCommunicator::run(Program& program, RunArgs& args) {
  return enter(program.plan().op, args, program, [&] { return program.run(args); });
}

Status CpuCommunicator::decline(const OpDesc& op, int64_t timeout_ns, int32_t code) {
  RunArgs args;
  args.timeout_ns = timeout_ns;
  meeting_->recorded = {};  // Of another call each time.
  return enter(op, args, *meeting_, [&] { return meeting_->decline(args, op, code); });
}

Status CpuCommunicator::prepare_meeting() {
  const OpDesc op;
  SK_ASSIGN_OR_RETURN(Plan part, make_plan_part(op, target_, rank()));
  SK_ASSIGN_OR_RETURN(meeting_, executor_->prepare(std::make_shared<const Plan>(std::move(part)),
                                                   /*fingerprint=*/0));
  return {};
}

Result<std::shared_ptr<CpuCommunicator::Ready>> CpuCommunicator::make_ready(
    const std::shared_ptr<const Plan>& plan) {
  SK_RETURN_IF_ERROR(ensure_workspace(*plan));
  auto part = std::make_shared<const Plan>(part_of(*plan, rank()));
  auto ready = std::make_shared<Ready>();
  SK_ASSIGN_OR_RETURN(ready->program, executor_->prepare(std::move(part), fingerprint(*plan)));
  log_.plan(*plan);
  return ready;
}

Result<std::shared_ptr<CpuCommunicator::Ready>> CpuCommunicator::ready_for(const OpDesc& op) {
  if (last_op_ != nullptr && *last_op_ == op) [[likely]]
    return last_;
  auto found = cache_.find(op);
  if (found == cache_.end()) {
    SK_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, plan_for(op));
    SK_ASSIGN_OR_RETURN(std::shared_ptr<Ready> ready, make_ready(plan));
    if (cache_.size() >= kCachedPlansMax) evict_one();
    found = cache_.emplace(op, std::move(ready)).first;
  }
  last_op_ = &found->first;
  last_ = found->second;
  last_->last_use = seq_;
  return last_;
}

Result<CpuCommunicator::Ready*> CpuCommunicator::ready_for(const OpDesc& op, Pinned* pinned) {
  if (pinned == nullptr) {
    SK_ASSIGN_OR_RETURN(const std::shared_ptr<Ready> ready, ready_for(op));
    return ready.get();
  }
  auto* known = static_cast<const Ready*>(pinned->ready.get());
  if (known == nullptr || known->program->plan().op != op) {
    SK_ASSIGN_OR_RETURN(std::shared_ptr<Ready> ready,
                        pinned->plan != nullptr ? make_ready(pinned->plan) : ready_for(op));
    pinned->ready = std::move(ready);
  }
  return static_cast<Ready*>(pinned->ready.get());
}

void CpuCommunicator::evict_one() {
  const auto oldest = std::min_element(
      cache_.begin(), cache_.end(),
      [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; });
  if (last_ == oldest->second) last_op_ = nullptr;
  forget_calls();
  cache_.erase(oldest);
}

Target CpuCommunicator::target_for(const OpDesc& op, bool one_level) const {
  Target target = target_;
  target.one_level = one_level;
  if (const std::optional<Product> cut = product_of(op, target)) {
    backend_.gemm_tiles(cut->dtype, cut->m, cut->n, cut->k, cut->parts, kernel_sets_).apply(target);
  }
  return target;
}

Result<std::shared_ptr<const Plan>> CpuCommunicator::plan_for(const OpDesc& op) {
  Result<std::shared_ptr<const Plan>> plan = made_.get(op, target_for(op), rank());
  if (plan.ok() || plan.status().code() != SK_ERR_UNSUPPORTED ||
      algo::choose_levels(op, target_).levels == algo::Levels::kFlat) {
    return plan;
  }
  // All ranks do so: what is refused does not depend on which one asks.
  Result<std::shared_ptr<const Plan>> flat =
      made_.get(op, target_for(op, /*one_level=*/true), rank());
  if (!flat.ok()) return plan;
  log_.warn("{}; ranks are planned for as if none shared a host", plan.status().message());
  return flat;
}

Status CpuCommunicator::check_fits(const Plan& plan) {
  return sk::check_fits(plan, target_for(plan.op));
}

Status CpuCommunicator::ensure_workspace(const Plan& plan) {
  const uint64_t needed = align_up(workspace_bytes(plan, rank(), 1), kPage);
  if (needed <= workspace_committed_) return {};
  const SegmentLayout& layout = endpoint_->layout();
  const uint64_t room = layout.workspace_bytes_max - staging_bytes_;
  if (needed > room) {
    return error(SK_ERR_NO_MEMORY, "{} needs {} bytes of workspace, the machine has {}",
                 describe(plan.op), needed, room);
  }
  const uint64_t start = layout.workspace_offset() + staging_bytes_;
  SK_RETURN_IF_ERROR(
      endpoint_->commit(start + workspace_committed_, needed - workspace_committed_));
  workspace_committed_ = needed;
  log_.debug("{} bytes of workspace, for {}", needed, describe(plan.op));
  return {};
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
