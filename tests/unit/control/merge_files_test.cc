// The merge engine against the files of tests/golden/merge. SK_UPDATE=1 rewrites what they expect;
// a change there is to be read as a change of what users see.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/control/merge_script.h"

namespace sk::control {
namespace {

constexpr const char* kRule = "----\n";

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(SK_GOLDEN_MERGE))
    if (entry.path().extension() == ".merge") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class MergeFile : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(MergeFile, LeadsToWhatItSays) {
  std::stringstream text;
  text << std::ifstream(GetParam()).rdbuf();
  const size_t rule = text.str().find(kRule);
  ASSERT_NE(rule, std::string::npos) << "a line of four dashes ends the script";
  const std::string script = text.str().substr(0, rule);
  const std::string outcome = testing_support::play(script);
  if (std::getenv("SK_UPDATE") != nullptr)
    std::ofstream(GetParam()) << script << kRule << outcome;
  else
    EXPECT_EQ(outcome, text.str().substr(rule + 5)) << "SK_UPDATE=1 rewrites " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(Merge, MergeFile, testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace sk::control
