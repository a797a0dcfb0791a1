// A ring of slots through which one rank's bytes flow to another by puts, chunk by chunk.
//
// The source puts chunk c into slot c % slots of its inbox at the owner, once the owner's credit
// says that chunk c - slots has been consumed. The last `slots` chunks need no credit back: the
// next run's entry gives it.
#ifndef SK_LIB_ALGO_RING_H_
#define SK_LIB_ALGO_RING_H_

#include <optional>

#include "lib/algo/part.h"

namespace sk::algo {

class Ring {
 public:
  // `longest` is the most elements that any pair passes; it decides the size of chunks and inboxes.
  // Data travels in `data_lane` of the source, credit in `credit_lane` of the owner.
  Ring(Layout& layout, uint64_t longest, uint32_t data_lane, uint32_t credit_lane);

  uint64_t chunk_elements() const { return chunk_; }
  uint32_t chunks(uint64_t elements) const { return uint32_t((elements + chunk_ - 1) / chunk_); }
  Slice chunk(Slice whole, uint32_t index) const;

  // What the source adds to its data signal, the owner to its credit signal, in one run.
  uint32_t data_posts(uint64_t elements) const { return chunks(elements); }
  uint32_t credit_posts(uint64_t elements) const;

  Region slot(uint32_t owner, uint32_t source, uint32_t index, uint64_t elements,
              RegionAccess access, uint32_t source_count = 1) const;
  void put(Part& part, uint32_t owner, uint32_t index, Region src, bool after_all) const;
  Wait arrival(const Part& part, uint32_t source, uint32_t index) const;
  std::optional<Post> credit(const Part& part, uint32_t source, uint32_t index,
                             uint64_t elements) const;

 private:
  uint32_t ranks_, inboxes_ = 0, data_lane_, credit_lane_, slots_;
  uint64_t element_bytes_, chunk_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_RING_H_
