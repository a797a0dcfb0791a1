#include "lib/base/log.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "lib/base/inside_callback.h"

namespace sk {
namespace {

constexpr std::array<const char*, 4> kNames = {"debug", "info", "warn", "error"};  // By level.

Result<int32_t> level_named(std::string_view name) {
  for (size_t level = 0; level < kNames.size(); ++level)
    if (name == kNames[level]) return int32_t(level);
  return error(SK_ERR_INVALID_ARGUMENT, "SK_LOG is \"{}\", it must be debug, info, warn or error",
               name.substr(0, 64));
}

}  // namespace

Result<Log> Log::make(sk_log_fn fn, void* user, int32_t level, const char* environment) {
  if (level < SK_LOG_ALL || level > SK_LOG_ERROR) {
    return error(SK_ERR_INVALID_ARGUMENT, "config.log_level is {}, it must be {} to {}", level,
                 int(SK_LOG_ALL), int(SK_LOG_ERROR));
  }
  Log log;
  log.fn_ = fn;
  log.user_ = user;
  const bool asked = level != 0;
  if (fn != nullptr) log.fn_level_ = asked ? level : int32_t(SK_LOG_WARN);
  if (fn == nullptr && asked) log.stderr_level_ = level;
  if (environment != nullptr && *environment != '\0') {
    SK_ASSIGN_OR_RETURN(const int32_t named, level_named(environment));
    log.stderr_level_ = std::min(log.stderr_level_, named);
  }
  log.least_ = std::min(log.fn_level_, log.stderr_level_);
  return log;
}

void Log::write(int32_t level, const char* component, const std::string& message) const {
  if (level >= stderr_level_) {
    const std::string line =
        fmt::format("sk {} {} {}: {}\n", getpid(), kNames[size_t(level)], component, message);
    // One write per line, so that lines of several ranks on one terminal stay whole.
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }
  if (level < fn_level_) return;
  const InsideCallback inside("the log function");
  try {
    fn_(user_, level, component, message.c_str());
  } catch (...) {  // Whatever the caller's function throws is none of the call that logged.
    return;
  }
}

}  // namespace sk
