#include "lib/api/handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
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

TEST(Handles, CallsThatQueueAreOneAtATime) {
  auto table = std::make_unique<HandleTable<int, HandleKind::kPlan>>();
  void* const shared = table->add(std::make_unique<int>(0), /*queues=*/true).value();
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  constexpr int kThreads = 6, kTurns = 20'000;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kTurns; ++i) {
        const auto use = table->use(shared);
        if (use.ok()) {
          ++*use.value();
        } else {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused.load(), 0);
  EXPECT_EQ(*table->remove(shared).value(), kThreads * kTurns);
}

TEST(Handles, ATurnIsWaitedForNoLongerThanIsSaid) {
  auto table = std::make_unique<HandleTable<int, HandleKind::kPlan>>();
  void* const shared = table->add(std::make_unique<int>(0), /*queues=*/true).value();
  {
    const auto held = table->use(shared);
    ASSERT_TRUE(held.ok());
    const auto late = table->use(shared, /*turn_ns=*/20'000'000);
    ASSERT_EQ(late.status().code(), SK_ERR_TIMEOUT);
    EXPECT_THAT(late.status().message(), testing::HasSubstr("has not ended for 0.02 s"));
  }
  EXPECT_TRUE(table->use(shared).ok());  // Whoever gave up has left nothing behind.
  EXPECT_TRUE(table->remove(shared).ok());
}

// Those who wait hear that there is nothing more to wait for.
TEST(Handles, WhoWaitsForWhatIsTakenAwayIsTold) {
  auto table = std::make_unique<HandleTable<int, HandleKind::kPlan>>();
  for (int round = 0; round < 200; ++round) {
    void* const shared = table->add(std::make_unique<int>(round), /*queues=*/true).value();
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        while (true) {
          const auto use = table->use(shared);
          if (use.ok()) continue;
          wrong += use.status().code() != SK_ERR_BAD_HANDLE ? 1 : 0;
          return;
        }
      });
    }
    EXPECT_TRUE(table->remove(shared).ok());
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

using Parents = HandleTable<int, HandleKind::kComm>;
using Children = HandleTable<std::vector<int>, HandleKind::kPlan>;

TEST(Handles, WhatIsMadeForAnotherNeedsNoClaimOfItsOwn) {
  auto parents = std::make_unique<Parents>();
  auto children = std::make_unique<Children>();
  void* const parent = parents->add(std::make_unique<int>(7)).value();
  const auto make = [&] {
    return children->add(std::make_unique<std::vector<int>>(3, 1), false, parent).value();
  };
  void *const one = make(), *const other = make();
  {
    const auto use = children->use_for(*parents, one);
    ASSERT_TRUE(use.ok());
    EXPECT_EQ(*use.value().first, 7);
    EXPECT_EQ(use.value().second->size(), 3u);
    const auto again = children->use_for(*parents, one);
    EXPECT_EQ(again.status().code(), SK_ERR_BUSY);
    EXPECT_THAT(again.status().message(), testing::HasSubstr("a call on this plan"));
    EXPECT_THAT(children->use_for(*parents, other).status().message(),
                testing::HasSubstr("a call on this communicator"));
    EXPECT_EQ(children->remove_from(*parents, one).status().code(), SK_ERR_BUSY);
    EXPECT_TRUE(children->remove_from(*parents, other).ok());
  }
  EXPECT_TRUE(
      children->use_for(*parents, one).ok());  // The removal that was refused changed nothing.
  {
    const auto call = parents->use(parent);  // Of somebody else.
    EXPECT_EQ(children->use_for(*parents, one).status().code(), SK_ERR_BUSY);
    EXPECT_TRUE(children->remove_from(*parents, make()).ok());
  }
  ASSERT_TRUE(parents->remove(parent).ok());
  EXPECT_THAT(children->use_for(*parents, one).status().message(),
              testing::HasSubstr("the plan's communicator was freed"));
  EXPECT_TRUE(children->remove_from(*parents, one).ok());
  EXPECT_EQ(children->use_for(*parents, one).status().code(), SK_ERR_BAD_HANDLE);
}

// Either a removal finds a use inside and changes nothing, or no use has the object any more.
TEST(Handles, RemovalsRaceWithUsesForAnother) {
  auto parents = std::make_unique<Parents>();
  auto children = std::make_unique<Children>();
  void* const parent = parents->add(std::make_unique<int>(0)).value();
  std::atomic<void*> child{nullptr};
  std::atomic<bool> over{false};
  std::atomic<int> uses{0}, wrong{0};
  const auto make = [&] {
    return children->add(std::make_unique<std::vector<int>>(64, 5), false, parent).value();
  };
  child = make();
  std::thread user([&] {
    while (!over) {
      const auto use = children->use_for(*parents, child);
      if (!use.ok()) {
        if (use.status().code() != SK_ERR_BAD_HANDLE) ++wrong;
        continue;
      }
      ++uses;
      for (int& each : *use.value().second) wrong += each++ < 5;
    }
  });
  int refused = 0;
  for (int round = 0; round < 20'000 || uses < 100; ++round) {
    auto removed = children->remove_from(*parents, child);
    if (!removed.ok()) {
      ++refused;
      EXPECT_EQ(removed.status().code(), SK_ERR_BUSY);
      continue;
    }
    std::ranges::fill(*removed.value(), -1);  // Whoever still has it sees this.
    removed.value().reset();
    child = make();
  }
  over = true;
  user.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace sk::api
