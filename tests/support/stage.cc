#include "tests/support/stage.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

extern char** environ;

namespace sk::testing_support {
namespace {

using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);
constexpr int kStageFd = 100;  // Where a stage's process finds its memory.

StageMemory* map_stage(int fd) {
  void* memory = mmap(nullptr, sizeof(StageMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<StageMemory*>(memory);
}

void run_rank(const StageSpec& spec, StageMemory& memory, uint32_t rank, const Connect& connect) {
  const Result<RankBody> body = body_of(spec.body);
  MemBootstrap bootstrap(memory.meeting, static_cast<int>(rank), static_cast<int>(spec.ranks));
  RankContext context = {spec, memory, rank, bootstrap, connect};
  const Status status = body.ok() ? body.value()(context) : body.status().clone();
  StageMemory::Rank& own = memory.ranks[rank];
  own.code = status.code();
  snprintf(own.message.data(), own.message.size(), "%s", status.message().c_str());
  own.ended.store(1, std::memory_order_release);
}

void run_ranks(const StageSpec& spec, StageMemory& memory, const std::vector<uint32_t>& ranks,
               const Connect& connect) {
  std::vector<std::thread> threads;
  for (size_t i = 1; i < ranks.size(); ++i) {
    threads.emplace_back([&, rank = ranks[i]] { run_rank(spec, memory, rank, connect); });
  }
  run_rank(spec, memory, ranks[0], connect);
  for (std::thread& thread : threads) thread.join();
}

// Without pidfds it waits for as long as the process's own waits last.
void reap(pid_t process, steady_clock::time_point deadline) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (pidfd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd entry = {.fd = pidfd, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) == 0) {
      kill(process, SIGKILL);
    }
    close(pidfd);
  }
  waitpid(process, nullptr, 0);
}

std::vector<uint32_t> ranks_of(const StageSpec& spec, uint32_t index) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = index; rank < spec.ranks; rank += spec.processes) ranks.push_back(rank);
  return ranks;
}

std::vector<std::string> words_of(const StageSpec& spec, uint32_t index) {
  std::vector<std::string> words = {"rank",
                                    "--sk_stage",
                                    spec.backend,
                                    spec.body,
                                    std::to_string(spec.ranks),
                                    std::to_string(spec.processes),
                                    std::to_string(index),
                                    std::to_string(spec.seed)};
  for (const uint64_t number : spec.numbers) words.push_back(std::to_string(number));
  return words;
}

}  // namespace

Status RankContext::wait_until(Endpoint& endpoint, const std::function<bool()>& done) const {
  const auto deadline = steady_clock::now() + kPatience;
  for (;;) {
    for (int spin = 0; spin < 16; ++spin) {
      if (done()) return {};
      sched_yield();
    }
    SK_RETURN_IF_ERROR(endpoint.check());
    if (steady_clock::now() > deadline) {
      return error(SK_ERR_TIMEOUT, "rank {} waited for a minute in {}", rank, spec.body);
    }
  }
}

Status RankContext::barrier(Endpoint& endpoint) const {
  const uint64_t phase = own().phase.load(std::memory_order_relaxed) + 1;
  own().phase.store(phase, std::memory_order_release);
  return wait_until(endpoint, [&] {
    return std::all_of(memory.ranks.begin(), memory.ranks.begin() + spec.ranks, [&](auto& peer) {
      return peer.phase.load(std::memory_order_acquire) >= phase;
    });
  });
}

Stage::Stage(StageSpec spec) : spec_(std::move(spec)) {}

Stage::~Stage() {
  if (!joins_.empty() || !processes_.empty()) join();
  if (memory_ != nullptr) munmap(memory_, sizeof(StageMemory));
  if (fd_ >= 0) close(fd_);
}

Status Stage::start() {
  fd_ = memfd_create("sk-stage", MFD_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, sizeof(StageMemory)) != 0) {
    return system_error("cannot make a stage");
  }
  memory_ = map_stage(fd_);
  if (memory_ == nullptr) return system_error("cannot map a stage");
  if (spec_.processes != 0) {
    for (uint32_t index = 0; index < spec_.processes; ++index) SK_RETURN_IF_ERROR(spawn(index));
    return {};
  }
  SK_ASSIGN_OR_RETURN(Connect connect, connect_of(spec_));
  std::vector<uint32_t> ranks(spec_.ranks);
  for (uint32_t rank = 0; rank < spec_.ranks; ++rank) ranks[rank] = rank;
  auto thread = std::make_shared<std::thread>(
      [this, ranks, connect] { run_ranks(spec_, *memory_, ranks, connect); });
  joins_.push_back([thread] { thread->join(); });
  return {};
}

Status Stage::spawn(uint32_t index) {
  std::vector<std::string> words = words_of(spec_, index);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fd_, kStageFd);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    errno = failed;
    return system_error("cannot start a rank's process");
  }
  processes_.push_back(process);
  return {};
}

std::vector<RankEnd> Stage::join() {
  for (const auto& join : std::exchange(joins_, {})) join();
  const auto deadline = steady_clock::now() + 2 * kPatience;
  for (const pid_t process : std::exchange(processes_, {})) reap(process, deadline);
  std::vector<RankEnd> ends(spec_.ranks);
  for (uint32_t rank = 0; memory_ != nullptr && rank < spec_.ranks; ++rank) {
    const StageMemory::Rank& from = memory_->ranks[rank];
    ends[rank].ended = from.ended.load(std::memory_order_acquire) != 0;
    if (ends[rank].ended) ends[rank] = {true, from.code, from.message.data()};
  }
  return ends;
}

bool run_as_stage_process(int argc, char** argv, int& exit_code) {
  if (argc != 12 || strcmp(argv[1], "--sk_stage") != 0) return false;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // A test that is stopped leaves no ranks behind.
  StageSpec spec = {.backend = argv[2], .body = argv[3]};
  spec.ranks = static_cast<uint32_t>(std::stoul(argv[4]));
  spec.processes = static_cast<uint32_t>(std::stoul(argv[5]));
  const auto index = static_cast<uint32_t>(std::stoul(argv[6]));
  spec.seed = std::stoull(argv[7]);
  for (size_t i = 0; i < spec.numbers.size(); ++i) spec.numbers[i] = std::stoull(argv[8 + i]);
  StageMemory* memory = map_stage(kStageFd);
  const Result<Connect> connect = connect_of(spec);
  exit_code = memory != nullptr && connect.ok() ? 0 : 1;
  if (exit_code == 0) run_ranks(spec, *memory, ranks_of(spec, index), connect.value());
  return true;
}

namespace {

size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace

size_t open_descriptors() { return entries_of("/proc/self/fd"); }
size_t threads() { return entries_of("/proc/self/task"); }

size_t mapped_segments() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    for (const char* name : {"memfd:sk-segment", "memfd:sk-control"})
      count += line.find(name) != std::string::npos ? 1 : 0;
  }
  return count;
}

}  // namespace sk::testing_support
