// One log sink per context: a callback and a least level. Never called from a data path.
#ifndef SK_LIB_BASE_LOG_H_
#define SK_LIB_BASE_LOG_H_

#include <string>

#include "sk/base.h"

namespace sk {

class Log {
 public:
  Log() = default;
  Log(sk_log_fn fn, void* user, int32_t level) : fn_(fn), user_(user), level_(level) {}

  // `component` names the room ("shm", "control"); the sentence has the exact cause, lower case.
  void write(int32_t level, const char* component, const std::string& message) const;

 private:
  sk_log_fn fn_ = nullptr;  // Null: one line on stderr.
  void* user_ = nullptr;
  int32_t level_ = SK_LOG_WARN;
};

}  // namespace sk

#endif  // SK_LIB_BASE_LOG_H_
