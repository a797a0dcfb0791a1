// A bootstrap through memory that all ranks share: threads, or processes that map the same.
//
// For tests only: it waits by yielding, and a rank that never comes is simply never started.
#ifndef SK_TESTS_SUPPORT_MEM_BOOTSTRAP_H_
#define SK_TESTS_SUPPORT_MEM_BOOTSTRAP_H_

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "transport/bootstrap/bootstrap.h"

namespace sk::testing_support {

inline constexpr size_t kMeetingRanksMax = 32;
inline constexpr size_t kMeetingBytesMax = 1024;

struct Meeting {
  struct Place {
    std::atomic<uint32_t> round;  // How many gatherings this rank has brought its blob to.
    // By parity: a rank brings the next blob only once it has seen all of this round.
    std::array<std::array<std::byte, kMeetingBytesMax>, 2> blob;
  };
  std::array<Place, kMeetingRanksMax> places;
};

struct MeetingDeleter {
  void operator()(Meeting* meeting) const { munmap(meeting, sizeof(Meeting)); }
};
using MeetingPtr = std::unique_ptr<Meeting, MeetingDeleter>;

// Null where there is no memory for it.
inline MeetingPtr make_meeting() {
  void* memory =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return MeetingPtr(memory == MAP_FAILED ? nullptr : new (memory) Meeting());
}

class MemBootstrap final : public Bootstrap {
 public:
  MemBootstrap(Meeting& meeting, int rank, int world_size)
      : Bootstrap(rank, world_size), meeting_(meeting) {}

  Result<std::vector<std::byte>> allgather(std::span<const std::byte> mine,
                                           int64_t timeout_ns) override {
    if (mine.size() > kMeetingBytesMax) {
      return error(SK_ERR_INVALID_ARGUMENT, "{} bytes to gather; {} at most", mine.size(),
                   kMeetingBytesMax);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
    ++round_;
    Meeting::Place& own = meeting_.places[rank()];
    memcpy(own.blob[round_ & 1].data(), mine.data(), mine.size());
    own.round.store(round_, std::memory_order_release);
    std::vector<std::byte> all;
    for (int r = 0; r < world_size(); ++r) {
      Meeting::Place& place = meeting_.places[r];
      while (place.round.load(std::memory_order_acquire) < round_) {
        if (std::chrono::steady_clock::now() > deadline) {
          return error(SK_ERR_TIMEOUT, "rank {} did not come", r);
        }
        sched_yield();
      }
      const auto& blob = place.blob[round_ & 1];
      all.insert(all.end(), blob.begin(), blob.begin() + mine.size());
    }
    return all;
  }

 private:
  Meeting& meeting_;
  uint32_t round_ = 0;
};

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_MEM_BOOTSTRAP_H_
