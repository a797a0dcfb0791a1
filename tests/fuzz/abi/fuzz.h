// The fuzzer of the C ABI: what its threads share, and the table of what it calls.
//
// Every exported function has one entry, which makes up arguments, calls, and checks what can be
// checked: a code that there is, a sentence where it failed, nothing written outside. Handles are
// shared by all threads: alive, freed, of another kind, made up.
#ifndef SK_TESTS_FUZZ_ABI_FUZZ_H_
#define SK_TESTS_FUZZ_ABI_FUZZ_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "sk.h"
#include "tests/fuzz/abi/arguments.h"

namespace sk::fuzz_abi {

enum Kind : uint32_t { kContext, kComm, kPacked, kPlan, kTopo, kSession, kWorker, kOp, kKindCount };

struct Handle {
  void* value = nullptr;
  uint64_t in_bytes = 0, out_bytes = 0;  // Of a plan: what its runs read and write.
  int32_t operation = 0;                 // Of an sk_op: which it is of; 0: nobody knows.
};

// The handles of the process, by kind.
class Pool {
 public:
  void add(Kind kind, Handle handle);
  // One of `kind` that was alive a moment ago; null: none.
  Handle live(Random& random, Kind kind);
  // As a rule live(); else anything that no call of `kind` may take.
  Handle any(Random& random, Kind kind);
  // Was freed.
  void drop(Kind kind, void* value);
  size_t count(Kind kind);
  bool is_live(Kind kind, void* value);
  // Forks while no other thread holds the pool.
  pid_t fork_process();

 private:
  std::mutex mutex_;
  std::array<std::vector<Handle>, kKindCount> live_;
  std::array<std::array<Handle, 16>, kKindCount> freed_;
  std::array<size_t, kKindCount> freed_count_{};
};

// One thread of the fuzzer.
struct Caller {
  Caller(Pool& shared, uint64_t seed) : pool(shared), random(seed) {}

  template <typename T>
  T* handle(Kind kind) {
    return static_cast<T*>(pool.any(random, kind).value);
  }
  // The call's end: `status` and its sentence, and the memory that it was given.
  void check(sk_status status);
  // An operand of `bytes` with room for just that; rarely null or misaligned.
  void* operand(Guarded& memory, uint64_t bytes);

  Pool& pool;
  Random random;
  Guarded in{1 << 16}, out{1 << 16};
  std::string rooms[4];
  // What it is inside of since when, for the watchdog and for the sentence of a crash.
  std::atomic<const char*> call{""};
  std::atomic<int64_t> since_ns{0};
  uint64_t calls = 0, refused = 0;
};

struct Function {
  const char* name;
  uint32_t weight;  // How often, against the others'.
  bool after_fork;  // False: it needs what a fork may find locked, in libraries of others.
  void (*call)(Caller&);
};
const std::vector<Function>& base_functions();
const std::vector<Function>& call_functions();
const std::vector<Function>& op_functions();
const std::vector<Function>& session_functions();
const std::vector<Function>& tile_functions();
const std::vector<Function>& worker_functions();

// sk_call() of a tile that was registered, if that number is one's.
void call_tile(Caller& c);

// A session with one rank of the program `rank`, and this process as a rank of nobody's.
void open_session(Pool& pool, const char* sk_program, const char* rank);
void join_worker(Pool& pool);
// Frees all that is alive; what is left behind is a failure.
void free_all(Pool& pool);

}  // namespace sk::fuzz_abi

#endif  // SK_TESTS_FUZZ_ABI_FUZZ_H_
