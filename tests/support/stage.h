// A stage for ranks: starts a world as threads, as processes, or as processes of several threads,
// lets every rank run one body, and collects how each ended.
//
// Processes are the test program itself, executed anew with --sk_stage: what a body needs comes by
// its name, the seed and four numbers. The stage's memory outlives killed ranks.
#ifndef SK_TESTS_SUPPORT_STAGE_H_
#define SK_TESTS_SUPPORT_STAGE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tests/support/mem_bootstrap.h"
#include "transport/session.h"

namespace sk::testing_support {

// All ranks' common ground. Plain data in shared memory.
struct StageMemory {
  Meeting meeting;
  struct Rank {
    std::atomic<uint64_t> progress;  // What a body counts, for whoever wants to interrupt it.
    std::atomic<uint64_t> phase;     // Of RankContext::barrier().
    std::atomic<uint32_t> flag;      // For a body's own use.
    std::atomic<uint32_t> ended;     // 1 once code and message are there.
    int32_t code;
    std::array<char, 500> message;
  };
  std::array<Rank, kMeetingRanksMax> ranks;
};

struct StageSpec {
  std::string backend;  // Names in the tables of the test program.
  std::string body;
  uint32_t ranks = 2;
  uint32_t processes = 0;  // 0: threads of this process. Else rank r is in process r % processes.
  uint64_t seed = 1;
  std::array<uint64_t, 4> numbers = {};
};

using Connect = std::function<Result<std::unique_ptr<Endpoint>>(Bootstrap&, const SegmentLayout&)>;

struct RankContext {
  const StageSpec& spec;
  StageMemory& memory;
  uint32_t rank;
  Bootstrap& bootstrap;
  const Connect& connect;

  StageMemory::Rank& own() const { return memory.ranks[rank]; }
  // Yields and calls endpoint.check() until `done`, a minute at most.
  Status wait_until(Endpoint& endpoint, const std::function<bool()>& done) const;
  // Of all ranks. It goes through the stage, not the sessions, but drives and checks them.
  Status barrier(Endpoint& endpoint) const;
};
using RankBody = std::function<Status(RankContext&)>;

struct RankEnd {
  bool ended = false;  // False: killed, or never connected.
  int32_t code = SK_OK;
  std::string message;
};

class Stage {
 public:
  explicit Stage(StageSpec spec);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Starts all ranks; an error when there is no memory or process for them.
  Status start();
  // Waits until all have ended and been reaped; the processes that live after two minutes are
  // killed, and show as not ended.
  std::vector<RankEnd> join();

  StageMemory& memory() { return *memory_; }
  pid_t process_of(uint32_t rank) const { return processes_[rank % spec_.processes]; }

 private:
  Status spawn(uint32_t index);

  StageSpec spec_;
  int fd_ = -1;
  StageMemory* memory_ = nullptr;
  std::vector<std::function<void()>> joins_;
  std::vector<pid_t> processes_;
};

// The test program's tables.
Result<Connect> connect_of(const StageSpec& spec);
Result<RankBody> body_of(const std::string& name);

// Runs this process's ranks where argv says it is one of a stage's; false where it says nothing.
bool run_as_stage_process(int argc, char** argv, int& exit_code);

size_t open_descriptors();  // Of this process.
size_t threads();           // Of this process.
size_t mapped_segments();   // Mappings of shared-memory segments in this process.

}  // namespace sk::testing_support

#endif  // SK_TESTS_SUPPORT_STAGE_H_
