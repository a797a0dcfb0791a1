// `sk topo` from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/shell.h"

namespace {

using testing::HasSubstr;

using sk::testing_support::Outcome;

Outcome topo(const std::string& arguments) {
  return sk::testing_support::shell(SK_PROGRAM " topo " + arguments + " 2>&1");
}

TEST(SkTopo, ShowsThisMachine) {
  const Outcome tree = topo("");
  EXPECT_EQ(tree.status, 0) << tree.text;
  EXPECT_THAT(tree.text, HasSubstr("machine 0"));
  EXPECT_THAT(tree.text, HasSubstr("core"));
  EXPECT_THAT(topo("--summary").text, HasSubstr("hosts             1\n"));
}

TEST(SkTopo, WhatItDumpsItReads) {
  const Outcome text = topo("--synthetic 'hosts:2 cores:4 gpus:2' --dump");
  ASSERT_EQ(text.status, 0);
  EXPECT_THAT(text.text, testing::StartsWith("topology 1\n"));
  EXPECT_EQ(
      topo("--synthetic 'hosts:2 cores:4 gpus:2' --dump | " SK_PROGRAM " topo --text - --dump")
          .text,
      text.text);
}

TEST(SkTopo, MistakesGetASentence) {
  struct {
    const char* arguments;
    int status;
    const char* sentence;
  } const table[] = {
      {"--what", 2, "\"--what\" is no option"},
      {"--xml", 2, "--xml needs a value"},
      {"--xml a --text b", 2, "--xml and --text do not go together"},
      {"--dump --summary", 2, "--dump and --summary do not go together"},
      {"--xml /nonexistent", 1, "/nonexistent: No such file or directory"},
      {"--text /dev/null", 1, "/dev/null: line 1, column 1: a topology starts with"},
      {"--root /nonexistent", 1, "/nonexistent/sys/devices/system/cpu: No such file"},
      {"--synthetic cores:x", 1, "column 1: cores is \"x\""},
  };
  for (const auto& row : table) {
    const Outcome outcome = topo(row.arguments);
    EXPECT_EQ(outcome.status, row.status) << row.arguments;
    EXPECT_THAT(outcome.text, HasSubstr(row.sentence));
  }
}

// A machine recorded as a tree of /sys and /proc, seen through its root.
TEST(SkTopo, SeesARecordedMachine) {
  namespace fs = std::filesystem;
  const char* folder = std::getenv("SK_MACHINES_DIR");
  const fs::path archive = fs::path(folder != nullptr ? folder : SK_MACHINES_DEFAULT) / "sysfs" /
                           "nvidia-dgx-gb10.tar.bz2";
  if (!fs::exists(archive)) GTEST_SKIP() << "no recorded machine at " << archive;
  char work[] = "/tmp/sk_topo_test_XXXXXX";
  ASSERT_NE(mkdtemp(work), nullptr);
  const std::string unpack = "tar xjf '" + archive.string() + "' -C " + work;
  const bool unpacked = std::system(unpack.c_str()) == 0;
  if (unpacked) {
    const std::string root = fs::directory_iterator(work)->path().string();
    const Outcome outcome = topo("--summary --root '" + root + "'");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("hardware threads  20\n"));
    EXPECT_THAT(outcome.text, HasSubstr("memory bytes      128520671232\n"));
  }
  fs::remove_all(work);
  if (!unpacked) GTEST_SKIP() << "tar cannot unpack " << archive;
}

}  // namespace
