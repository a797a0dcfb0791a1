// Runs a plan with the code as it is, and says what became of each process.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_WORLD_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_WORLD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tests/unit/transport/bootstrap/sim/plan.h"

namespace sk::sim {

// One call that a process made: all that wait are bounded.
struct Step {
  enum class What { kMeet, kGather, kConnect };
  What what = What::kMeet;
  int number = 0;  // Of gathers.
  int64_t timeout_ns = 0;
  int64_t began_ns = 0;
  int64_t ended_ns = -1;
  int32_t code = -1;
  std::string message = {};
  std::vector<std::byte> got = {};
};

struct Log {
  int64_t began_ns = -1;  // All by the simulation's clock, which begins at 0 here.
  int64_t ended_ns = -1;  // -1: it hangs.
  int64_t died_ns = -1;
  std::vector<Step> steps;
  std::vector<int> host_of;  // Of a meeting that went well,
  std::vector<int> left;     // as the launcher counts.
  size_t open = 0;           // Descriptors at its end.
};

struct Outcome {
  std::vector<Log> logs;  // By part.
  bool spins = false;     // Too much happened.
  int64_t ended_ns = 0;
};

// What rank `rank` gives in gather `number`.
std::vector<std::byte> part_of(const Plan& plan, int rank, size_t number);

Outcome run(const Plan& plan);

constexpr uint16_t kPort = 29'500;

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_WORLD_H_
