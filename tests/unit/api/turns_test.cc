#include "lib/api/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/until.h"

namespace sk::api {
namespace {

using Outcome = TurnQueue::Outcome;

constexpr int64_t kLongNs = 300'000'000'000;
constexpr uint64_t kAlive = uint64_t{1} << kTurnBits;
constexpr uint64_t claim(uint64_t who) { return kAlive | who << kClaimShift; }
constexpr uint64_t kThis = claim(1);

// An object, as far as turns go.
struct Object {
  std::atomic<uint64_t> word{kAlive};
  std::atomic<uint32_t> pins{0};
  TurnQueue turns;

  Outcome wait(uint64_t mine, const Turn& turn = {}) {
    return turns.wait({word, pins}, mine, kLongNs, turn);
  }
  void release(uint64_t mine) {
    uint64_t is = mine;
    if (!word.compare_exchange_strong(is, kAlive)) turns.pass(word, mine);
  }
};

// Of one that this thread has, and that others wait for.
class Awaited {
 public:
  Awaited() { object.word = kThis; }
  ~Awaited() {
    ends = true;
    for (std::thread& thread : threads_) thread.join();
  }
  // Returns once it waits.
  void add(uint64_t who) {
    threads_.emplace_back([this, who] {
      EXPECT_EQ(object.wait(claim(who)), Outcome::kMine);
      has_it = who;
      while (!ends) std::this_thread::yield();
      object.release(claim(who));
    });
    while ((object.word.load() & kAwaited) == 0) std::this_thread::yield();
  }

  Object object;
  std::atomic<uint64_t> has_it{0};
  std::atomic<bool> ends{false};

 private:
  std::vector<std::thread> threads_;
};

constexpr std::chrono::milliseconds kLonger{1};  // Than anybody is passed over.

// Nobody starves: whoever has waited 0.1 ms is overtaken by no call that begins behind the end of
// the one that it waits for.
TEST(Turns, WhoHasWaitedLongIsNext) {
  for (int round = 0; round < 50; ++round) {
    Awaited awaited;
    awaited.add(2);
    std::this_thread::sleep_for(kLonger);  // tidy: allow sleep: it is the time that counts
    awaited.object.turns.pass(awaited.object.word, kThis);
    EXPECT_EQ(awaited.object.word.load(), claim(2));
    EXPECT_FALSE(TurnQueue::take_soon(awaited.object.word, kThis));
  }
}

// A turn that is given lies idle until the thread that was woken runs: of calls that are shorter
// than that, others may come before.
TEST(Turns, WhoHasJustComeIsOvertaken) {
  int overtaken = 0;
  for (int round = 0; round < 2'000 && overtaken < 10; ++round) {
    Awaited awaited;
    awaited.add(2);
    awaited.object.turns.pass(awaited.object.word, kThis);
    uint64_t is = kAlive;
    if (!awaited.object.word.compare_exchange_strong(is, kThis)) continue;
    ++overtaken;
    EXPECT_EQ(awaited.has_it, 0u);
    // It has looked in vain, or was told to; once it has waited long enough it is next all the
    // same.
    EXPECT_TRUE(
        testing_support::until([&] { return (awaited.object.word.load() & kAwaited) != 0; }));
    EXPECT_EQ(awaited.has_it, 0u);
    awaited.object.turns.pass(awaited.object.word, kThis);
    EXPECT_EQ(awaited.object.word.load() & kClaimMask, claim(2) & kClaimMask);
  }
  EXPECT_GT(overtaken, 0);
}

int32_t tells(void* user) {
  *static_cast<std::atomic<bool>*>(user) = true;
  return 0;
}

// Else each of many that wait would be given the turn while it sleeps.
TEST(Turns, NotTwoInARowAreGiven) {
  int freed = 0;
  for (int round = 0; round < 1000 && freed < 3; ++round) {
    Object object;
    object.word = kThis;
    std::atomic<int> had{0};
    std::atomic<bool> waits[2] = {false, false};
    std::vector<std::thread> threads;
    for (const uint64_t who : {uint64_t{2}, uint64_t{3}}) {
      threads.emplace_back([&, who] {
        const Turn turn{.waiting = tells, .user = &waits[who - 2]};
        EXPECT_EQ(object.wait(claim(who), turn), Outcome::kMine);
        ++had;
        object.release(claim(who));
      });
    }
    while (!waits[0] || !waits[1]) std::this_thread::yield();
    object.turns.pass(object.word, kThis);
    // By the one that was given it: the other one is woken, and whoever comes may be first.
    while (had < 2) {
      uint64_t is = kAlive;
      if (had == 0 || !object.word.compare_exchange_strong(is, kThis)) continue;
      freed += had == 1 ? 1 : 0;
      object.release(kThis);
      break;
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(had, 2);
    EXPECT_EQ(object.word.load(), kAlive);
  }
  EXPECT_EQ(freed, 3);
}

// However they come, wait, are asked and give up: each has the turn alone, and none is forgotten.
TEST(Turns, NobodyIsForgotten) {
  Object object;
  int count = 0;  // By whoever has the turn.
  std::atomic<int> had{0}, wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t who = 1; who <= 6; ++who) {
    threads.emplace_back([&, who] {
      for (int i = 0; i < 3'000; ++i) {
        uint64_t is = kAlive;
        const bool at_once = object.word.compare_exchange_strong(is, claim(who)) ||
                             (i % 2 == 0 && TurnQueue::take_soon(object.word, claim(who)));
        const int64_t limit_ns = i % 7 == 0 ? 20'000 + i : kLongNs;
        const Outcome outcome =
            at_once ? Outcome::kMine
                    : object.turns.wait({object.word, object.pins}, claim(who), limit_ns, {});
        if (outcome != Outcome::kMine) {
          wrong += outcome != Outcome::kLate || limit_ns == kLongNs ? 1 : 0;
          continue;
        }
        ++count;
        ++had;
        if (i % 64 == 0) std::this_thread::yield();
        if (i % 512 == 0) std::this_thread::sleep_for(kLonger);  // tidy: allow sleep: a long call
        object.release(claim(who));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(count, had);
  EXPECT_EQ(object.word.load(), kAlive);
  EXPECT_EQ(object.pins, 0u);
}

}  // namespace
}  // namespace sk::api
