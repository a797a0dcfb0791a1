#include "lib/algo/chunks.h"

#include <algorithm>

namespace sk::algo {
namespace {

// A world's plan has about 3 tasks per pair of ranks and chunk. Chunks grow with the message so
// that plans stay in the thousands of tasks, which are made and validated in milliseconds.
constexpr uint64_t kPairChunksMax = 4096, kChunksMin = 8;

// What one put can carry, in whole lines where it carries a line.
uint64_t put_elements_max(const Layout& layout, uint64_t unit, uint64_t element_bytes) {
  const uint64_t most = layout.target().put_bytes_max / element_bytes;
  return most < unit ? most : most / unit * unit;
}

}  // namespace

Chunks::Chunks(const Layout& layout, uint64_t longest, uint64_t pairs, uint64_t element_bytes) {
  const uint64_t unit = line_elements(layout.op().type(0));
  const uint64_t chunks_max = std::max(kChunksMin, kPairChunksMax / std::max<uint64_t>(1, pairs));
  const uint64_t wanted = std::max(std::max<uint64_t>(1, layout.target().chunk_bytes / 64) * unit,
                                   align_up(longest / chunks_max + 1, unit));
  elements_ = std::min({wanted, align_up(std::max<uint64_t>(longest, 1), unit),
                        put_elements_max(layout, unit, element_bytes)});
}

Slice Chunks::of(Slice whole, uint32_t index) const {
  const uint64_t begin = index * elements_;
  return {whole.begin + begin, std::min(elements_, whole.count - begin)};
}

}  // namespace sk::algo
