// A tile on terms: what it leaves in the regions that it writes, given what those that it reads
// hold. Knows no tile and no operation by name.
#ifndef SK_LIB_EFFECT_RUN_H_
#define SK_LIB_EFFECT_RUN_H_

#include <utility>
#include <vector>

#include "lib/effect/meaning.h"
#include "lib/effect/tile.h"
#include "lib/plan/task.h"

namespace sk::effect {

// What a task reads through one buffer of a region.
struct TileInput {
  uint32_t region = 0, entry = 0;
  Stream content;
};

struct TileCall {
  const Meaning& meaning;
  Blocks& blocks;
  Work& work;
  const Tile& tile;
  std::span<const int64_t> parameters;
  std::span<const Region> regions;
  uint32_t rank = 0;
  const std::vector<TileInput>& inputs;  // In the order of regions and entries; of those
                                         // that hold any bytes.
  bool strips = false;  // Whether a block may be written by several tasks, as its layout allows.
};

// What a tile leaves: nearly always the same in every region that it writes.
class Outputs {
 public:
  Outputs() = default;
  explicit Outputs(Stream everywhere) : first_(std::move(everywhere)) {}

  void add(uint32_t region, Stream content) {
    if (region_ == kEverywhere) {
      region_ = region;
      first_ = std::move(content);
    } else {
      others_.emplace_back(region, std::move(content));
    }
  }
  const Stream& of(uint32_t region) const {
    for (const auto& [number, content] : others_) {
      if (number == region) return content;
    }
    return first_;
  }

 private:
  static constexpr uint32_t kEverywhere = UINT32_MAX;
  uint32_t region_ = kEverywhere;
  Stream first_;
  std::vector<std::pair<uint32_t, Stream>> others_;
};

// Else a sentence without the task's name.
Result<Outputs> run(const TileCall& call);

}  // namespace sk::effect

#endif  // SK_LIB_EFFECT_RUN_H_
