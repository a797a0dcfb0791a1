#include "lib/exec/cpu/tile/copy.h"

#include <algorithm>

#include "tests/unit/exec/cpu/tile/tile_testing.h"

namespace sk::cpu {
namespace {

using namespace testing_support;

void fill(Random& random, Guarded& memory) {
  for (size_t i = 0; i < memory.size(); ++i) memory.data()[i] = uint8_t(random.between(0, 255));
}

size_t random_bytes(Random& random, int round) {
  return round < 200 ? size_t(round) : size_t(random.between(200, 20000));
}

TEST(Copy, EveryDestinationHoldsTheSourceAndNothingElseChanges) {
  for (int round = 0; round < 400; ++round) {
    Random random{uint64_t(round)};
    const size_t bytes = random_bytes(random, round);
    Guarded source(bytes, size_t(random.between(0, 63)));
    fill(random, source);
    std::vector<Guarded> targets;
    std::vector<void*> dst;
    const int count = int(random.between(1, 4));
    targets.reserve(size_t(count));
    for (int j = 0; j < count; ++j) {
      targets.emplace_back(bytes, size_t(random.between(0, 63)));
      dst.push_back(targets.back().data());
    }
    if (random.coin()) dst.push_back(source.data());  // One destination may be the source.
    const std::vector<uint8_t> before(source.data(), source.data() + bytes);
    copy(dst.data(), int(dst.size()), source.data(), bytes,
         random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal);
    EXPECT_TRUE(source.guards_intact());
    for (void* d : dst) {
      ASSERT_TRUE(std::equal(before.begin(), before.end(), static_cast<const uint8_t*>(d)))
          << bytes << " " << replay_line();
    }
    for (const Guarded& target : targets) ASSERT_TRUE(target.guards_intact()) << replay_line();
  }
}

TEST(Copy2d, RowsArriveAndTheGapsKeepTheirBytes) {
  for (int round = 0; round < 200; ++round) {
    Random random{1000 + uint64_t(round)};
    const size_t rows = size_t(random.between(0, 9)), row_bytes = size_t(random.between(0, 300));
    const size_t src_pitch = row_bytes + size_t(random.between(0, 70));
    Guarded source(rows * src_pitch, size_t(random.between(0, 15)));
    fill(random, source);
    std::vector<Guarded> targets;
    std::vector<void*> dst;
    std::vector<int64_t> pitch;
    const int count = int(random.between(1, 3));
    targets.reserve(size_t(count));
    for (int j = 0; j < count; ++j) {
      pitch.push_back(int64_t(row_bytes) + random.between(0, 70));
      targets.emplace_back(rows * size_t(pitch.back()), size_t(random.between(0, 15)));
      dst.push_back(targets.back().data());
    }
    copy_2d(dst.data(), pitch.data(), count, source.data(), int64_t(src_pitch), rows, row_bytes,
            random.coin() ? StoreHint::kNonTemporal : StoreHint::kNormal);
    for (size_t j = 0; j < targets.size(); ++j) {
      ASSERT_TRUE(targets[j].guards_intact()) << replay_line();
      for (size_t r = 0; r < rows; ++r) {
        for (size_t i = 0; i < size_t(pitch[j]); ++i) {
          const uint8_t expected =
              i < row_bytes ? source.data()[r * src_pitch + i] : Guarded::kPoison;
          ASSERT_EQ(targets[j].data()[r * size_t(pitch[j]) + i], expected)
              << "row " << r << " byte " << i << " " << replay_line();
        }
      }
    }
  }
}

}  // namespace
}  // namespace sk::cpu
