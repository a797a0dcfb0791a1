// A ring of slots through which one rank's bytes flow to another by puts, chunk by chunk.
//
// The source puts chunk c into slot c % slots of its inbox at the owner, once the owner's credit
// says that chunk c - slots has been consumed. Puts arrive in any order, so every slot has signals
// of its own: one for what arrives in it, one for credit. The last chunk of a slot needs no credit
// back: the next run's entry gives it.
#ifndef SK_LIB_ALGO_RING_H_
#define SK_LIB_ALGO_RING_H_

#include <optional>

#include "lib/algo/chunks.h"
#include "lib/algo/part.h"

namespace sk::algo {

// Between which ranks: every rank sends to every other, one to all others, or all others to one.
struct Traffic {
  uint32_t ranks;
  std::optional<uint32_t> only_source = std::nullopt;
  std::optional<uint32_t> only_owner = std::nullopt;

  // By which chunks are cut. One rank's count twice: it alone writes or takes all the puts, in one
  // queue.
  uint64_t pairs() const {
    return only_source || only_owner ? 2 * (ranks - 1) : uint64_t(ranks) * ranks;
  }
  // Inboxes of an owner, and which of them is a source's.
  uint32_t sources() const { return only_source ? 1 : ranks; }
  uint32_t inbox(uint32_t source) const { return only_source ? 0 : source; }
};

class Ring {
 public:
  // `longest` is the most elements that any pair passes; it decides the size of chunks and inboxes.
  // Lanes first_lane to first_lane + lane_count() - 1 of source and owner are the ring's.
  Ring(Layout& layout, Traffic traffic, uint64_t longest, uint32_t first_lane);

  uint32_t chunks(uint64_t elements) const { return chunks_.count(elements); }
  Slice chunk(Slice whole, uint32_t index) const { return chunks_.of(whole, index); }

  uint32_t lane_count() const { return 2 * slots_; }
  bool has(uint32_t lane) const { return lane - first_lane_ < lane_count(); }
  // What a rank gets from `producer` in one of the ring's lanes in one run, where the producer
  // sends it `inbound` elements and it sends the producer `outbound`.
  uint32_t posts(uint32_t lane, uint64_t inbound, uint64_t outbound) const;

  Region slot(uint32_t owner, uint32_t source, uint32_t index, uint64_t elements,
              RegionAccess access, uint32_t source_count = 1) const;
  void put(Part& part, uint32_t owner, uint32_t index, Region src, bool after_all) const;
  Wait arrival(const Part& part, uint32_t source, uint32_t index) const;
  std::optional<Post> credit(const Part& part, uint32_t source, uint32_t index,
                             uint64_t elements) const;

 private:
  uint32_t data_lane(uint32_t index) const { return first_lane_ + index % slots_; }
  uint32_t credit_lane(uint32_t index) const { return first_lane_ + slots_ + index % slots_; }

  Traffic traffic_;
  uint32_t inboxes_ = 0, first_lane_, slots_;
  uint64_t element_bytes_, slot_bytes_ = 0;
  Chunks chunks_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_RING_H_
