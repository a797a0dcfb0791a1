// Any one field of a plan's text changed: the text or the plan is refused with a sentence, or the
// change is harmless, which means that the plan still computes what its op says.
// SK_SEED=N replays one seed; SK_CASES=N runs more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "lib/algo/planner.h"
#include "lib/op/schema.h"
#include "lib/plan/text.h"
#include "lib/plan/validate.h"
#include "tests/support/worlds.h"

namespace sk {
namespace {

using namespace testing_support;

// Replaces one number or word after '=', ',', '@', ':', 'x', '/', '+' or "b", "s", "r".
std::string mutate(std::string text, std::mt19937_64& random) {
  std::vector<std::pair<size_t, size_t>> numbers;  // Begin, length.
  for (size_t at = text.find("op kind"); at < text.size(); ++at) {
    if (!std::isdigit(static_cast<unsigned char>(text[at]))) continue;
    size_t end = at;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    numbers.push_back({at, end - at});
    at = end;
  }
  const auto [at, length] = numbers[random() % numbers.size()];
  const uint64_t value = std::strtoull(text.substr(at, length).c_str(), nullptr, 10);
  const uint64_t other[] = {value + 1, value - 1,  0,          value * 2, value / 2,   value + 4,
                            random(),  value ^ 64, UINT32_MAX, 1,         random() % 8};
  return text.replace(at, length, std::to_string(other[random() % std::size(other)]));
}

std::string swap_word(std::string text, std::mt19937_64& random) {
  static const char* const kWords[][2] = {{"sum", "max"},
                                          {"f32", "bf16"},
                                          {"f32", "i32"},
                                          {"f64", "f32"},
                                          {"read=", "write="},
                                          {" after_all", ""},
                                          {"local", "mapped"},
                                          {"mapped ", "put "},
                                          {"put ", "local "},
                                          {"default", "stream"},
                                          {"input", "inout"},
                                          {"copy", "put"},
                                          {"  await\n", ""},
                                          {"  enter\n", ""},
                                          {"partial", "store"},
                                          {"min", "prod"},
                                          {" after_all", " posts_in_order"},
                                          {" posts_in_order", ""}};
  const auto& [from, to] = kWords[random() % std::size(kWords)];
  std::vector<size_t> places;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
    places.push_back(at);
  }
  if (places.empty()) return mutate(std::move(text), random);
  return text.replace(places[random() % places.size()], std::string(from).size(), to);
}

TEST(PlanMutation, IsRefusedOrHarmless) {
  const char *seed_text = std::getenv("SK_SEED"), *cases_text = std::getenv("SK_CASES");
  const uint64_t only = seed_text ? std::strtoull(seed_text, nullptr, 10) : 0;
  const uint64_t cases = cases_text ? std::strtoull(cases_text, nullptr, 10) : 500;
  int refused_text = 0, refused_plan = 0, harmless = 0;
  for (uint64_t seed = only ? only : 1; seed <= (only ? only : cases); ++seed) {
    std::mt19937_64 random(seed);
    Case c = random_case(random, /*ranks_max=*/4);
    if (const Field count = c.op.schema().field("count")) {
      c.op.set(count, std::min<int64_t>(c.op[count], 100));
    }
    Result<Plan> base = make_plan(c.op, c.target);
    ASSERT_TRUE(base.ok()) << base.status().message();
    ASSERT_TRUE(validate(base.value()).ok()) << validate(base.value()).message();
    const std::string sound = dump(base.value());
    const std::string text = random() % 3 ? mutate(sound, random) : swap_word(sound, random);
    SCOPED_TRACE(fmt::format("SK_SEED={}", seed));
    Result<Plan> plan = parse(text);
    if (!plan.ok()) {
      EXPECT_THAT(plan.status().message(), testing::HasSubstr("plan text, line "));
      ++refused_text;
      continue;
    }
    if (const Status status = validate(plan.value()); !status.ok()) {
      EXPECT_THAT(status.message(), testing::HasSubstr("plan refused, rule "));
      ++refused_plan;
      continue;
    }
    ++harmless;
    World world = random_world(plan.value(), /*runs=*/3, random);
    for (int order = 0; order < 2; ++order) {
      const Status status = run_reference(plan.value(), world, random());
      if (status.code() == SK_ERR_NO_MEMORY) break;  // Valid, with a buffer far out in workspace.
      ASSERT_TRUE(status.ok()) << status.message() << "\n" << text;
      ASSERT_EQ(first_difference(plan.value(), world), "") << text;
    }
  }
  RecordProperty("refused_text", refused_text);
  RecordProperty("refused_plan", refused_plan);
  RecordProperty("harmless", harmless);
  std::printf("%d texts and %d plans refused, %d harmless\n", refused_text, refused_plan, harmless);
  if (only == 0) {
    EXPECT_GT(refused_plan, harmless);
    EXPECT_GT(harmless, int(cases / 50));
  }
}

}  // namespace
}  // namespace sk
