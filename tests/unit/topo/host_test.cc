#include "lib/topo/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sk::topo {
namespace {

class HostTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("host" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const char* name, const char* text) { std::ofstream(folder_ / name) << text; }
  std::string facts(const char* nvml) { return host_facts({folder_.string(), nvml}); }

  std::filesystem::path folder_;
};

TEST_F(HostTest, ReadsWhatTheKernelSays) {
  write("cpuinfo", "processor\t: 0\nmodel name\t: A \"fast\" \\ CPU\nmodel name\t: another\n");
  write("meminfo", "MemTotal:       24000000 kB\nMemFree:  1 kB\n");
  const std::string text = facts("no-such-library.so");
  EXPECT_NE(text.find(R"("cpu": "A \"fast\" \\ CPU")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("memory_bytes": 24576000000)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("gpus": [], "driver": "", "cuda": "")"), std::string::npos) << text;
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  EXPECT_NE(text.find("{\"host\": \"" + std::string(name) + '"'), std::string::npos) << text;
}

TEST_F(HostTest, WhatIsNotThereIsEmpty) {
  const std::string text = facts("no-such-library.so");
  EXPECT_NE(text.find(R"("cpu": "")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("memory_bytes": 0)"), std::string::npos) << text;
}

// Two GPUs; the third does not answer, which takes nothing from the others.
TEST_F(HostTest, AsksTheManagementLibrary) {
  const std::string text = facts(SK_FAKE_NVML);
  EXPECT_NE(text.find(R"("gpus": [{"name": "Fake A", "memory_bytes": 1000}, )"
                      R"({"name": "Fake B", "memory_bytes": 0}], )"
                      R"("driver": "550.54.15", "cuda": "12.4")"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace sk::topo
