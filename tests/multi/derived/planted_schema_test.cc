// A schema's mistakes, planted in what is inferred of a call and in what it means. Each is found
// out: by who reads schemas, by the judge of a call that is right, by a planner, by the validator,
// or by a result that is not what the changed schema says. What nobody finds changes no call, or
// lets in calls that are done as it says.
#include <gtest/gtest.h>

#include <exception>

#include "lib/algo/planner.h"
#include "lib/op/judge.h"
#include "lib/op/well_formed.h"
#include "lib/plan/validate.h"
#include "tests/multi/derived/changed_schema.h"
#include "tests/multi/derived/on_reference.h"
#include "tests/multi/derived/run_cases.h"

namespace sk::derived {
namespace {

constexpr size_t kCalls = 12;
constexpr int kLetIn = 12, kDrawn = 100;  // Of those that only the changed schema allows.

// "" or who finds out.
std::string found_by_plan(const Shape& shape, const Plan& plan, Random& random) {
  if (!validate(plan).ok()) return "the validator";
  try {
    return wrong_on_reference(make_case(shape, random), plan, random()).empty() ? "" : "a result";
  } catch (const std::exception&) {
    return "the oracle";  // Which does not know what it is to make.
  }
}

std::string found_by(const ChangedSchema& changed, const Planned& right, Random& random) {
  Shape shape = right.call.shape;
  shape.op = changed.as_called(shape.op);
  if (!mistake_in(shape.op, uint32_t(shape.setting.ranks)).empty()) return "the judge of calls";
  Plan plan = right.plan;
  plan.op = shape.op;
  if (std::string who = found_by_plan(shape, plan, random); !who.empty()) return who;
  Result<Plan> made = make_plan(shape.op, right.plan.target);
  return made.ok() ? found_by_plan(shape, made.value(), random) : "a planner";
}

// Of a call that it lets in, and the right one does not.
std::string found_by_let_in(const ChangedSchema& changed, const Schema& right, int* let_in,
                            Random& random) {
  for (const Shape& shape :
       random_shapes(changed.schema(), kDrawn, random, {{"numbers", "plain"}})) {
    if (*let_in == kLetIn) break;
    const OpDesc op = ChangedSchema::called(shape.op, right);
    if (!shape.inside.empty() || shape.setting.ranks > 8 ||
        mistake_in(op, uint32_t(shape.setting.ranks)).empty())
      continue;
    ++*let_in;
    Result<Plan> made = make_plan(shape.op, target_of(shape, random));
    if (!made.ok()) return "a planner";
    if (is_long(made.value())) continue;
    if (std::string who = found_by_plan(shape, made.value(), random); !who.empty()) return who;
  }
  return "";
}

class PlantedSchemas : public testing::TestWithParam<const Schema*> {
 protected:
  // By what was changed: who has found out.
  void find(const ChangedSchemas& all, const std::vector<Planned>& calls, Random& random) {
    for (const auto& changed : all) {
      std::string who;
      int let_in = 0;
      if (flaw_in(changed->schema()) != kNoFlaw) who = "the reader";
      for (const Planned& each : calls) {
        if (who.empty()) who = found_by(*changed, each, random);
      }
      if (who.empty()) who = found_by_let_in(*changed, *GetParam(), &let_in, random);
      ++(who.empty() ? unseen_ : seen_);
      if (who.empty()) {
        who = fmt::format("nobody: {} more calls, done as it says", let_in);
        if (let_in == 0) who = "nobody: no other calls";
      }
      std::printf("%s: found by %s\n", changed->what().c_str(), who.c_str());
    }
  }
  int seen_ = 0, unseen_ = 0;
};

TEST_P(PlantedSchemas, RulesAreFoundOutOrHarmless) {
  const uint64_t first = seed();
  Random random(first);
  const std::vector<Planned> calls = planned_calls(*GetParam(), kCalls, random);
  find(changed_rules(*GetParam()), calls, random);
  std::printf("%d found out, %d harmless\n", seen_, unseen_);
  EXPECT_GE(seen_, 2 * unseen_) << "SK_TEST_SEED=" << first;
  EXPECT_TRUE(seen_ > 5 || GetParam()->operands.empty());
}

TEST_P(PlantedSchemas, MeaningsAreFoundOut) {
  const uint64_t first = seed();
  Random random(first);
  const std::vector<Planned> calls = planned_calls(*GetParam(), kCalls, random);
  find(changed_meanings(*GetParam()), calls, random);
  EXPECT_EQ(unseen_, 0) << "SK_TEST_SEED=" << first;
  EXPECT_TRUE(seen_ > 0 || GetParam()->meaning == nullptr);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedSchemas, testing::ValuesIn(schemas()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace sk::derived
