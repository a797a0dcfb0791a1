// How pipelines of puts cut what flows from one rank to another.
#ifndef SK_LIB_ALGO_CHUNKS_H_
#define SK_LIB_ALGO_CHUNKS_H_

#include <algorithm>

#include "lib/algo/layout.h"

namespace sk::algo {

class Chunks {
 public:
  // `longest` is the most elements that any pair passes, `pairs` how many pass some. One put
  // carries a chunk, of elements of up to `element_bytes`.
  Chunks(const Layout& layout, uint64_t longest, uint64_t pairs, uint64_t element_bytes);
  Chunks(const Layout& layout, uint64_t longest, uint64_t pairs)
      : Chunks(layout, longest, pairs, layout.element_bytes()) {}

  uint64_t elements() const { return elements_; }  // Of every chunk but the last.
  // More than a plan can have where puts carry too little for what flows.
  uint32_t count(uint64_t elements) const {
    return uint32_t(std::min<uint64_t>((elements + elements_ - 1) / elements_, UINT32_MAX));
  }
  Slice of(Slice whole, uint32_t index) const;

 private:
  uint64_t elements_;
};

}  // namespace sk::algo

#endif  // SK_LIB_ALGO_CHUNKS_H_
