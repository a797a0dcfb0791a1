// A context's log: the caller's function, and stderr where SK_LOG asks for it. Never called from a
// data path: what is logged is what happens once, or what has failed.
#ifndef SK_LIB_BASE_LOG_H_
#define SK_LIB_BASE_LOG_H_

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "lib/base/status.h"
#include "sk/base.h"

namespace sk {

class Log {
 public:
  Log() = default;  // Nothing is written.
  // As sk_config says; `environment` is the value of SK_LOG, null where it is not set.
  static Result<Log> make(sk_log_fn fn, void* user, int32_t level, const char* environment);

  // Whether anybody hears of `level`: one comparison, for whoever would have to look things up.
  bool has(int32_t level) const { return level >= least_; }

  // `component` names the room ("comm", "shm"); the sentence has the exact cause, lower case.
  void write(int32_t level, const char* component, const std::string& message) const;

  template <typename... Args>
  void write(int32_t level, const char* component, fmt::format_string<Args...> format,
             Args&&... args) const {
    if (has(level)) write(level, component, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static constexpr int32_t kNothing = SK_LOG_ERROR + 1;

  sk_log_fn fn_ = nullptr;
  void* user_ = nullptr;
  int32_t fn_level_ = kNothing;
  int32_t stderr_level_ = kNothing;
  int32_t least_ = kNothing;
};

}  // namespace sk

#endif  // SK_LIB_BASE_LOG_H_
