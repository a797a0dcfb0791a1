// What the processes of a kernel take: the answer to usage_request, which status bars ask.
#ifndef SK_TOOLS_SK_KERNEL_USAGE_H_
#define SK_TOOLS_SK_KERNEL_USAGE_H_

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tools/sk_kernel/wire.h"

namespace sk::kernel {

class UsageMeter {
 public:
  // `proc`: the process file system.
  explicit UsageMeter(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // The fields that ipykernel gives, summed over this process, the controller, the ranks and what
  // they have started; beside them the sums of each host, with its ranks. Percentages are of the
  // time since the last call, and 0 at the first. `status`: the session's, or null.
  Json measure(const Json& status, std::chrono::steady_clock::time_point now);

 private:
  struct Process {
    uint64_t ticks = 0;  // Of the processor, so far.
    uint64_t bytes = 0;
    uint64_t round = 0;  // When the memory was measured,
    uint64_t seen = 0;   // and when the process was there.
  };
  struct Sum {
    double cpu_percent = 0;
    uint64_t bytes = 0;
  };

  void add(int64_t pid, Sum* sum);
  void add_host(Json* reply);

  const std::string proc_;
  std::map<int64_t, Process> processes_;
  std::vector<int64_t> counted_;  // In this round: nobody twice.
  uint64_t round_ = 0;
  int exact_left_ = 0;  // Memory measurements in this round.
  double seconds_ = 0;  // Since the last one.
  uint64_t host_busy_ = 0, host_all_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_USAGE_H_
