// What a run takes beyond its plan's memory: threads, and scratch for matrix products. A rank that
// cannot have them says so before it has moved a byte.
#include "lib/exec/cpu/program.h"
#include "lib/exec/cpu/tile/gemm.h"

namespace sk::cpu {

Status CpuProgram::reserve() {
  const uint32_t count = uint32_t(workers_.size());
  SK_RETURN_IF_ERROR(shared_.workers.start(count));
  if (!multiplies_) return {};
  SK_RETURN_IF_ERROR(gemm_reserve_scratch());  // The caller's thread may be another each time.
  return shared_.workers.reserve_scratch(count);
}

// Enters all the same, so that the peers hear of it instead of waiting. Their entries are awaited:
// the next run but one uses the same slots.
Status CpuProgram::stay_out(const RunArgs& args, const OpDesc& op,
                            std::span<const uint32_t> peers) {
  args_ = &args;
  EntrySlot entry{};  // Its fingerprint, 0, says it.
  pack_call(op, entry);
  SK_RETURN_IF_ERROR(send(entry, peers));
  uint32_t arrived = 0;
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  Status status = waiter.wait([&] { return entries_arrived(peers, arrived); }, args.timeout_ns);
  return ran_out(status) ? give_up(peers[arrived], op) : std::move(status);
}

Status CpuProgram::decline(const RunArgs& args, const OpDesc& op) {
  if (op.kind != OpKind::kSendRecv) return stay_out(args, op, part_->peers);
  const uint32_t root = uint32_t(op.root), peer = uint32_t(op.peer);
  const uint32_t other[] = {root == shared_.endpoint.rank() ? peer : root};
  return stay_out(args, op, other);
}

}  // namespace sk::cpu
