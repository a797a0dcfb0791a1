#include "lib/algo/ring.h"

#include <algorithm>

namespace sk::algo {

namespace {

// One slot would stop a rank that puts its next chunk before it consumes its peers'; more than this
// many hide nothing more, and signals are few.
constexpr uint32_t kSlotsMin = 2, kSlotsMax = 8;

}  // namespace

Ring::Ring(Layout& layout, Traffic traffic, uint64_t longest, uint32_t first_lane)
    : traffic_(traffic),
      first_lane_(first_lane),
      slots_(std::clamp(layout.target().slot_count, kSlotsMin, kSlotsMax)),
      element_bytes_(layout.element_bytes()),
      chunks_(layout, longest, traffic.pairs()) {
  // Slots begin at lines, whatever a chunk has.
  slot_bytes_ = align_up(chunks_.elements() * element_bytes_, kWorkspaceAlign);
  inboxes_ = layout.add_inboxes(
      layout.inbox_access(), slots_ * slot_bytes_, traffic_.sources(),
      [&](uint32_t owner) { return traffic_.only_owner.value_or(owner) == owner; });
}

uint32_t Ring::posts(uint32_t lane, uint64_t inbound, uint64_t outbound) const {
  const uint32_t slot = (lane - first_lane_) % slots_;
  const auto uses = [&](uint64_t elements) {
    const uint32_t count = chunks(elements);
    return count > slot ? (count - slot - 1) / slots_ + 1 : 0;
  };
  if (lane - first_lane_ < slots_) return uses(inbound);
  return uses(outbound) > 0 ? uses(outbound) - 1 : 0;
}

Region Ring::slot(uint32_t owner, uint32_t source, uint32_t index, uint64_t elements,
                  RegionAccess access, uint32_t source_count) const {
  return flat(inboxes_ + owner * traffic_.sources() + traffic_.inbox(source),
              (index % slots_) * slot_bytes_, elements * element_bytes_, access, source_count);
}

void Ring::put(Part& part, uint32_t owner, uint32_t index, Region src, bool after_all) const {
  const Wait credit = part.from(owner, credit_lane(index), index / slots_);
  part.put(src, slot(owner, part.rank(), index, src.row_bytes / element_bytes_, kWrite),
           part.to(owner, data_lane(index)), after_all,
           index >= slots_ ? std::span(&credit, 1) : std::span<const Wait>());
}

Wait Ring::arrival(const Part& part, uint32_t source, uint32_t index) const {
  return part.from(source, data_lane(index), index / slots_ + 1);
}

std::optional<Post> Ring::credit(const Part& part, uint32_t source, uint32_t index,
                                 uint64_t elements) const {
  if (index + slots_ >= chunks(elements)) return std::nullopt;
  return part.to(source, credit_lane(index));
}

}  // namespace sk::algo
