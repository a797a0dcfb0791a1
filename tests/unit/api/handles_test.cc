#include "lib/api/handles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

// A thread does not wait for itself, so whatever waits for the test's own use does so on another.
template <typename Body>
void elsewhere(const Body& body) {
  std::thread(body).join();
}

// Of very many, calls of functions of calls, not all are known.
TEST(Handles, WhatMayBeInACallOfThisThreadIsNotWaitedFor) {
  auto table = std::make_unique<Table>();
  void* const held = table->add(std::make_unique<int>(1)).value();
  void* const other = table->add(std::make_unique<int>(2)).value();
  {
    std::deque<Table::Use> uses;
    while (PinnedHere::knows_all()) uses.push_back(table->pin(held).value());
    EXPECT_FALSE(PinnedHere::has_room());
    const auto refused = table->remove(other);
    EXPECT_EQ(refused.status().code(), SK_ERR_BUSY);
    EXPECT_THAT(refused.status().message(), HasSubstr("this plan may be in one of them"));
    EXPECT_THAT(table->remove(held).status().message(),
                HasSubstr("inside a call on the same plan"));
  }
  EXPECT_EQ(*table->remove(other).value(), 2);
  EXPECT_TRUE(PinnedHere::has_room());
  EXPECT_EQ(*table->remove(held).value(), 1);
}

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
      elsewhere([&] {
        const auto late = table->use(shared, {.limit_ns = own ? 0 : 20'000'000});
        ASSERT_EQ(late.status().code(), SK_ERR_TIMEOUT);
        EXPECT_THAT(late.status().message(), HasSubstr("have not ended for 0.02 s"));
      });
    }
    EXPECT_TRUE(table->use(shared).ok());  // Whoever gave up has left nothing behind.
    EXPECT_TRUE(table->remove(shared).ok());
  }
}

