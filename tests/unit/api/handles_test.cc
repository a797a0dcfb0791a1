#include "lib/api/handles.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sk::api {
namespace {

TEST(Handles, AFreedOneIsRefusedThoughItsPlaceIsTaken) {
  auto table = std::make_unique<HandleTable<int, HandleKind::kPlan>>();
  void* const first = table->add(std::make_unique<int>(1)).value();
  EXPECT_EQ(*table->remove(first).value(), 1);
  void* const second = table->add(std::make_unique<int>(2)).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(table->use(first).status().code(), SK_ERR_BAD_HANDLE);
  EXPECT_EQ(table->remove(first).status().code(), SK_ERR_BAD_HANDLE);
  {
    const auto use = table->use(second);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(*use.value(), 2);
  }
  EXPECT_EQ(*table->remove(second).value(), 2);  // Tables free nothing by themselves.
}

// The place of a thread's object is often another one's place of a moment ago.
TEST(Handles, OneThreadsEndIsNoUseOfAnothersObject) {
  auto table = std::make_unique<HandleTable<int, HandleKind::kPlan>>();
  std::vector<std::string> said(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < said.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1'000'000 && said[t].empty(); ++i) {
        void* const mine = table->add(std::make_unique<int>(i)).value();
        auto object = table->remove(mine);
        if (!object.ok()) {
          said[t] = object.status().message();
        } else if (*object.value() != i) {
          said[t] = "another one's object";
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : said) EXPECT_EQ(each, "");
}

}  // namespace
}  // namespace sk::api
