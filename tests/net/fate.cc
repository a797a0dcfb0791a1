#include "tests/net/fate.h"

#include "lib/base/hash.h"

namespace sk::net {
namespace {

// What is drawn; each has numbers of its own.
enum class Draw : uint64_t { kLoss, kDuplicate, kReorder, kCorrupt, kUnseen, kJitter, kBit };

}  // namespace

Fate draw(const Settings& settings, uint64_t seed, uint32_t direction, uint64_t number) {
  const uint64_t packet = hash_mix(hash_mix(hash_mix(0, seed), direction), number);
  const auto word = [packet](Draw which) { return hash_mix(packet, uint64_t(which)); };
  // From 0 to below 1, in steps that a double holds exactly.
  const auto share = [word](Draw which) { return double(word(which) >> 11) * 0x1p-53; };
  return {.lost = share(Draw::kLoss) < settings.loss,
          .duplicated = share(Draw::kDuplicate) < settings.duplicate,
          .late = share(Draw::kReorder) < settings.reorder,
          .corrupted = share(Draw::kCorrupt) < settings.corrupt,
          .corrupted_unseen = share(Draw::kUnseen) < settings.corrupt_unseen,
          .jitter_ns = int64_t(share(Draw::kJitter) * double(settings.jitter_us) * 1000),
          .bit = word(Draw::kBit)};
}

}  // namespace sk::net
