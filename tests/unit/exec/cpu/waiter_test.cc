// Waits: what is waited for may do something, and is not asked again once it has said that it is
// there.
#include "lib/exec/cpu/waiter.h"

#include <gtest/gtest.h>

#include "tests/support/mem_bootstrap.h"
#include "transport/shm/shm.h"

namespace sk::cpu {
namespace {

TEST(Waiter, AsksNoMoreOnceItIsReady) {
  testing_support::MeetingPtr meeting = testing_support::make_meeting();
  ASSERT_NE(meeting, nullptr);
  SegmentLayout layout;
  layout.workspace_bytes_max = 4096;
  testing_support::MemBootstrap bootstrap(*meeting, 0, 1);
  Result<std::unique_ptr<Endpoint>> endpoint = connect_shm(bootstrap, layout, {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status().message();
  for (const bool drives : {false, true}) {
    // At each of its looks in turn, while it spins, yields and sleeps.
    for (uint32_t at = 1; at < 60; ++at) {
      uint32_t asked = 0, behind = 0;
      const auto ready = [&] {
        behind += asked >= at ? 1 : 0;
        return ++asked == at;
      };
      Waiter waiter(**endpoint, 4, drives);
      ASSERT_TRUE(waiter.wait(ready, 20'000'000'000).ok());
      EXPECT_EQ(asked, at);
      EXPECT_EQ(behind, 0u);
    }
  }
}

}  // namespace
}  // namespace sk::cpu
