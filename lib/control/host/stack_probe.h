// Where a rank's main thread is, seen from its I/O thread.
//
// The main thread is asked by signals, whose handlers only gather; everything that allocates runs
// here. A thread that blocks the signals is described by /proc instead.
#ifndef SK_LIB_CONTROL_HOST_STACK_PROBE_H_
#define SK_LIB_CONTROL_HOST_STACK_PROBE_H_

#include <pthread.h>
#include <sys/types.h>

#include <string>

#include "lib/base/status.h"

namespace sk::control {

struct StackProbeConfig {
  int native_signal = 0;    // 0: native stacks are not taken.
  int language_signal = 0;  // 0: the language cannot be asked.
  int language_fd = -1;
};

class StackProbe {
 public:
  // Installs the handler. One probe per process; call it from the main thread.
  Status install(const StackProbeConfig& config);

  // One frame a line, innermost first. Waits up to 100 ms for the main thread.
  std::string native();
  // What the language wrote; "" when it wrote nothing within 100 ms.
  std::string language();

 private:
  bool ask(int signal_number) const;
  std::string from_proc() const;

  StackProbeConfig config_;
  pthread_t main_{};
  pid_t main_tid_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_STACK_PROBE_H_
