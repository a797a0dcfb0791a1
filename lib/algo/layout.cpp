#include "lib/algo/layout.h"

#include <algorithm>

namespace sk::algo {

Slice slice_of(uint64_t count, uint32_t parts, uint32_t index, uint64_t unit) {
  const uint64_t units = (count + unit - 1) / unit;
  const auto cut = [&](uint64_t part) {
    return std::min(count, (units / parts * part + std::min<uint64_t>(part, units % parts)) * unit);
  };
  const uint64_t begin = cut(index);
  return {begin, cut(index + 1) - begin};
}

uint64_t line_elements(DType dtype) { return 64 / dtype_bytes(dtype); }

Layout::Layout(const OpDesc& op, const Target& target) : call_(vector_call(op)) {
  plan_.op = op;
  plan_.target = target;
}

uint64_t Layout::reserve(uint64_t bytes, uint8_t generations) {
  uint64_t& end = workspace_end_[generations - 1];
  const uint64_t offset = end;
  end = align_up(offset + bytes, kWorkspaceAlign);
  return offset;
}

uint32_t Layout::add_operand(BufferKind kind, BufferAccess access, uint8_t operand,
                             uint64_t bytes) {
  const uint32_t first = uint32_t(plan_.buffers.size());
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    plan_.buffers.push_back(
        {.kind = kind, .access = access, .operand = operand, .owner = rank, .bytes = bytes});
  }
  return first;
}

uint32_t Layout::add_workspace(BufferAccess access, uint64_t bytes, uint8_t generations) {
  const uint32_t first = uint32_t(plan_.buffers.size());
  const uint64_t offset = reserve(bytes, generations);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    plan_.buffers.push_back({.access = access,
                             .generations = generations,
                             .owner = rank,
                             .bytes = bytes,
                             .offset = offset});
  }
  return first;
}

uint32_t Layout::add_inboxes(BufferAccess access, uint64_t bytes, uint32_t sources,
                             const Has& has) {
  const uint32_t first = uint32_t(plan_.buffers.size());
  std::vector<uint64_t> offsets;
  for (uint32_t source = 0; source < sources; ++source) offsets.push_back(reserve(bytes, 1));
  for (uint32_t owner = 0; owner < ranks(); ++owner) {
    const bool there = has == nullptr || has(owner);
    for (uint32_t source = 0; source < sources; ++source) {
      plan_.buffers.push_back({.access = access,
                               .owner = owner,
                               .bytes = there ? bytes : 0,
                               .offset = there ? offsets[source] : 0});
    }
  }
  return first;
}

BufferAccess Layout::operand_access(bool symmetric) const {
  if (!symmetric) return BufferAccess::kLocal;
  return target().mapped ? BufferAccess::kMapped : BufferAccess::kPutOnly;
}

BufferAccess Layout::inbox_access() const {
  return target().mapped ? BufferAccess::kMapped : BufferAccess::kPutOnly;
}

bool Layout::one_shot(uint64_t bytes, bool symmetric) const {
  const uint64_t most = symmetric ? target().one_shot_symmetric_bytes : target().one_shot_bytes;
  return target().mapped && bytes <= most;
}

Plan Layout::finish(std::vector<RankPlan> parts) {
  plan_.ranks = std::move(parts);
  return take();
}

std::vector<uint32_t> peers_of(uint32_t rank, uint32_t ranks) {
  std::vector<uint32_t> peers;
  for (uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer != rank) peers.push_back(peer);
  }
  return peers;
}

}  // namespace sk::algo
