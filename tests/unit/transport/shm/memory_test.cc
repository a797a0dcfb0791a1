#include "transport/shm/memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "transport/session.h"
#include "transport/shm/control.h"
#include "transport/shm/published.h"

namespace sk::shm {
namespace {

// More than a machine has. ThreadSanitizer leaves a process less address space.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kHeap = 1ull << 39;
#else
constexpr uint64_t kHeap = 1ull << 40;
#endif
constexpr SegmentLayout kLayout = {.world_size = 3,
                                   .signal_count_max = 100,
                                   .workspace_bytes_max = 5'000'000,
                                   .heap_bytes_max = kHeap};

constexpr auto kHuge = SharedMemory::Pages::kHuge;

auto make_segment() { return SharedMemory::create(kLayout.bytes(), kHuge); }

uint64_t taken(const SharedMemory& memory) {
  struct stat info = {};
  EXPECT_EQ(fstat(memory.fd(), &info), 0);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

TEST(SegmentLayout, PartsFollowEachOtherAligned) {
  EXPECT_EQ(kLayout.entry_offset() % 64, 0u);
  EXPECT_GE(kLayout.entry_offset(), sizeof(RankHeader));
  EXPECT_GE(kLayout.signal_offset(),
            kLayout.entry_offset() + 3 * kEntryLaneCount * 2 * sizeof(EntrySlot));
  EXPECT_GE(kLayout.control_bytes(), kLayout.signal_offset() + 100 * sizeof(SignalWord));
  EXPECT_EQ(kLayout.control_bytes() % 4096, 0u);
  EXPECT_EQ(kLayout.workspace_offset(), 0u);
  EXPECT_GE(kLayout.heap_offset(), kLayout.workspace_offset() + 5'000'000);
  EXPECT_EQ(kLayout.heap_offset() % (2 << 20), 0u);
  EXPECT_EQ(kLayout.bytes(), kLayout.heap_offset() + kHeap);
  EXPECT_GT(SegmentLayout{}.bytes(), 0u) << "nothing could not be mapped";
}

TEST(Control, BlocksLieBesideEachOther) {
  const uint64_t bytes = control_file_bytes(kLayout);
  const auto control = SharedMemory::create(bytes, SharedMemory::Pages::kSmall);
  ASSERT_TRUE(control.ok()) << control.status().message();
  const SharedMemory& memory = *control.value();
  std::byte* end = memory.base() + sizeof(HostHeader);
  for (uint32_t rank = 0; rank < kLayout.world_size; ++rank) {
    const ControlBlock block = control_block(memory, rank, kLayout);
    EXPECT_GE(reinterpret_cast<std::byte*>(block.header), end);
    EXPECT_GE(reinterpret_cast<std::byte*>(block.entries),
              reinterpret_cast<std::byte*>(block.header + 1));
    EXPECT_GE(block.signals,
              static_cast<void*>(block.entries + kLayout.world_size * kEntryLaneCount * 2));
    end = reinterpret_cast<std::byte*>(block.signals + kLayout.signal_count_max);
  }
  EXPECT_LE(end, memory.base() + bytes);
}

TEST(SharedMemory, TakesNoMoreThanIsCommitted) {
  const auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  SharedMemory& own = *segment.value();
  EXPECT_EQ(taken(own), 0u);
  const uint64_t at = kLayout.heap_offset() + kHeap / 2;
  constexpr uint64_t kBytes = 9 << 20;
  ASSERT_TRUE(own.commit(at, kBytes).ok());
  EXPECT_EQ(taken(own), kBytes);
  memset(own.base() + at, 0x5a, kBytes);
  ASSERT_TRUE(own.release(at, kBytes).ok());
  EXPECT_EQ(taken(own), 0u);
  ASSERT_TRUE(own.commit(at, kBytes).ok());
  for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(own.base()[at + i], std::byte{0});
}

TEST(SharedMemory, SaysWhenMemoryIsTooSmall) {
  const auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  const Status status = segment.value()->commit(kLayout.heap_offset(), kHeap);
  EXPECT_EQ(status.code(), SK_ERR_NO_MEMORY);
  EXPECT_NE(status.message().find(fmt::format("{} bytes of shared memory", kHeap)),
            std::string::npos)
      << status.message();
  EXPECT_EQ(taken(*segment.value()), 0u);
}

std::atomic<uint64_t> alarms;

TEST(SharedMemory, CommitsThoughSignalsInterrupt) {
  struct sigaction action = {};
  action.sa_handler = [](int) { alarms.fetch_add(1, std::memory_order_relaxed); };
  struct sigaction before = {};
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval every_ms = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_ms, nullptr), 0);
  const auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  alarms = 0;
  for (int i = 0; i < 100 && alarms < 20; ++i) {
    const Status status = segment.value()->commit(kLayout.heap_offset(), 64 << 20);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(segment.value()->release(kLayout.heap_offset(), 64 << 20).ok());
  }
  const itimerval never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  ASSERT_EQ(sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_GT(alarms.load(), 0u);
}

TEST(SharedMemory, CannotBeCutShortByAPeer) {
  const auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  EXPECT_NE(ftruncate(segment.value()->fd(), 4096), 0);
}

TEST(SharedMemory, RefusesAFileThatIsNotAsAgreed) {
  const uint64_t bytes = kLayout.bytes();
  Fd unsealed(memfd_create("sk-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(SharedMemory::attach(std::move(unsealed), bytes, kHuge).status().code(), SK_ERR_TRUST);
  const auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  const int fd = segment.value()->fd();
  EXPECT_EQ(SharedMemory::attach(Fd(dup(fd)), 2 * bytes, kHuge).status().code(), SK_ERR_TRUST);
  const auto attached = SharedMemory::attach(Fd(dup(fd)), bytes, kHuge);
  ASSERT_TRUE(attached.ok()) << attached.status().message();
  EXPECT_LT(attached.value()->fd(), 0) << "the mapping holds it";
}

// In a child: the limits do not come back.
template <typename Limit>
void expect_refused_under(Limit set_limit, const char* words) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    set_limit();
    const auto segment = make_segment();
    const std::string text =
        fmt::format("{} {}", segment.status().code(), segment.status().message());
    _exit(write(pipes[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  close(pipes[1]);
  char text[512] = {};
  EXPECT_GT(read(pipes[0], text, sizeof(text) - 1), 0);
  close(pipes[0]);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  EXPECT_EQ(std::string(text).substr(0, 3), fmt::format("{} ", int{SK_ERR_NO_MEMORY})) << text;
  EXPECT_NE(std::string(text).find(words), std::string::npos) << text;
}

TEST(SharedMemory, SaysWhichLimitStopsIt) {
  expect_refused_under(
      [] {
        const rlimit limit = {1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
      },
      "exceed the limit of file sizes, 1048576");
  expect_refused_under(
      [] {
        const rlimit limit = {3, 3};
        setrlimit(RLIMIT_NOFILE, &limit);
      },
      "cannot create a shared-memory file");
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // They need address space.
  expect_refused_under(
      [] {
        const rlimit limit = {64ull << 30, 64ull << 30};
        setrlimit(RLIMIT_AS, &limit);
      },
      "bytes of address space");
#endif
}

TEST(Published, IsFoundByItsSecretWhileItLives) {
  auto segment = make_segment();
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  auto secret = random_secret();
  auto other = random_secret();
  ASSERT_TRUE(secret.ok() && other.ok());
  {
    const Published published(*secret, {*segment, nullptr});
    EXPECT_EQ(Published::find(*secret).segment, *segment);
    EXPECT_EQ(Published::find(*secret).control, nullptr);
    EXPECT_EQ(Published::find(*other).segment, nullptr);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(Published::find(*secret).segment == nullptr ? 0 : 1);
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "a forked child found it";
  }
  EXPECT_EQ(Published::find(*secret).segment, nullptr);
}

}  // namespace
}  // namespace sk::shm
