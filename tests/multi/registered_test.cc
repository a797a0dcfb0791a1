// Memory of the caller's that is made symmetric by sk_register().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Puts reach segments alone, so registered memory is staged like any other.
TEST(RegisteredMemory, IsOrdinaryWhereNothingIsMapped) {
  in_thread_ranks(
      3,
      [](sk_comm* comm, int rank) {
        std::vector<float> data(5000, float(rank + 1));
        ASSERT_EQ(sk_register(comm, data.data(), data.size() * 4), SK_OK) << sk_last_error();
        ASSERT_EQ(sk_allreduce(comm, data.data(), data.data(), 5000, SK_F32, SK_SUM, nullptr),
                  SK_OK)
            << sk_last_error();
        for (const float each : data) ASSERT_EQ(each, 6.0f);
        EXPECT_EQ(sk_deregister(comm, data.data()), SK_OK) << sk_last_error();
      },
      [](sk_comm_config& config) { config.flags = SK_COMM_PUT_ONLY; });
}

constexpr int64_t kCount = 4096;  // Elements of f32, of each half.

struct Range {
  const char* what;
  int64_t first, bytes;  // From the middle of the memory; its first half is registered.
  const char* sentence;
};

// Two owners of one address would hide each other: operands in the larger were not found symmetric.
TEST(RegisteredMemory, ThatIsSymmetricAlreadyIsRefused) {
  const Range refused[] = {
      {"the same", -kCount * 4, kCount * 4, "overlap the 16384 bytes at "},
      {"its end", -4, 8, "overlap"},
      {"its middle", -kCount * 2, 16, "overlap"},
      {"around it", -kCount * 4 - 64, kCount * 4 + 128, "overlap"},
      {"its start", -kCount * 4 - 64, 65, "overlap"},
      {"everything", 0, -1, "reach beyond the address space"},
  };
  in_thread_ranks(2, [&](sk_comm* comm, int) {
    std::vector<float> data(kCount * 2 + 32, 1.0f);
    auto* middle = reinterpret_cast<std::byte*>(data.data() + 16 + kCount);
    ASSERT_EQ(sk_register(comm, middle - kCount * 4, kCount * 4), SK_OK) << sk_last_error();
    for (const Range& range : refused) {
      EXPECT_EQ(sk_register(comm, middle + range.first, uint64_t(range.bytes)),
                SK_ERR_INVALID_ARGUMENT)
          << range.what;
      EXPECT_THAT(sk_last_error(), HasSubstr(range.sentence)) << range.what;
    }
    EXPECT_EQ(sk_register(comm, middle, kCount * 4), SK_OK) << sk_last_error();  // Side by side.
    EXPECT_EQ(sk_register(comm, middle - kCount * 4 - 64, 64), SK_OK) << sk_last_error();
    for (int half = 0; half < 2; ++half) {
      float* values = data.data() + 16 + half * kCount;
      ASSERT_EQ(sk_allreduce(comm, values, values, kCount, SK_F32, SK_SUM, nullptr), SK_OK)
          << sk_last_error();
    }
    for (int64_t i = 0; i < int64_t(data.size()); ++i) {
      const bool is_in = i >= 16 && i < 16 + 2 * kCount;
      ASSERT_EQ(data[size_t(i)], is_in ? 2.0f : 1.0f) << i;
    }
    for (std::byte* memory : {middle, middle - kCount * 4 - 64, middle - kCount * 4}) {
      EXPECT_EQ(sk_deregister(comm, memory), SK_OK) << sk_last_error();
    }
  });
}

TEST(RegisteredMemory, OfTheSymmetricHeapIsRefused) {
  in_thread_ranks(2, [](sk_comm* comm, int) {
    void* memory = nullptr;
    ASSERT_EQ(sk_alloc(comm, 8192, &memory), SK_OK) << sk_last_error();
    EXPECT_EQ(sk_register(comm, static_cast<std::byte*>(memory) + 64, 64), SK_ERR_INVALID_ARGUMENT);
    EXPECT_THAT(sk_last_error(), AllOf(HasSubstr("64 bytes at "), HasSubstr("sk_alloc() gives")));
    EXPECT_EQ(sk_free(comm, memory), SK_OK) << sk_last_error();
  });
}

}  // namespace
}  // namespace sk::testing_ops
