// The arguments of `%sk log` and `%sk show`.
#ifndef SK_TOOLS_SK_KERNEL_MAGIC_LOG_H_
#define SK_TOOLS_SK_KERNEL_MAGIC_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace sk::kernel {

struct LogArguments {
  int64_t cell = 0;   // The number in In[ ]; 0: the last cell that ran code.
  std::string ranks;  // "": all.
  std::string file;   // "": the notebook.
};

// `%sk log [CELL [RANKS]] [> FILE]`.
Result<LogArguments> parse_log(const std::vector<std::string>& words);

// `%sk show RANK [CELL]`.
Result<LogArguments> parse_show(const std::vector<std::string>& words);

}  // namespace sk::kernel

#endif  // SK_TOOLS_SK_KERNEL_MAGIC_LOG_H_
