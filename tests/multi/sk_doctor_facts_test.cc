// What ranks say of themselves, compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/sk_doctor/facts.h"
#include "tools/sk_doctor/logind.h"

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

// A folder with what logind reads, below a root of this test's own.
TEST(DoctorLogind, RemovesFilesUnlessItsSettingsOrLingeringSayOtherwise) {
  namespace fs = std::filesystem;
  std::string root = testing::TempDir() + "/sk-doctor-logind-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const auto write = [&](const std::string& path, const std::string& text) {
    fs::create_directories((root + path).substr(0, (root + path).rfind('/')));
    std::ofstream(root + path) << text;
  };
  const auto removes = [&](uid_t user) { return logind_removes_files(root, user, "ann"); };
  EXPECT_FALSE(removes(1000)) << "no logind";
  fs::create_directories(root + "/run/systemd/users");
  EXPECT_TRUE(removes(1000));
  EXPECT_FALSE(removes(0));
  write("/usr/lib/systemd/logind.conf", "[Login]\n#RemoveIPC=no\n");
  EXPECT_FALSE(removes(1000)) << "what a distribution has made the default";
  write("/etc/systemd/logind.conf", "[Login]\nRemoveIPC = yes\n");
  EXPECT_TRUE(removes(1000));
  write("/etc/systemd/logind.conf.d/a.conf", "[Login]\nRemoveIPC=no\n");
  EXPECT_FALSE(removes(1000));
  write("/run/systemd/logind.conf.d/b.conf", "[Login]\nRemoveIPC=yes\n");
  EXPECT_TRUE(removes(1000));
  write("/var/lib/systemd/linger/ann", "");
  EXPECT_FALSE(removes(1000));
  fs::remove_all(root);
}

}  // namespace
}  // namespace sk::doctor