// Threads that wait for their turn, each behind those of before, and the order in which it came.
class Queue {
 public:
  Queue(Table& table, void* shared) : table_(table), shared_(shared) {}
  ~Queue() { join(); }
  void join() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
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
    std::vector<int> wanted;
    Queue queue(*table, shared);
    auto held = std::make_optional(table->use(shared));
    ASSERT_TRUE(held->ok());
    for (int who = 0; who < 3; ++who) {
      queue.add();
      if (who != gives_up) wanted.push_back(who);
    }
    if (gives_up >= 0) queue.end_wait_of(size_t(gives_up));
    held.reset();
    EXPECT_TRUE(table->use(shared).ok());  // Behind who is given the turn.
    queue.join();
    EXPECT_EQ(queue.order, wanted);
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
      elsewhere([&] {
        const auto late = table->remove(it, 20'000'000);
        ASSERT_EQ(late.status().code(), SK_ERR_TIMEOUT);
        EXPECT_THAT(late.status().message(), HasSubstr("it stays as it is"));
        EXPECT_EQ(table->remove_idle(it).status().code(), SK_ERR_BUSY);
      });
    }
    {
      auto ending = table->end(it);
      ASSERT_TRUE(ending.ok());
      EXPECT_TRUE(table->pin(it).ok());
      ending->close();
      elsewhere([&] {
        const auto refused = table->pin(it);
        EXPECT_EQ(refused.status().code(), SK_ERR_BUSY);
        EXPECT_THAT(refused.status().message(), HasSubstr("another thread ends this plan"));
      });
      EXPECT_THAT(table->pin(it).status().message(), HasSubstr("inside a call on the same plan"));
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

// Their time is over while the turn is passed on to them.
TEST(Handles, TurnsThatComeLateAreTakenOrLeft) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(0), kTurnNs).value();
  std::atomic<int> had{0}, late{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const auto use = table->use(shared, {.limit_ns = 1 + (i * 7919 + t * 104'729) % 60'000});
        if (use.ok()) {
          ++*use.value();
          ++had;
          if (i % 64 == 0) std::this_thread::yield();
        } else {
          (use.status().code() == SK_ERR_TIMEOUT ? late : wrong)++;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(late, 0);
  EXPECT_EQ(*table->remove(shared).value(), had);
}

// What a waiter's function does may last, and may want the same turn.
TEST(Handles, WhoIsAskedIsPassedOverMeanwhile) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(0), kTurnNs).value();
  struct Asked {
    Table* table;
    void* shared;
    std::atomic<bool> inside{false}, nested{false};
    std::atomic<int> others{0};
    int others_before = 0;
  } asked{table.get(), shared};
  const auto looks = [](void* user) -> int32_t {
    auto& its = *static_cast<Asked*>(user);
    its.inside = true;
    if (its.nested) return 0;
    its.nested = its.table->use(its.shared, {.limit_ns = 10'000'000'000}).ok();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (its.others == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return 0;
  };
  auto held = std::make_optional(table->use(shared));
  std::thread first([&] {
    const auto use = table->use(shared, {.waiting = looks, .user = &asked});
    EXPECT_TRUE(use.ok());
    asked.others_before = asked.others;
  });
  while (!asked.inside) std::this_thread::yield();
  std::thread second([&] {
    EXPECT_TRUE(table->use(shared).ok());
    ++asked.others;
  });
  held.reset();
  second.join();
  first.join();
  EXPECT_TRUE(asked.nested);
  EXPECT_EQ(asked.others_before, 1);
  EXPECT_TRUE(table->remove(shared).ok());
}

int32_t tells(void* user) {
  *static_cast<std::atomic<bool>*>(user) = true;
  return 0;
}

// Of those who wait for each other one gives way: whoever takes the object away waits for a pin,
// and who has that waits for its turn, of a call that may last.
TEST(Handles, AnEndRefusesThoseWhoWait) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(3), kTurnNs).value();
  auto held = std::make_optional(table->use(shared));
  const auto expect_refused = [&](std::atomic<bool>* waits) {
    const auto pin = table->pin(shared);
    ASSERT_TRUE(pin.ok());
    const auto use = table->use(
        shared,
        {.limit_ns = 10'000'000'000, .waiting = waits != nullptr ? tells : nullptr, .user = waits});
    EXPECT_EQ(use.status().code(), SK_ERR_BUSY);
    EXPECT_THAT(use.status().message(), HasSubstr("another thread ends this plan"));
  };
  for (const bool in_time : {false, true}) {
    std::atomic<bool> waits{false};
    std::thread before([&] { expect_refused(&waits); });
    while (!waits) std::this_thread::yield();
    std::thread ender([&] {
      const auto gone = table->remove(shared, in_time ? 20'000'000'000 : 100'000'000);
      EXPECT_EQ(gone.status().code(), in_time ? SK_OK : SK_ERR_TIMEOUT);
    });
    before.join();  // The call that has the turn lasts.
    if (in_time) std::thread([&] { expect_refused(nullptr); }).join();
    if (in_time) held.reset();
    ender.join();
    if (in_time) continue;
    waits = false;  // All is as before.
    std::thread behind(
        [&] { EXPECT_TRUE(table->use(shared, {.waiting = tells, .user = &waits}).ok()); });
    while (!waits) std::this_thread::yield();
    held.reset();
    behind.join();
    held.emplace(table->use(shared));
    ASSERT_TRUE(held->ok());
  }
  EXPECT_EQ(table->use(shared).status().code(), SK_ERR_BAD_HANDLE);
}

// Behind its success nothing of a caller's runs.
TEST(Handles, AnEndWaitsForFunctionsOfThoseWhoWait) {
  auto table = std::make_unique<Table>();
  struct Blocks {
    std::atomic<bool> inside{false}, open{false};
    static int32_t look(void* user) {
      auto& its = *static_cast<Blocks*>(user);
      its.inside = true;
      while (!its.open) std::this_thread::yield();
      its.inside = false;
      return 0;
    }
  };
  for (const bool in_time : {false, true}) {
    void* const shared = table->add(std::make_unique<int>(3), kTurnNs).value();
    Blocks blocks;
    auto held = std::make_optional(table->use(shared));
    std::thread waiter([&] {
      const auto use = table->use(shared, {.waiting = Blocks::look, .user = &blocks});
      EXPECT_EQ(use.status().code(), SK_ERR_BUSY);
    });
    while (!blocks.inside) std::this_thread::yield();
    held.reset();
    if (in_time) {
      std::thread opens([&] {
        while (table->pin(shared).ok()) std::this_thread::yield();  // Until it ends.
        blocks.open = true;
      });
      EXPECT_TRUE(table->remove(shared, /*limit_ns=*/20'000'000'000).ok());
      EXPECT_FALSE(blocks.inside);
      opens.join();
    } else {
      EXPECT_EQ(table->remove(shared, /*limit_ns=*/20'000'000).status().code(), SK_ERR_TIMEOUT);
      EXPECT_TRUE(blocks.inside);
      blocks.open = true;
    }
    waiter.join();
    EXPECT_EQ(table->remove(shared).ok(), !in_time);
  }
}

// Its own call it would wait for in vain.
TEST(Handles, AThreadDoesNotWaitForItself) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(5), kTurnNs).value();
  void* const other = table->add(std::make_unique<int>(6)).value();
  const auto expect_refused = [](const Status& status) {
    EXPECT_EQ(status.code(), SK_ERR_BUSY);
    EXPECT_THAT(status.message(), HasSubstr("inside a call on the same plan that is not over"));
  };
  {
    const auto first = table->pin(shared);
    ASSERT_TRUE(first.ok());
    std::optional<Table::Use> moved(table->pin(shared).value());
    const auto third = table->pin(shared);
    moved.reset();  // Not the last one.
    expect_refused(table->remove(shared).status());
    expect_refused(table->remove_idle(shared).status());
    EXPECT_TRUE(table->use(shared).ok());  // A turn is another matter.
    EXPECT_EQ(*table->remove(other).value(), 6);
  }
  {
    const auto used = table->use(shared);
    ASSERT_TRUE(used.ok());
    expect_refused(table->use(shared).status());
    expect_refused(table->remove(shared).status());
    std::thread([&] {  // Of another thread nothing is known.
      EXPECT_EQ(table->remove(shared, /*limit_ns=*/1'000'000).status().code(), SK_ERR_TIMEOUT);
    })
        .join();
  }
  EXPECT_EQ(*table->remove(shared).value(), 5);
  EXPECT_EQ(table->remove(shared).status().code(), SK_ERR_BAD_HANDLE);
}

// Nor does a function that it calls while it waits for its turn.
TEST(Handles, AWaitersFunctionDoesNotEndTheObject) {
  auto table = std::make_unique<Table>();
  void* const shared = table->add(std::make_unique<int>(5), kTurnNs).value();
  struct Ends {
    Table* table;
    void* shared;
    Status status;
  } ends{table.get(), shared, {}};
  const auto tries = [](void* user) -> int32_t {
    auto& its = *static_cast<Ends*>(user);
    its.status = std::move(its.table->remove(its.shared).status());
    return 1;
  };
  {
    const auto held = table->use(shared);
    std::thread([&] {
      EXPECT_EQ(table->use(shared, {.waiting = tries, .user = &ends}).status().code(), SK_ERR_BUSY);
    }).join();
  }
  EXPECT_EQ(ends.status.code(), SK_ERR_BUSY);
  EXPECT_THAT(ends.status.message(),
              HasSubstr("called from options.waiting, inside a call on the same plan"));
  EXPECT_TRUE(table->remove(shared).ok());
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
          if (use.status().code() == SK_ERR_BUSY) continue;  // It is about to.
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
