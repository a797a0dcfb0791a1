// Where pages are larger than the 4 KiB that memory is counted in: linked with large_pages.cc.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "sk.h"
#include "tests/multi/thread_ranks.h"

namespace sk::testing_ops {
namespace {

void* program() {
  Dl_info here = {};
  return dladdr(reinterpret_cast<void*>(&program), &here) != 0 ? here.dli_fbase : nullptr;
}

TEST(LargePages, AreWhatTheLibraryHas) {
  EXPECT_EQ(sysconf(_SC_PAGESIZE), 64 << 10);
  for (const char* name : {"mmap", "mprotect", "munmap", "madvise", "sysconf"}) {
    Dl_info where = {};
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, name), &where), 0) << name;
    EXPECT_EQ(where.dli_fbase, program()) << name << " is that of " << where.dli_fname;
  }
}

// Sixteen share a page: what is given back is zero when it is taken again, and its neighbours keep
// what they have.
TEST(LargePages, HoldPiecesOfMemoryThatComeAndGoByThemselves) {
  constexpr size_t kPieces = 40, kBytes = 4096;
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    const auto mark = [&](size_t piece) {
      return static_cast<unsigned char>(2 * piece + rank + 1);
    };
    std::vector<void*> pieces(kPieces);
    const auto take = [&](size_t piece) {
      ASSERT_EQ(sk_alloc(comm, kBytes, &pieces[piece]), SK_OK) << sk_last_error();
      const auto* bytes = static_cast<unsigned char*>(pieces[piece]);
      for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(bytes[i], 0) << "piece " << piece;
      std::memset(pieces[piece], mark(piece), kBytes);
    };
    for (size_t piece = 0; piece < kPieces; ++piece) take(piece);
    for (size_t piece = 1; piece < kPieces; piece += 3)
      ASSERT_EQ(sk_free(comm, pieces[piece]), SK_OK) << sk_last_error();
    for (size_t piece = 1; piece < kPieces; piece += 3) take(piece);
    for (size_t piece = 0; piece < kPieces; ++piece) {
      const auto* bytes = static_cast<unsigned char*>(pieces[piece]);
      for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(bytes[i], mark(piece)) << "piece " << piece;
      ASSERT_EQ(sk_free(comm, pieces[piece]), SK_OK) << sk_last_error();
    }
  });
}

TEST(LargePages, CarryCallsOfAllSizes) {
  in_thread_ranks(2, [](sk_comm* comm, int rank) {
    for (const size_t count : {1, 1000, 40'000, 1'000'000}) {
      std::vector<float> data(count, float(rank + 1));
      ASSERT_EQ(
          sk_allreduce(comm, data.data(), data.data(), int64_t(count), SK_F32, SK_SUM, nullptr),
          SK_OK)
          << sk_last_error();
      for (const float each : data) ASSERT_EQ(each, 3.0f);
    }
  });
}

}  // namespace
}  // namespace sk::testing_ops
