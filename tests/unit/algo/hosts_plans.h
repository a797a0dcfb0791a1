// Worlds of several hosts, and the plans of calls there.
#ifndef SK_TESTS_UNIT_ALGO_HOSTS_PLANS_H_
#define SK_TESTS_UNIT_ALGO_HOSTS_PLANS_H_

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "lib/algo/planner.h"
#include "lib/plan/crossing.h"
#include "lib/plan/validate.h"
#include "tests/support/op_words.h"

namespace sk::testing_support {

// Hosts with so many ranks each, one after another.
inline Target hosts(const std::vector<uint32_t>& sizes) {
  Target target{.mapped = false};
  for (const uint32_t size : sizes) {
    const auto first = uint32_t(target.host_of.size());
    target.host_of.insert(target.host_of.end(), size, first);
  }
  target.world_size = uint32_t(target.host_of.size());
  return target;
}

inline Target flat(Target target) {
  target.host_of.clear();
  return target;
}

inline Plan made(const OpDesc& op, const Target& target) {
  Result<Plan> plan = make_plan(op, target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  const Status status = validate(*plan);
  EXPECT_TRUE(status.ok()) << status.message();
  return std::move(plan.value());
}

inline CrossingSum crossing(const OpDesc& op, const Target& target) {
  return sum_of(crossing_of(made(op, target)));
}
// Of the plan that knows nothing of hosts.
inline CrossingSum crossing_when_flat(const OpDesc& op, const Target& target) {
  Plan plan = made(op, flat(target));
  plan.target.host_of = target.host_of;
  return sum_of(crossing_of(plan));
}

inline OpDesc vector_op(OpKind kind, int64_t count, DType dtype = DType::kF32) {
  return op_desc({.kind = kind, .dtype = dtype, .count = count});
}

inline OpDesc product_op(int64_t m, int64_t n, int64_t k, DType dtype = DType::kF32,
                         DType out_dtype = DType::kF32) {
  return op_desc({.kind = OpKind::kAllreduceGemm,
                  .dtype = dtype,
                  .out_dtype = out_dtype,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = k,
                  .ldc = n});
}
inline OpDesc gather_op(int64_t m, int64_t n, int64_t k) {
  return op_desc({.kind = OpKind::kAllgatherGemm,
                  .dtype = DType::kF32,
                  .out_dtype = DType::kF32,
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = k,
                  .ldc = n});
}
inline Target with_packed(Target target, const OpDesc& op) {
  const GemmCall call = gemm_call(op);
  target.packed_bytes = uint64_t(call.n) * uint64_t(call.k) * dtype_bytes(call.dtype);
  return target;
}

inline std::vector<uint32_t> all_of(uint32_t ranks) {
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_UNIT_ALGO_HOSTS_PLANS_H_
