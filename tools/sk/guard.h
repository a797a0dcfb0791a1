// A process that outlives `sk run` when that is killed, for just long enough to end what the ranks
// had started: the ranks themselves end with their parent, but not their children.
#ifndef SK_TOOLS_SK_GUARD_H_
#define SK_TOOLS_SK_GUARD_H_

#include <sys/types.h>

#include "lib/base/status.h"

namespace sk::tools {

class Guard {
 public:
  Guard() = default;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { stop(); }

  Status start();
  void watch(pid_t group);
  // Before the group's leader is reaped, which frees its number for a stranger's group.
  void forget(pid_t group);
  // `pid` is about to be reaped: were it the guard's, stop() would end whoever has the number next.
  void on_end(pid_t pid) {
    if (pid == pid_) pid_ = -1;
  }
  void stop();  // Ends the guard; the caller reaps it.

 private:
  pid_t pid_ = -1;
  int link_ = -1;
};

}  // namespace sk::tools

#endif  // SK_TOOLS_SK_GUARD_H_
