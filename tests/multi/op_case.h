// One rank's part of a row of random operations through the C ABI, each held against the oracle.
//
// Ranks drift: nothing holds them together but the operations, each dawdles now and then by itself,
// and inputs are overwritten as soon as a call returns. What is wrong comes back as a sentence, so
// that a rank may be a thread of a test or a process of its own.
#ifndef SK_TESTS_MULTI_OP_CASE_H_
#define SK_TESTS_MULTI_OP_CASE_H_

#include <array>
#include <atomic>
#include <functional>
#include <random>
#include <string>

#include "tests/multi/oracle.h"

namespace sk::testing_ops {

inline constexpr int kRanksMax = 16;

// Memory that all ranks share, beside the library: who has come to how many barriers.
struct Arrivals {
  std::array<std::atomic<uint64_t>, kRanksMax> came{};
};

// A GPU that all ranks share, and memory on it that is not of sk_alloc().
struct Gpu {
  int32_t id = 0;
  std::function<void*(size_t bytes)> take;
  std::function<void(void*)> give_back;
  std::function<void*(int rank)> stream;
  // Copies to and from its memory, done when they return. Null: the host reaches that memory.
  using Copy = std::function<void(void* to, const void* from, size_t bytes, void* stream)>;
  Copy upload = nullptr, download = nullptr;
};

struct Row {
  int ranks = 1;
  int cases = 1;
  uint64_t seed = 1;
  uint32_t flags = 0;  // enum sk_comm_flags.
  int workers = 1;
  bool large = false;  // Cases that several workers of a rank share.
  // Each rank has its own workers, CPUs, flags and, as a process, instruction set; by seed. Of
  // cases that are not large every operation has its turn.
  bool uneven = false;
  // Instead of random_case(), where ranks are threads; the same at each.
  std::function<Case(std::mt19937_64& random, int turn)> draw = nullptr;
  int64_t timeout_ms = 60'000;
  const Gpu* gpu = nullptr;  // Null: the ranks are on the CPU.
};

// What rank 0 does beside each case, once its call has returned.
using Beside = std::function<std::string(sk_comm*, const Case&)>;

// Runs the row as `rank`, a thread of this process; or as the rank that the environment says this
// process is, where `rank` is kFromEnvironment. "" if all is well. A rank that finds something
// wrong aborts the communicator.
inline constexpr int kFromEnvironment = -1;
std::string run_row(sk_context* context, const Row& row, int rank, Arrivals& arrivals,
                    const Beside& beside = nullptr);

// The row with all its ranks as threads: the sentences of those that found something wrong, those
// that were only told of it left out.
std::string run_threads(const Row& row, const Beside& beside = nullptr);

std::string describe(const Case& c);

// What every rank gives: inputs, or where `weights` the B of a GEMM. Each one byte longer than its
// elements, so that no pointer is null.
std::vector<std::vector<char>> make_inputs(const Case& c, int ranks, bool weights);

// "" if `out` holds `want`, bit for bit.
std::string first_difference(const Case& c, const char* out, const std::vector<double>& want);

// SK_TEST_SEED, or a fresh seed.
uint64_t base_seed();

}  // namespace sk::testing_ops

#endif  // SK_TESTS_MULTI_OP_CASE_H_
