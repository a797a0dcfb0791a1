// fuzz_abi MAP --sk PROGRAM --rank PROGRAM [--seconds N | --calls N] [--seed S]
//
// Calls every function of the C ABI with hostile arguments: on one, two and four threads, then with
// all that is freed and finalized, and in processes forked in the middle of it. A crash, a call
// that does not end, and a byte written outside end the program with a sentence that names function
// and seed. MAP is the linker's list of exported symbols: one that has no entry here fails.
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "tests/fuzz/abi/fuzz.h"

namespace sk::fuzz_abi {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kHangNs = 120'000'000'000;  // Longest bounded wait: 10 s, on a loaded machine.
constexpr unsigned kChildSeconds = 240;

// Of --seed, else of SK_TEST_SEED, else fresh.
uint64_t seed = std::getenv("SK_TEST_SEED") != nullptr
                    ? std::strtoull(std::getenv("SK_TEST_SEED"), nullptr, 10)
                    : std::random_device()();
thread_local Caller* caller = nullptr;  // Of this thread, for the handler below.

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

extern "C" void say_where(int number) {
  char text[256];
  const int bytes = std::snprintf(text, sizeof text, "fuzz_abi: signal %d inside %s, seed %llu\n",
                                  number, caller == nullptr ? "?" : caller->call.load(),
                                  static_cast<unsigned long long>(seed));
  (void)!write(STDERR_FILENO, text, size_t(bytes));
  void* frames[48];
  backtrace_symbols_fd(frames, backtrace(frames, int(std::size(frames))), STDERR_FILENO);
  signal(number, SIG_DFL);
  raise(number);
}

struct Options {
  const char* map = nullptr;
  const char* sk_program = nullptr;
  const char* rank = nullptr;
  double seconds = 10;
  uint64_t calls = 0;  // Instead of a time.
};

std::vector<Function> all_functions() {
  std::vector<Function> all = base_functions();
  for (const auto* more : {&call_functions(), &op_functions(), &session_functions(),
                           &tile_functions(), &worker_functions()})
    all.insert(all.end(), more->begin(), more->end());
  return all;
}

// The list that the linker has, against the one above.
void check_complete(const char* map, const std::vector<Function>& functions) {
  std::ifstream file(map);
  std::vector<std::string> exported, known;
  for (std::string line; std::getline(file, line);) {
    const size_t from = line.find("sk_"), to = line.find(';');
    if (line.starts_with("    sk_") && to != std::string::npos)
      exported.push_back(line.substr(from, to - from));
  }
  for (const Function& each : functions) known.emplace_back(each.name);
  std::sort(exported.begin(), exported.end());
  std::sort(known.begin(), known.end());
  if (exported.empty()) fail(std::string(map) + " names no symbols");
  std::vector<std::string> missing;
  std::set_symmetric_difference(exported.begin(), exported.end(), known.begin(), known.end(),
                                std::back_inserter(missing));
  if (!missing.empty())
    fail(missing[0] + " is exported and not fuzzed, or the other way round: see tests/fuzz/abi");
}

class Fuzzer {
 public:
  explicit Fuzzer(const Options& options) : options_(options), functions_(all_functions()) {
    check_complete(options.map, functions_);
    for (size_t i = 0; i < functions_.size(); ++i)
      for (uint32_t n = 0; n < functions_[i].weight; ++n) dice_.push_back(i);
    counts_ = std::vector<std::atomic<uint64_t>>(functions_.size());
  }

  void run() {
    std::thread watchdog([this] { watch(); });
    sk_context* first = nullptr;  // From here on a forked child is one.
    if (sk_init(nullptr, &first) != SK_OK) fail(sk_last_error());
    pool_.add(kContext, {first});
    for (const int threads : {1, 2, 4}) {
      open_session(pool_, options_.sk_program, options_.rank);
      join_worker(pool_);
      run_threads(threads, 0.3);
      free_all(pool_);
      run_threads(threads, 0.03);  // With handles that were all freed, and a few new ones.
      free_all(pool_);
    }
    {
      const std::lock_guard lock(callers_mutex_);
      over_ = true;
    }
    ended_.notify_all();
    watchdog.join();
    report();
  }

 private:
  void step(Caller& c, bool forked) {
    const Function& function = functions_[dice_[c.random.below(dice_.size())]];
    if (forked && !function.after_fork) return;
    c.call = function.name;
    c.since_ns = now_ns();
    function.call(c);
    c.since_ns = 0;
    ++counts_[size_t(&function - functions_.data())];
  }

  // `share` of the whole: calls or time.
  void run_threads(int threads, double share) {
    const auto until = Clock::now() + std::chrono::duration<double>(options_.seconds * share);
    const auto each = uint64_t(double(options_.calls) * share / threads) + 1;
    std::vector<std::thread> all;
    std::atomic<int> running{threads};
    for (int i = 0; i < threads; ++i) {
      Caller& mine = add_caller();
      all.emplace_back([&, until] {
        caller = &mine;
        while (options_.calls != 0 ? mine.calls < each : Clock::now() < until) step(mine, false);
        --running;
      });
    }
    int forks = 0;
    do fork_once();  // Beside them, wherever they are.
    while (++forks < 3 && running > 0);
    for (std::thread& thread : all) thread.join();
    fork_once();
  }

