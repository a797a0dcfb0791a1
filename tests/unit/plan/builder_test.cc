#include "lib/plan/builder.h"

#include <gtest/gtest.h>

#include <vector>

namespace sk {
namespace {

// The last task of a rank waits for every signal that it gets; a task's own count has 16 bits.
TEST(RankBuilder, KeepsEveryWaitWhateverTheirNumber) {
  for (const uint32_t count : {65'535u, 65'536u, 200'000u}) {
    std::vector<Wait> waits;
    for (uint32_t i = 0; i < count; ++i) waits.push_back({i / 3, i % 3, i + 1});
    const Post post{1, 2, 3};
    RankBuilder builder(0, 2);
    builder.add({.queue = 1, .waits = waits, .posts = {&post, 1}});
    const RankPlan part = builder.finish();
    ASSERT_EQ(part.queues[1].task_count, (count + 65'534) / 65'535);
    uint32_t seen = 0, posts = 0;
    for (const Task& task : part.tasks) {
      for (const Wait& wait : part.waits_of(task)) ASSERT_EQ(wait.target, ++seen);
      posts += task.post_count;
      EXPECT_TRUE(posts == 0 || seen == count);  // It tells nobody before.
    }
    EXPECT_EQ(seen, count);
    EXPECT_EQ(posts, 1u);
  }
}

}  // namespace
}  // namespace sk
