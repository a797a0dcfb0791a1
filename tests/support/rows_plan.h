// Plans of calls that go over rows (rows_case.h), and runs of them as the reference makes them.
#ifndef SK_TESTS_SUPPORT_ROWS_PLAN_H_
#define SK_TESTS_SUPPORT_ROWS_PLAN_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/algo/planner.h"
#include "lib/exec/reference.h"
#include "lib/op/judge.h"
#include "lib/op/ops/rmsnorm.h"
#include "lib/op/values.h"
#include "tests/support/rows_case.h"

namespace sk::testing_support {

inline const Schema& schema_of(const RowsCase& c) {
  return c.backward ? ops::kRmsnormBackward : ops::kRmsnorm;
}
inline uint32_t number(const Schema& schema, std::string_view name) {
  return uint32_t(schema.operand(name) - schema.operands.data());
}

inline OpDesc op_of(const RowsCase& c) {
  const Schema& schema = schema_of(c);
  OpDesc op(schema);
  op.set(schema.field("m"), c.m);
  op.set(schema.field("n"), c.n);
  const auto type = [&](const char* name, int32_t dtype) {
    op.set(OpDesc::type_field(number(schema, name)), dtype);
  };
  const auto stride = [&](const char* name, int64_t ld) {
    op.set(schema.stride_field(number(schema, name)), c.m > 1 ? ld : c.n);
  };
  const auto optional = [&](const char* name, bool given, int32_t dtype) {
    type(name, given ? dtype : c.dtype);
    if (!given) op.set(OpDesc::absent_field(number(schema, name)), 1);
  };
  const int32_t sums = c.dtype == SK_F64 ? SK_F64 : SK_F32;
  type("x", c.dtype);
  stride("x", c.ldx);
  optional("weight", c.weight, c.weight_dtype);
  if (!c.backward) {
    type("y", c.dtype);
    stride("y", c.in_place ? c.ldx : c.ldy);
    op.set(OpDesc::aliased_field(number(schema, "y")), c.in_place);
    optional("rstd", c.second, sums);
    type("rstd", sums);
    op.set(schema.field("eps"), bits_of(c.eps));
    return op;
  }
  for (const char* name : {"dy", "dx"}) type(name, c.dtype);
  stride("dy", c.lddy);
  stride("dx", c.ldy);
  type("rstd", sums);
  optional("dweight", c.second, c.dweight_dtype);
  return op;
}

inline Target target_of(uint32_t workers) {
  Target target;
  target.world_size = 1;
  target.workers = target.cores = workers;
  return target;
}

inline Plan plan_of(const RowsCase& c, uint32_t workers) {
  const OpDesc op = op_of(c);
  EXPECT_EQ(mistake_in(op, 1), "") << describe(c);
  return make_plan(op, target_of(workers)).value();
}

// Runs the plan as the reference does, on `data`.
inline std::string run(const Plan& plan, const RowsCase& c, RowsData& data, uint64_t seed) {
  const Schema& schema = schema_of(c);
  const std::pair<const char*, RowsArray*> arrays[] = {
      {"x", &data.x},   {"y", &data.y},   {"weight", &data.weight},  {"rstd", &data.rstd},
      {"dy", &data.dy}, {"dx", &data.dx}, {"dweight", &data.dweight}};
  World world;
  world.inputs.assign(1, std::vector<OperandBytes>(1));
  for (const auto& [name, array] : arrays) {
    if (schema.operand(name) != nullptr) {
      world.inputs[0][0][number(schema, name)] = array->bytes;
    }
  }
  if (Status status = run_reference(plan, world, seed); !status.ok()) return status.message();
  for (const auto& [name, array] : arrays) {
    if (schema.operand(name) == nullptr || array->bytes.empty()) continue;
    const std::vector<std::byte>& is = world.outputs[0][0][number(schema, name)];
    if (!is.empty()) array->bytes = is;
  }
  return "";
}

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_ROWS_PLAN_H_
