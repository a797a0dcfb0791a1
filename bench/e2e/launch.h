// Starts the ranks of one launch as forked processes that share an area, and a communicator on
// them.
#ifndef SK_BENCH_E2E_LAUNCH_H_
#define SK_BENCH_E2E_LAUNCH_H_

#include <functional>

#include "bench/e2e/harness.h"
#include "sk.h"

namespace sk_bench {

// Forks `ranks` children that each run `body` and exit with its value. Kills the rest when one
// fails. Returns 0, or the first failing child's exit code. Call before any sk_init().
int run_ranks(int ranks, const std::function<int(bench_world*)>& body);

// Memory that every rank maps; call before run_ranks(). Ends the process when there is none.
void* shared_memory(size_t bytes);

// A context and a communicator over all ranks of `world`, connected through the area. Ends the
// process with libsk's sentence when that fails.
struct Session {
  Session(bench_world* world, uint32_t flags);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
};

// The same of this rank alone.
struct Alone {
  explicit Alone(bench_world* world);
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  sk_context* context = nullptr;
  sk_comm* comm = nullptr;
};

// Ends the process with libsk's sentence unless `status` is SK_OK.
void must(bench_world* world, sk_status status, const char* what);

}  // namespace sk_bench

#endif  // SK_BENCH_E2E_LAUNCH_H_
