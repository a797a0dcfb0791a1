#include "lib/api/handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sk::api {
namespace {

using testing::HasSubstr;
using Table = HandleTable<int, HandleKind::kPlan>;

TEST(Handles, AFreedOneIsRefusedThoughItsPlaceIsTaken) {
  auto table = std::make_unique<Table>();
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
  auto table = std::make_unique<Table>();
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
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(0), kTurnNs).value();
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
  auto table = std::make_unique<Table>();
  for (const bool own : {false, true}) {
    void* const shared = table->add(std::make_unique<int>(0), own ? 20'000'000 : kTurnNs).value();
    {
      const auto held = table->use(shared);
      ASSERT_TRUE(held.ok());
      const auto late = table->use(shared, {.limit_ns = own ? 0 : 20'000'000});
      ASSERT_EQ(late.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(late.status().message(), HasSubstr("have not ended for 0.02 s"));
    }
    EXPECT_TRUE(table->use(shared).ok());  // Whoever gave up has left nothing behind.
    EXPECT_TRUE(table->remove(shared).ok());
  }
}

// Threads that wait for their turn, each behind those of before, and the order in which it came.
class Queue {
 public:
  Queue(Table& table, void* shared) : table_(table), shared_(shared) {}
  ~Queue() {
    for (std::thread& thread : threads_) thread.join();
  }
  // Returns once it waits.
  void add() {
    const size_t who = waiters_.size();
    Waiter& its = waiters_.emplace_back();
    threads_.emplace_back([this, who, &its] {
      const auto use = table_.use(shared_, {.waiting = look, .user = &its});
      if (use.ok()) order.push_back(int(who));
      its.gave_up = !use.ok();
    });
    while (!its.waits) std::this_thread::yield();
  }
  void end_wait_of(size_t who) {
    waiters_[who].stop = true;
    while (!waiters_[who].gave_up) std::this_thread::yield();
  }
  std::vector<int> order;  // By whoever has the turn.

 private:
  struct Waiter {
    std::atomic<bool> waits{false}, stop{false}, gave_up{false};
  };
  static int32_t look(void* user) {
    auto& its = *static_cast<Waiter*>(user);
    its.waits = true;
    return its.stop ? 1 : 0;
  }
  Table& table_;
  void* shared_;
  std::deque<Waiter> waiters_;
  std::vector<std::thread> threads_;
};

TEST(Handles, TurnsComeInTheOrderInWhichTheyWereWaitedFor) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(0), kTurnNs).value();
  for (const int gives_up : {-1, 0, 1, 2}) {
    std::vector<int> order, wanted;
    {
      Queue queue(*table, shared);
      auto held = std::make_optional(table->use(shared));
      ASSERT_TRUE(held->ok());
      for (int who = 0; who < 3; ++who) {
        queue.add();
        if (who != gives_up) wanted.push_back(who);
      }
      if (gives_up >= 0) queue.end_wait_of(size_t(gives_up));
      held.reset();
      const auto again = table->use(shared);  // Whoever had it comes last.
      ASSERT_TRUE(again.ok());
      order = queue.order;
    }
    EXPECT_EQ(order, wanted);
  }
  EXPECT_TRUE(table->remove(shared).ok());
}

// Calls that do not end keep an object where it is, and whoever comes meanwhile hears why.
TEST(Handles, WhatIsInUseIsTakenAwayInTimeOrNotAtAll) {
  auto table = std::make_unique<Table>();
  for (const int64_t turn_ns : {int64_t{0}, kTurnNs}) {
    void* const it = table->add(std::make_unique<int>(7), turn_ns).value();
    {
      const auto pinned = table->pin(it);
      ASSERT_TRUE(pinned.ok());
      const auto late = table->remove(it, 20'000'000);
      ASSERT_EQ(late.status().code(), SK_ERR_TIMEOUT);
      EXPECT_THAT(late.status().message(), HasSubstr("it stays as it is"));
      EXPECT_EQ(table->remove_idle(it).status().code(), SK_ERR_BUSY);
    }
    {
      auto ending = table->end(it);
      ASSERT_TRUE(ending.ok());
      EXPECT_TRUE(table->pin(it).ok());
      ending->close();
      const auto refused = table->pin(it);
      EXPECT_EQ(refused.status().code(), SK_ERR_BUSY);
      EXPECT_THAT(refused.status().message(), HasSubstr("another thread ends this plan"));
      EXPECT_FALSE(table->try_pin(it).has_value());
      EXPECT_TRUE(ending->drain().ok());
    }
    EXPECT_TRUE(table->pin(it).ok());  // As before.
    EXPECT_EQ(*table->use(it).value(), 7);
    EXPECT_EQ(*table->remove(it).value(), 7);
    EXPECT_EQ(table->pin(it).status().code(), SK_ERR_BAD_HANDLE);
  }
}

TEST(Handles, AnEndWaitsForCallsThatWereThereBefore) {
  auto table = std::make_unique<Table>();
  for (int round = 0; round < 200; ++round) {
    void* const it = table->add(std::make_unique<int>(round)).value();
    std::atomic<bool> inside{false}, left{false};
    std::thread other([&] {
      const auto pinned = table->pin(it);
      inside = true;
      std::this_thread::yield();
      left = true;
    });
    while (!inside) std::this_thread::yield();
    EXPECT_EQ(*table->remove(it).value(), round);
    EXPECT_TRUE(left);
    other.join();
  }
}

// Those who wait hear that there is nothing more to wait for.
TEST(Handles, WhoWaitsForWhatIsTakenAwayIsTold) {
  auto table = std::make_unique<Table>();
  for (int round = 0; round < 200; ++round) {
    void* const shared = table->add(std::make_unique<int>(round), kTurnNs).value();
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

}  // namespace
}  // namespace sk::api
