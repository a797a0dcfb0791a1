// What a run takes beyond its plan's memory: threads, and scratch for its tiles. A rank that cannot
// have them says so before it has moved a byte.
#include "lib/exec/cpu/program.h"

namespace sk::cpu {

Status CpuProgram::reserve() {
  const uint32_t count = uint32_t(workers_.size());
  SK_RETURN_IF_ERROR(shared_.workers.start(count));
  for (const Reserve reserve : scratch_) {
    SK_RETURN_IF_ERROR(reserve());  // The caller's thread may be another each time.
    SK_RETURN_IF_ERROR(shared_.workers.reserve(reserve, count));
  }
  return {};
}

// Enters all the same, so that the peers hear of it instead of waiting. Their entries are awaited:
// the next run but one uses the same slots.
Status CpuProgram::stay_out(const RunArgs& args, const OpDesc& op, std::span<const uint32_t> peers,
                            int32_t code) {
  args_ = &args;
  EntrySlot entry{};  // Its fingerprint, 0, says it.
  entry.words[0] = uint64_t(op.kind());
  entry.words[1] = uint64_t(code);
  Waiter waiter(shared_.endpoint, shared_.spins, /*drives=*/true);
  EntryTree& tree = shared_.tree;
  const bool first = !along_tree() || tree.crosses();  // So that all know that it has come.
  if (first) SK_RETURN_IF_ERROR(send(entry, args.seq, peers));
  if (along_tree()) {
    SK_RETURN_IF_ERROR(tree.begin(args.seq, entry.fingerprint));
    Status met = waiter.wait([&] { return tree.step(); }, args.timeout_ns);
    if (ran_out(met)) return give_up(tree.awaited(), op);
    SK_RETURN_IF_ERROR(std::move(met));
    SK_RETURN_IF_ERROR(tree.take_status());
  }
  // Also along a tree: all tell each other now, for they know that not all are alike.
  if (!first) SK_RETURN_IF_ERROR(send(entry, args.seq, peers));
  uint32_t arrived = 0;
  Status status = waiter.wait([&] { return entries_arrived(peers, arrived); }, args.timeout_ns);
  return ran_out(status) ? give_up(peers[arrived], op) : std::move(status);
}

Status CpuProgram::decline(const RunArgs& args, const OpDesc& op, int32_t code) {
  if (!is_pair(op)) return stay_out(args, op, part_->peers, code);
  const auto [sender, receiver] = ends_of(op);
  const uint32_t other[] = {sender == shared_.endpoint.rank() ? receiver : sender};
  return stay_out(args, op, other, code);
}

}  // namespace sk::cpu
