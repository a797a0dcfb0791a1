#include "lib/exec/cpu/workers.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

namespace sk::cpu {
namespace {

constexpr uint32_t kWorkersMax = 4;

struct Round {
  std::array<std::atomic<int>, kWorkersMax> runs{};
};

// Runs one round and waits for its end; false if it does not come.
bool run_round(Workers& workers, uint32_t active, Round& round) {
  workers.run(
      active, [](void* object, uint32_t w) noexcept { ++static_cast<Round*>(object)->runs[w]; },
      &round);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!workers.finished()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// A thread that is started when there have been rounds must not take part in the last of them.
TEST(Workers, ThatComeLaterRunTheirOwnRoundsOnly) {
  for (int repetition = 0; repetition < 300; ++repetition) {
    Workers workers(kWorkersMax);
    for (const uint32_t active : {2u, 3u, 2u, 4u, 1u, 4u}) {
      ASSERT_TRUE(workers.start(active).ok());
      for (int look = 0; look < 50; ++look) {  // A stray one counts itself out of no round.
        ASSERT_TRUE(workers.finished());
        std::this_thread::yield();
      }
      Round round;
      ASSERT_TRUE(run_round(workers, active, round)) << active << " workers did not end";
      for (uint32_t w = 0; w < kWorkersMax; ++w) {
        ASSERT_EQ(round.runs[w], w < active ? 1 : 0) << "worker " << w << " of " << active;
      }
    }
  }
}

// A run of two on a rank with many cores wakes one thread.
TEST(Workers, WhoIsNotNeededSleepsOn) {
  Workers workers(kWorkersMax);
  ASSERT_TRUE(workers.start(kWorkersMax).ok());
  for (const uint32_t active : {1u, 2u, 4u, 2u, 3u}) {
    Round round;
    ASSERT_TRUE(run_round(workers, active, round));
  }
  EXPECT_EQ(workers.rounds(1), 4u);
  EXPECT_EQ(workers.rounds(2), 2u);
  EXPECT_EQ(workers.rounds(3), 1u);
}

template <int kWhich>
std::atomic<int> calls{0};
template <int kWhich>
Status note_call() {
  ++calls<kWhich>;
  return {};
}

// What one kind of tile has reserved on a thread, another has not.
TEST(Workers, ReserveEachThingOnEachThreadThatLacksIt) {
  Workers workers(kWorkersMax);
  ASSERT_TRUE(workers.start(kWorkersMax).ok());
  const auto reserve = [&](Status (*what)(), uint32_t active) {
    const Status status = workers.reserve(what, active);
    EXPECT_TRUE(status.ok()) << status.message();
  };
  reserve(note_call<1>, 1);  // The caller's thread sees to itself.
  EXPECT_EQ(calls<1>, 0);
  for (int i = 0; i < 2; ++i) reserve(note_call<1>, 3);
  EXPECT_EQ(calls<1>, 2);
  reserve(note_call<2>, 2);
  EXPECT_EQ(calls<2>, 1);
  reserve(note_call<1>, kWorkersMax);
  EXPECT_EQ(calls<1>, 2 + 3);  // Some once more: it is theirs to know.
}

}  // namespace
}  // namespace sk::cpu
