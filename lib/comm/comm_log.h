// What a communicator says in the log of its context. Every line begins with the rank.
//
// None of it is on the way of a call that was made before and succeeds, and no call fails for it: a
// line for which there is no memory is not written.
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
    write(SK_LOG_INFO, [&] { return fmt::format(format, std::forward<Args>(args)...); });
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(SK_LOG_DEBUG, [&] { return fmt::format(format, std::forward<Args>(args)...); });
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(SK_LOG_WARN, [&] { return fmt::format(format, std::forward<Args>(args)...); });
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
  template <typename Sentence>
  void write(int32_t level, const Sentence& sentence) const noexcept {
    if (!log_.has(level)) return;
    (void)caught([&]() -> Status {
      say(level, sentence());
      return {};
    });
  }
  void say(int32_t level, const std::string& what) const;

  Log log_;
  int rank_ = 0, world_size_ = 1;
  bool has_ended_ = false;
};

}  // namespace sk

#endif  // SK_LIB_COMM_COMM_LOG_H_
