// What happens in one simulation, drawn by its seed: who meets, in what weather, what goes wrong.
#ifndef SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_PLAN_H_
#define SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/unit/transport/bootstrap/sim/network.h"

namespace sk::sim {

enum class Kind {
  kCalm,         // All come, somehow; what disturbs them passes in time.
  kAbsent,       // Some never come.
  kDeath,        // Some end, whenever.
  kCut,          // Hosts are cut off, for good or for too long.
  kAgain,        // One ends while they meet, and its successor comes.
  kTwice,        // Two processes are one rank.
  kWrongSecret,  // One has another secret.
  kWrongSize,    // One believes in another number of ranks.
  kCancel,       // One gives up by itself.
  kSurvivors,    // Those that are left meet again; more may die.
};
constexpr int kKinds = 10;

// Of one process of the job.
struct Part {
  int rank = 0;
  int host = 0;
  int64_t begins_ns = 0;  // -1: it never comes.
  int world_size = 0;
  bool other_secret = false;
  int64_t dies_ns = -1;              // -1: it lives,
  int64_t dies_at_send = INT64_MAX;  // or until it has sent so often.
  int64_t known_gone_ns = -1;        // Behind its death, by those that ask.
  int64_t cancels_ns = -1;
};

struct Cut {
  int from = 0, to = 0;  // Hosts.
  int64_t begins_ns = 0, ends_ns = 0;
  bool passes() const { return ends_ns - begins_ns <= kPassesNs; }
  static constexpr int64_t kPassesNs = 1500 * kMs;  // Whoever waits has time left.
};

// A process that does not run for a while, or has few descriptors left.
struct Pause {
  size_t part = 0;
  int64_t begins_ns = 0, ends_ns = 0;
  bool descriptors = false;
};

enum class StrangerKind { kSilent, kGarbage, kHalfHello, kOtherJob, kNoSecret, kReplay, kResets };
struct Stranger {
  StrangerKind kind = StrangerKind::kSilent;
  int64_t begins_ns = 0;
  int count = 1;
  int64_t apart_ns = 0;
};

struct Gather {
  size_t bytes = 0;
  int64_t timeout_ns = 0;
};

struct Plan {
  uint64_t seed = 0;
  Kind kind = Kind::kCalm;
  Weather weather;
  int world_size = 2;
  int hosts = 1;
  int64_t timeout_ns = 0;
  std::vector<Part> parts;
  std::vector<Cut> cuts;
  std::vector<Pause> pauses;
  std::vector<Stranger> strangers;
  int meetings = 1;  // One behind the other, each with all
  std::vector<Gather> gathers;
  bool one_name = false;  // Of all meetings.
  bool connects = false;  // Hosts connect by TCP behind the gathers.
  bool named = false;     // MASTER_ADDR is a name of two addresses, known late.
  int64_t named_at_ns = 0;
  bool any_address = false;  // SK_LISTEN=any.
  bool here = false;         // All are on one host, and know it: they meet at its names.

  std::string text() const;  // One line, for whoever has to understand it.
};

Plan draw_plan(uint64_t seed);

const char* name_of(Kind kind);

}  // namespace sk::sim

#endif  // SK_TESTS_UNIT_TRANSPORT_BOOTSTRAP_SIM_PLAN_H_
