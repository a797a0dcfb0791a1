#include "lib/base/log.h"

#include <fmt/format.h>
#include <unistd.h>

namespace sk {

void Log::write(int32_t level, const char* component, const std::string& message) const {
  if (level < level_) return;
  if (fn_ != nullptr) return fn_(user_, level, component, message.c_str());
  const std::string line = fmt::format("sk {}: {}\n", component, message);
  // One write per line, so that lines of several ranks on one terminal stay whole.
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace sk
