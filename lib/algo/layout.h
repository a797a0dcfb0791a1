// What every planner starts from: the op, the target, and the growing buffer table.
#ifndef SK_LIB_ALGO_LAYOUT_H_
#define SK_LIB_ALGO_LAYOUT_H_

#include <algorithm>
#include <functional>
#include <vector>

#include "lib/op/ops/collectives.h"
#include "lib/plan/builder.h"
#include "lib/plan/plan.h"

namespace sk::algo {

// A run of elements.
struct Slice {
  uint64_t begin = 0;
  uint64_t count = 0;
};

// Part `index` of `parts` nearly equal parts of `count` elements, cut at multiples of `unit`
// elements so that no two parts share a cache line of an aligned buffer.
Slice slice_of(uint64_t count, uint32_t parts, uint32_t index, uint64_t unit);

// Elements of 64 bytes.
uint64_t line_elements(DType dtype);

class Layout {
 public:
  Layout(const OpDesc& op, const Target& target);

  const OpDesc& op() const { return plan_.op; }
  const VectorCall& call() const { return call_; }  // Of an operation on vectors.
  const Target& target() const { return plan_.target; }
  uint32_t ranks() const { return plan_.target.world_size; }
  // Signals that may go from one rank to another.
  uint32_t lanes_max() const { return std::max(1u, target().edge_signals_max); }
  uint64_t element_bytes() const { return dtype_bytes(plan_.op.type(0)); }

  // One buffer per rank, ids consecutive in rank order; returns rank 0's.
  uint32_t add_operand(BufferKind kind, BufferAccess access, uint8_t operand, uint64_t bytes);
  // The same in every rank's workspace (generations 1) or staging (2) area.
  uint32_t add_workspace(BufferAccess access, uint64_t bytes, uint8_t generations = 1);
  // At every rank one inbox for each of so many sources: buffer id = result + owner * sources +
  // source. (Where all ranks are sources, the inbox from itself exists so that they keep their
  // places; nothing uses it.) `has`: at other ranks they are empty; null: all have them.
  using Has = std::function<bool(uint32_t owner)>;
  uint32_t add_inboxes(BufferAccess access, uint64_t bytes, uint32_t sources,
                       const Has& has = nullptr);

  // Whether a plan that peers could run on mapped operands (`symmetric`), or on staged ones only,
  // does best with `bytes` copied whole to every rank's staging area.
  bool one_shot(uint64_t bytes, bool symmetric) const;

  // How peers reach an operand: not at all unless it is symmetric.
  BufferAccess operand_access(bool symmetric) const;
  BufferAccess inbox_access() const;

  Plan take() { return std::move(plan_); }
  // The plan with these parts.
  Plan finish(std::vector<RankPlan> parts);
  const std::vector<Buffer>& buffers() const { return plan_.buffers; }

 private:
  uint64_t reserve(uint64_t bytes, uint8_t generations);

  Plan plan_;
  VectorCall call_;
  uint64_t workspace_end_[2] = {0, 0};  // By generations - 1; the same on every rank.
};

// All ranks but `rank`, ascending.
std::vector<uint32_t> peers_of(uint32_t rank, uint32_t ranks);

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_LAYOUT_H_
