#include "tools/sk_kernel/preload.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sk::kernel {
namespace {

TEST(Preload, NamesStandBetweenCommasOrBlanksEachOnce) {
  auto names = parse_modules("here", " numpy,matplotlib.pyplot  _x1, numpy,,größe ");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (Names{"numpy", "matplotlib.pyplot", "_x1", "größe"}));
  EXPECT_EQ(joined(*names, ", "), "numpy, matplotlib.pyplot, _x1, größe");
  EXPECT_TRUE(parse_modules("here", "").value().empty());
  EXPECT_TRUE(parse_modules("here", " none ").value().empty());
}

TEST(Preload, WhatIsNoNameGetsASentence) {
  for (const char* text : {"3d", "a..b", ".a", "a.", "a-b", "a;b", "a/b", "os.system('x')",
                           "--ranks", "a\"", "a.3", "import json", "json as j", "__main__"}) {
    const auto names = parse_modules("--preload", text);
    ASSERT_FALSE(names.ok()) << text;
    EXPECT_EQ(names.status().code(), SK_ERR_INVALID_ARGUMENT);
    EXPECT_NE(names.status().message().find("--preload has \""), std::string::npos) << text;
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += "m" + std::to_string(i) + ",";
  EXPECT_NE(parse_modules("x", many).status().message().find("65 names in "), std::string::npos);
  EXPECT_FALSE(parse_modules("x", std::string(5000, 'a')).ok());
  for (const char* text : {"none,json", "json none"})
    EXPECT_EQ(parse_modules("x", text).status().message(),
              "x has none beside json; none stands alone");
}

class Choice : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sk-preload-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  PreloadChoice make(const char* installed, const char* variable, const char* key = "key") {
    return PreloadChoice::make(installed, variable, folder_ + "/kernel-1.json", key);
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_;
};

TEST_F(Choice, TheVariableComesBeforeTheKernelspec) {
  EXPECT_EQ(make("numpy", nullptr).names(), Names{"numpy"});
  EXPECT_EQ(make("numpy", "torch").names(), Names{"torch"});
  EXPECT_TRUE(make("numpy", "").names().empty());
  EXPECT_EQ(make("numpy", "torch").flaw(), "");
}

TEST_F(Choice, WhatIsNoNameIsNoneUntilOneIsChosen) {
  EXPECT_NE(make("a-b", nullptr).flaw().find("--preload has \"a-b\""), std::string::npos);
  PreloadChoice choice = make("numpy", "a-b");
  EXPECT_NE(choice.flaw().find("SK_PRELOAD has \"a-b\""), std::string::npos);
  EXPECT_TRUE(choice.names().empty());
  ASSERT_TRUE(choice.choose({"json"}).ok());
  EXPECT_EQ(choice.flaw(), "");
  EXPECT_EQ(make("numpy", "a-b").names(), Names{"json"});
  EXPECT_EQ(make("numpy", "a-b").flaw(), "");
}

TEST_F(Choice, WhatWasChosenIsFoundByTheSameKernelUntilItIsForgotten) {
  PreloadChoice choice = make("numpy", nullptr);
  ASSERT_TRUE(choice.choose({"torch", "json"}).ok());
  EXPECT_EQ(choice.names(), (Names{"torch", "json"}));
  EXPECT_EQ(make("numpy", "pandas").names(), (Names{"torch", "json"}));
  EXPECT_EQ(make("numpy", nullptr, "another key").names(), Names{"numpy"});
  ASSERT_TRUE(choice.choose({}).ok());
  EXPECT_TRUE(make("numpy", nullptr).names().empty());
  EXPECT_EQ(files(), 1u);
  // Jupyter takes every file with a kernel's name for a connection file.
  const auto entry = *std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(entry.path().filename().string().find("kernel"), std::string::npos);
  EXPECT_EQ(std::filesystem::status(entry.path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  choice.forget();
  EXPECT_EQ(make("numpy", nullptr).names(), Names{"numpy"});
}

TEST_F(Choice, ALinkOrNonsenseInItsPlaceIsNotFollowed) {
  PreloadChoice choice = make("numpy", nullptr);
  ASSERT_TRUE(choice.choose({"torch"}).ok());
  const std::string path = std::filesystem::directory_iterator(folder_)->path();
  std::ofstream(path) << "no - module !";
  EXPECT_EQ(make("numpy", nullptr).names(), Names{"numpy"});
  std::filesystem::remove(path);
  std::ofstream(folder_ + "/elsewhere") << "json";
  ASSERT_EQ(symlink((folder_ + "/elsewhere").c_str(), path.c_str()), 0);
  EXPECT_EQ(make("numpy", nullptr).names(), Names{"numpy"});
  ASSERT_TRUE(choice.choose({"torch"}).ok());
  std::string kept;
  std::ifstream(folder_ + "/elsewhere") >> kept;
  EXPECT_EQ(kept, "json");
}

TEST(PreloadNote, IsReadAsFarAsItIsOne) {
  const auto step =
      read_preload_note({{"importing", "torch"}, {"number", 2}, {"count", 3}, {"seconds", 1.5}});
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->importing, "torch");
  EXPECT_EQ(step->number, 2);
  EXPECT_EQ(step->seconds, 1.5);
  const auto done = read_preload_note(
      {{"done", {{{"name", "a"}, {"memory_bytes", 7}, {"why_not", "x"}}, 3}}, {"seconds", 2}});
  ASSERT_TRUE(done.has_value());
  ASSERT_EQ(done->modules.size(), 1u);
  EXPECT_EQ(done->modules[0].name, "a");
  EXPECT_EQ(done->modules[0].memory_bytes, 7);
  EXPECT_EQ(done->modules[0].why_not, "x");
  for (const Json& other : {Json(), Json(3), Json::object(), Json{{"done", 3}}, Json::array()})
    EXPECT_FALSE(read_preload_note(other).has_value()) << other;
}

}  // namespace
}  // namespace sk::kernel
