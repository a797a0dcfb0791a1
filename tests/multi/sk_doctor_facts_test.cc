// What ranks say of themselves, compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/sk_doctor/facts.h"

namespace sk::doctor {
namespace {

using testing::HasSubstr;

Probe with_gpus(int count, const char* driver) {
  Probe probe;
  Json gpus = Json::array();
  for (int i = 0; i < count; ++i) gpus.push_back({{"name", "GPU"}});
  probe.facts = {{"gpus", gpus}, {"driver", driver}};
  return probe;
}

TEST(DoctorFacts, HostsOfOtherGpusOrDriversAreNamed) {
  const Findings none;
  const std::vector<Json> facts = {own_facts(with_gpus(2, "570.1"), none),
                                   own_facts(with_gpus(2, "570.1"), none),
                                   own_facts(with_gpus(1, "535.2"), none)};
  Findings findings;
  compare_facts(facts, &findings);
  std::string all;
  for (const Finding& each : findings.all())
    if (each.state == State::kLimit) all += each.id + ": " + each.found + "\n";
  EXPECT_THAT(all, HasSubstr("differs.gpus: 2: ranks 0-1 | 1: rank 2\n"));
  EXPECT_THAT(all, HasSubstr("differs.driver: 570.1: ranks 0-1 | 535.2: rank 2\n"));
  Findings same;
  compare_facts({facts[0], facts[1]}, &same);
  for (const Finding& each : same.all()) EXPECT_NE(each.state, State::kLimit) << each.found;
}

}  // namespace
}  // namespace sk::doctor
