#include "lib/algo/ring.h"

#include <algorithm>

namespace sk::algo {

Ring::Ring(Layout& layout, uint64_t longest, uint32_t data_lane, uint32_t credit_lane)
    : ranks_(layout.ranks()),
      data_lane_(data_lane),
      credit_lane_(credit_lane),
      slots_(std::max(1u, layout.target().slot_count)),
      element_bytes_(layout.element_bytes()) {
  const uint64_t unit = line_elements(layout.op().dtype);
  const uint64_t wanted = std::max<uint64_t>(1, layout.target().chunk_bytes / 64) * unit;
  chunk_ = std::min(wanted, align_up(std::max<uint64_t>(longest, 1), unit));
  inboxes_ = layout.add_inboxes(layout.inbox_access(), slots_ * chunk_ * element_bytes_);
}

Slice Ring::chunk(Slice whole, uint32_t index) const {
  const uint64_t begin = index * chunk_;
  return {whole.begin + begin, std::min(chunk_, whole.count - begin)};
}

uint32_t Ring::credit_posts(uint64_t elements) const {
  const uint32_t count = chunks(elements);
  return count > slots_ ? count - slots_ : 0;
}

Region Ring::slot(uint32_t owner, uint32_t source, uint32_t index, uint64_t elements,
                  RegionAccess access, uint32_t source_count) const {
  return flat(inboxes_ + owner * ranks_ + source, (index % slots_) * chunk_ * element_bytes_,
              elements * element_bytes_, access, source_count);
}

void Ring::put(Part& part, uint32_t owner, uint32_t index, Region src, bool after_all) const {
  const Wait credit = part.from(owner, credit_lane_, index - slots_ + 1);
  part.put(src, slot(owner, part.rank(), index, src.row_bytes / element_bytes_, kWrite),
           part.to(owner, data_lane_), after_all,
           index >= slots_ ? std::span(&credit, 1) : std::span<const Wait>());
}

Wait Ring::arrival(const Part& part, uint32_t source, uint32_t index) const {
  return part.from(source, data_lane_, index + 1);
}

std::optional<Post> Ring::credit(const Part& part, uint32_t source, uint32_t index,
                                 uint64_t elements) const {
  if (index + slots_ >= chunks(elements)) return std::nullopt;
  return part.to(source, credit_lane_);
}

}  // namespace sk::algo
