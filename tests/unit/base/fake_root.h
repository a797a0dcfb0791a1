// A folder that stands for a machine's root: /proc and /sys as a test has them.
#ifndef SK_TESTS_UNIT_BASE_FAKE_ROOT_H_
#define SK_TESTS_UNIT_BASE_FAKE_ROOT_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sk {

class FakeRoot : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/sk-root-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

}  // namespace sk

#endif  // SK_TESTS_UNIT_BASE_FAKE_ROOT_H_
