// How many ranks a kernel starts.
#ifndef SK_TOOLS_SK_KERNEL_RANK_COUNT_H_
#define SK_TOOLS_SK_KERNEL_RANK_COUNT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/status.h"

namespace sk::kernel {

// What the choice looks at, so that tests can give it.
struct Machine {
  std::function<std::optional<std::string>(const char* name)> variable;
  int gpus = 0;
  int cores = 1;
};
Machine this_machine();

// SK_NRANKS, else `installed` (of the kernelspec; 0: not given), else one per GPU, else one per
// core. A value that is no count is an error that says where it stood.
Result<int32_t> choose_rank_count(const Machine& machine, const std::string& installed);

// 1 to 4096, or a sentence that begins with `where`.
Result<int32_t> parse_rank_count(const std::string& where, const std::string& text);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_RANK_COUNT_H_
