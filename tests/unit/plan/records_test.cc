// Plans walk the records of tile operations: a task that its record does not describe is refused,
// and the text form brings back whatever a record allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/plan/builder.h"
#include "lib/plan/check/structure.h"
#include "lib/plan/task_info.h"
#include "lib/plan/text.h"
#include "lib/plan/text_words.h"
#include "lib/tile/all.h"

namespace sk {
namespace {

using testing::HasSubstr;

constexpr uint32_t kBuffers = 8;

// A plan of one rank with one task: of this form of the operation, with so many regions.
Plan one_task(const TileOp& tile, size_t form, uint32_t region_count) {
  const Signature& signature = tile.signature;
  RankPlan part;
  Task task{};
  task.op = tile.id;
  for (const Parameter& parameter : signature.parameters) part.params.push_back(parameter.min);
  if (signature.form_parameter != kNoParameter) {
    part.params[signature.form_parameter] += int64_t(form);
  }
  for (uint32_t i = 0; i < region_count; ++i) {
    const RegionRole& role = *signature.forms[form].role(i, region_count);
    part.regions.push_back(flat(i, 64 * i, 64, role.access, role.many_buffers ? 2 : 1));
  }
  task.param_count = uint16_t(part.params.size());
  task.region_count = uint8_t(part.regions.size());
  part.tasks.push_back(task);
  part.queues.push_back({0, 1});
  Plan plan;
  plan.buffers.resize(kBuffers);
  plan.ranks.push_back(std::move(part));
  return plan;
}

std::vector<Plan> all_forms(const TileOp& tile) {
  std::vector<Plan> plans;
  for (size_t form = 0; form < tile.signature.forms.size(); ++form) {
    const Form& regions = tile.signature.forms[form];
    for (uint32_t n = regions.region_count_min(); n <= regions.region_count_max(); ++n) {
      plans.push_back(one_task(tile, form, n));
    }
  }
  return plans;
}

std::string refusal(const Plan& plan) { return check::check_parts(plan, check::Cast()).message(); }

class PlanRecords : public testing::TestWithParam<const TileOp*> {};
INSTANTIATE_TEST_SUITE_P(TileOps, PlanRecords,
                         testing::ValuesIn(all_tile_ops().begin(), all_tile_ops().end()),
                         [](const auto& info) { return std::string(info.param->signature.name); });

TEST_P(PlanRecords, EveryFormIsAllowed) {
  for (const Plan& plan : all_forms(*GetParam())) {
    EXPECT_EQ(refusal(plan), "") << dump(plan);
    EXPECT_TRUE(moves_bytes(GetParam()->id));
    EXPECT_EQ(signature_of(GetParam()->id), &GetParam()->signature);
  }
}

TEST_P(PlanRecords, AWrongRoleIsRefused) {
  for (const Plan& plan : all_forms(*GetParam())) {
    for (size_t i = 0; i < plan.ranks[0].regions.size(); ++i) {
      const std::string place = fmt::format("({}): region {} (", task_op_name(GetParam()->id), i);
      Plan wrong = plan;
      Region& region = wrong.ranks[0].regions[i];
      region.access = kRead + kWrite - region.access;
      EXPECT_THAT(refusal(wrong), HasSubstr(place));
      EXPECT_THAT(refusal(wrong), HasSubstr(region.access == kWrite ? "must be read" : "written"));
      region.access = kRead + kWrite - region.access;
      if (region.buffer_count > 1) continue;
      region.buffer_count = 2;
      EXPECT_THAT(refusal(wrong), HasSubstr(place));
      EXPECT_THAT(refusal(wrong), HasSubstr("is in 2 buffers"));
    }
  }
}

TEST_P(PlanRecords, AWrongParameterIsRefused) {
  const Signature& signature = GetParam()->signature;
  for (const Plan& plan : all_forms(*GetParam())) {
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
      const Parameter& parameter = signature.parameters[i];
      for (const int64_t value : {parameter.min - 1, parameter.max + 1}) {
        Plan wrong = plan;
        wrong.ranks[0].params[i] = value;
        EXPECT_THAT(refusal(wrong), HasSubstr(fmt::format(": {} is {}, ", parameter.name,
                                                          text::value_text(parameter, value))));
      }
    }
    for (const int more : {-1, 1}) {
      Plan wrong = plan;
      wrong.ranks[0].params.push_back(0);
      wrong.ranks[0].tasks[0].param_count += more;
      EXPECT_THAT(refusal(wrong), HasSubstr(fmt::format("has {} parameters, not {}",
                                                        int(signature.parameters.size()) + more,
                                                        signature.parameters.size())));
    }
  }
}

TEST_P(PlanRecords, RegionsThatNoFormHasAreRefused) {
  const Signature& signature = GetParam()->signature;
  for (const Plan& plan : all_forms(*GetParam())) {
    for (uint32_t count = 0; count <= kRegionCountMax + 1; ++count) {
      Plan wrong = plan;
      RankPlan& part = wrong.ranks[0];
      part.regions.resize(count, flat(0, 0, 64, kRead));
      part.tasks[0].region_count = uint8_t(count);
      const Form& form = *signature.form(part.params);
      if (count >= form.region_count_min() && count <= form.region_count_max()) continue;
      const bool other =
          count >= signature.region_count_min() && count <= signature.region_count_max();
      EXPECT_THAT(refusal(wrong),
                  HasSubstr(other ? fmt::format("has {} regions, which its {} does not take", count,
                                                signature.parameters[signature.form_parameter].name)
                                  : fmt::format("has {} regions, allowed are ", count)));
    }
  }
}

TEST(PlanRecordsTable, NumbersWithoutARecordAreRefused) {
  for (const uint32_t number : {kTaskOpCount, kTaskOpCount + 1, uint32_t(UINT16_MAX)}) {
    Plan plan = one_task(tiles::kCopy, 0, 2);
    plan.ranks[0].tasks[0].op = TaskOp(number);
    EXPECT_THAT(refusal(plan), HasSubstr(fmt::format("there is no operation {}", number)));
    EXPECT_EQ(task_op_name(TaskOp(number)), "unknown operation");
    EXPECT_FALSE(moves_bytes(TaskOp(number)));
  }
}

void expect_round_trip(const Plan& plan) {
  const std::string text = dump(plan);
  const Result<Plan> back = parse(text);
  ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << text;
  EXPECT_TRUE(back.value() == plan) << text;
  EXPECT_EQ(dump(back.value()), text);
}

TEST_P(PlanRecords, TheTextFormBringsBackEveryFormAndValue) {
  const Signature& signature = GetParam()->signature;
  for (const Plan& plan : all_forms(*GetParam())) {
    EXPECT_THAT(dump(plan),
                HasSubstr(fmt::format("\n  {} {}=", signature.name, signature.parameters[0].name)));
    expect_round_trip(plan);
  }
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const Parameter& parameter = signature.parameters[i];
    // Values that no plan may have are written as numbers.
    for (int64_t value = parameter.min - 2; value <= parameter.min + 17; ++value) {
      Plan plan = all_forms(*GetParam()).back();
      plan.ranks[0].params[i] = value;
      expect_round_trip(plan);
      if (parameter.word(value).empty()) continue;
      EXPECT_THAT(dump(plan),
                  HasSubstr(fmt::format(" {}={}", parameter.name, parameter.word(value))));
    }
  }
}

}  // namespace
}  // namespace sk
