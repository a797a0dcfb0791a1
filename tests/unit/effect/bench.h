// One rank's view of one call, on which tests run tiles.
#ifndef SK_TESTS_UNIT_EFFECT_BENCH_H_
#define SK_TESTS_UNIT_EFFECT_BENCH_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/effect/run.h"
#include "lib/op/ops/all.h"
#include "lib/plan/builder.h"
#include "lib/plan/task_info.h"

namespace sk::effect {

class Bench {
 public:
  Bench(const OpDesc& op, uint32_t world_size, uint32_t rank = 0)
      : meaning(op, world_size), rank_(rank) {}

  // Of the last region.
  Result<Stream> run(const Tile& tile, const std::vector<int64_t>& parameters,
                     const std::vector<Region>& regions, const std::vector<TileInput>& inputs) {
    SK_ASSIGN_OR_RETURN(const Outputs all, run_all(tile, parameters, regions, inputs));
    return all.of(uint32_t(regions.size()) - 1);
  }
  Result<Outputs> run_all(const Tile& tile, const std::vector<int64_t>& parameters,
                          const std::vector<Region>& regions,
                          const std::vector<TileInput>& inputs) {
    return effect::run({.meaning = meaning,
                        .blocks = blocks,
                        .work = work,
                        .tile = tile,
                        .parameters = parameters,
                        .regions = regions,
                        .rank = rank_,
                        .inputs = inputs,
                        .strips = true});
  }
  // `bytes` of one row of every stream, joined.
  Result<Stream> reduce(const std::vector<Stream>& from, DType dtype, DType out_dtype,
                        RedOp redop = RedOp::kSum) {
    const uint64_t count = bytes_of(from[0]) / dtype_bytes(dtype);
    std::vector<Region> regions;
    std::vector<TileInput> inputs;
    for (const Stream& each : from) {
      regions.push_back(flat(0, 0, count * dtype_bytes(dtype), kRead));
      inputs.push_back({uint32_t(inputs.size()), 0, each});
    }
    regions.push_back(flat(0, 0, count * dtype_bytes(out_dtype), kWrite));
    return run(*effect_of(TaskOp::kReduce),
               {int64_t(dtype), int64_t(out_dtype), int64_t(redop), kStoreDefault}, regions,
               inputs);
  }
  Stream elements(uint32_t array, uint32_t rank, const Rect& rect) const {
    Stream out;
    EXPECT_TRUE(meaning.hold(array, rank, rect, &out));
    return out;
  }

  uint32_t rank() const { return rank_; }

  const Meaning meaning;
  Blocks blocks;
  Work work;

 private:
  uint32_t rank_;
};

inline OpDesc vectors(const Schema& schema, DType dtype, RedOp redop = RedOp::kSum,
                      int64_t count = 8) {
  return describe(schema, {.dtype = dtype, .redop = redop, .count = count});
}

inline std::string refusal(const Result<Stream>& result) {
  EXPECT_FALSE(result.ok());
  return result.status().message();
}

inline constexpr Rect kEight{0, 1, 0, 8};

}  // namespace sk::effect

#endif  // SK_TESTS_UNIT_EFFECT_BENCH_H_
