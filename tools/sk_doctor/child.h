// A piece of work in a process of its own: what it does to that process, a crash included, is
// something to tell, and its time is bounded.
#ifndef SK_TOOLS_SK_DOCTOR_CHILD_H_
#define SK_TOOLS_SK_DOCTOR_CHILD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sk::doctor {

struct Outcome {
  std::string out, err;
  std::string failure;       // How it ended, where that was not with status 0; "": it was.
  bool not_started = false;  // Since this process lacks what that takes, as `failure` says.
};

// Forks, so this process has no other thread. `work` writes to descriptors 1 and 2.
Outcome in_child(const std::function<int()>& work, int64_t timeout_ns);

// Starts argv[0], with this process's environment.
Outcome run_program(const std::vector<std::string>& argv, int64_t timeout_ns);

int64_t clock_ns();  // CLOCK_MONOTONIC.

}  // namespace sk::doctor

#endif  // SK_TOOLS_SK_DOCTOR_CHILD_H_