  void fork_once() {
#if defined(__SANITIZE_ADDRESS__)
    return;  // Its heap hangs in a child where another thread was in it.
#endif
    const pid_t child = pool_.fork_process();
    if (child < 0) fail("fork failed");
    if (child == 0) {
      alarm(kChildSeconds);  // The watchdog is not here.
      Caller mine(pool_, seed ^ 0xf0f0);
      caller = &mine;
      sk_comm* comm = nullptr;
      if (sk_comm_self(nullptr, &comm) != SK_ERR_FORKED) fail("a forked child is none");
      for (int i = 0; i < 500; ++i) step(mine, true);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) fail("a forked child was lost");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail("a forked child ended with wait status " + std::to_string(status));
  }

  Caller& add_caller() {
    const std::lock_guard lock(callers_mutex_);
    return *callers_.emplace_back(std::make_unique<Caller>(pool_, seed + callers_.size()));
  }

  void watch() {
    std::unique_lock lock(callers_mutex_);
    while (!ended_.wait_for(lock, std::chrono::milliseconds(100), [&] { return over_; })) {
      for (const auto& each : callers_) {
        const int64_t since = each->since_ns;
        if (since != 0 && now_ns() - since > kHangNs)
          fail(std::string(each->call.load()) + " does not end");
      }
    }
  }

  void report() const {
    uint64_t calls = 0, refused = 0;
    for (const auto& each : callers_) {
      calls += each->calls;
      refused += each->refused;
    }
    for (size_t i = 0; i < functions_.size(); ++i)
      if (counts_[i] == 0 && calls > 20'000)
        fail(std::string(functions_[i].name) + " was not called");
    std::printf("%llu calls of %zu functions, %llu refused, seed %llu: nothing found\n",
                static_cast<unsigned long long>(calls), functions_.size(),
                static_cast<unsigned long long>(refused), static_cast<unsigned long long>(seed));
  }

  const Options options_;
  const std::vector<Function> functions_;
  std::vector<size_t> dice_;
  std::vector<std::atomic<uint64_t>> counts_;
  Pool pool_;
  std::mutex callers_mutex_;
  std::deque<std::unique_ptr<Caller>> callers_;
  bool over_ = false;
  std::condition_variable ended_;
};

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz_abi: %s (seed %llu)\n", what.c_str(),
               static_cast<unsigned long long>(seed));
  std::abort();
}

void free_all(Pool& pool) {
  Random random(1);
  const auto free_kind = [&](Kind kind, auto free) {
    while (void* handle = pool.live(random, kind).value) {
      const sk_status status = free(handle);
      if (status != SK_OK) fail(std::string("freeing what is alive: ") + sk_last_error());
      pool.drop(kind, handle);
    }
  };
  free_kind(kSession, [](void* h) { return sk_session_close(static_cast<sk_session*>(h)); });
  free_kind(kWorker, [](void* h) { return sk_worker_leave(static_cast<sk_worker*>(h)); });
  free_kind(kOp, [](void* h) { return sk_op_free(static_cast<sk_op*>(h)); });
  free_kind(kPlan, [](void* h) { return sk_plan_free(static_cast<sk_plan*>(h)); });
  free_kind(kPacked, [](void* h) { return sk_packed_free(static_cast<sk_packed*>(h)); });
  free_kind(kTopo, [](void* h) { return sk_topo_free(static_cast<sk_topo*>(h)); });
  free_kind(kComm, [](void* h) { return sk_comm_free(static_cast<sk_comm*>(h)); });
  free_kind(kContext, [](void* h) { return sk_finalize(static_cast<sk_context*>(h)); });
}

}  // namespace sk::fuzz_abi

int main(int argc, char** argv) {
  using namespace sk::fuzz_abi;  // NOLINT(google-build-using-namespace): this is its program.
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) signal(number, say_where);
  for (const char* name : {"RANK", "WORLD_SIZE", "SK_WORKER_FD", "SK_TEMPLATE_FD"}) unsetenv(name);
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    if (!word.starts_with("--")) {
      options.map = argv[i];
      continue;
    }
    ++i;
    if (word == "--sk") options.sk_program = next;
    if (word == "--rank") options.rank = next;
    if (word == "--seconds") options.seconds = std::atof(next);
    if (word == "--calls") options.calls = std::strtoull(next, nullptr, 10);
    if (word == "--seed") seed = std::strtoull(next, nullptr, 10);
  }
  if (options.map == nullptr || options.sk_program == nullptr || options.rank == nullptr) {
    std::fprintf(stderr,
                 "usage: %s MAP --sk PROGRAM --rank PROGRAM [--seconds N | --calls N] [--seed S]\n",
                 argv[0]);
    return 2;
  }
  Fuzzer(options).run();
  return 0;
}
