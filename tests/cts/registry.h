// What conformance suites run for: one table per interface, and every backend a row of it.
//
// To register a transport, add a row in session_backends.cc. A test that cannot hold for a row is
// excluded there with its reason, which the skipped test prints; a test that is merely missing
// something on this machine is skipped by skip_reason().
#ifndef SK_TESTS_CTS_REGISTRY_H_
#define SK_TESTS_CTS_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/stage.h"

namespace sk::cts {

struct Exclusion {
  std::string test;  // Of session_cts.cc.
  std::string reason;
};

struct SessionBackend {
  std::string name;
  uint32_t ranks_max = 5;
  uint32_t many_ranks_max = 12;  // In the tests for which more are worth their time.
  // 0: ranks are threads of the test. Else each in a process of its own, or at most so many
  // processes with several ranks each.
  uint32_t processes_max = 0;
  std::function<std::string()> skip_reason;  // Empty: runs here.
  // For one world, or where ranks are processes for one rank of it.
  std::function<testing_support::Connect(const testing_support::StageSpec&)> open;
  std::vector<Exclusion> exclusions;
};

inline void PrintTo(const SessionBackend& backend, std::ostream* out) { *out << backend.name; }

const std::vector<SessionBackend>& session_backends();

// What the numbers of a stage mean to all bodies of the session suite.
enum SessionNumber {
  kVictim = 0,       // The rank that dies, leaves or aborts; kNoVictim for none.
  kVictimCount = 1,  // After so many messages of its own.
  kMessages = 2,     // Per pair of ranks and slot; 0: until an error ends it.
};
inline constexpr uint64_t kNoVictim = UINT64_MAX;

}  // namespace sk::cts

#endif  // SK_TESTS_CTS_REGISTRY_H_
