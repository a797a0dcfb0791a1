// What a communicator says in the log of its context. Every line begins with the rank.
//
// None of it is on the way of a call that was made before and succeeds.
#ifndef SK_LIB_COMM_COMM_LOG_H_
#define SK_LIB_COMM_COMM_LOG_H_

#include <string>
#include <utility>

#include "lib/base/log.h"
#include "lib/plan/plan.h"
#include "transport/bootstrap/bootstrap.h"

namespace sk {

class CommLog {
 public:
  CommLog() = default;
  CommLog(const Log& log, const Bootstrap& bootstrap);

  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (log_.has(SK_LOG_INFO)) say(SK_LOG_INFO, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    if (log_.has(SK_LOG_DEBUG)) say(SK_LOG_DEBUG, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    if (log_.has(SK_LOG_WARN)) say(SK_LOG_WARN, fmt::format(format, std::forward<Args>(args)...));
  }

  // How the ranks met, and on which hosts they are.
  void meeting(const BootstrapConfig& config, const Bootstrap& bootstrap) const;
  // A plan that this rank runs from now on, and why it is that one.
  void plan(const Plan& plan) const;
  // A failure of the ranks' own: each desync, and once what ends the communicator.
  void failure(const Status& status, bool ends);
  // Nobody can use it any more.
  void end(uint64_t calls) const;

 private:
  void say(int32_t level, const std::string& what) const;

  Log log_;
  int rank_ = 0, world_size_ = 1;
  bool has_ended_ = false;
};

}  // namespace sk

#endif  // SK_LIB_COMM_COMM_LOG_H_
