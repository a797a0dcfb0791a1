// Where a rank's main thread is, seen from its I/O thread.
//
// The main thread is asked by signals, whose handlers only gather; everything that allocates runs
// here. A thread that blocks the signals is described by /proc instead.
#ifndef SK_LIB_CONTROL_HOST_STACK_PROBE_H_
#define SK_LIB_CONTROL_HOST_STACK_PROBE_H_

#include <pthread.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "lib/base/status.h"

namespace sk::control {

struct StackProbeConfig {
  int native_signal = 0;    // 0: native stacks are not taken.
  int language_signal = 0;  // 0: the language cannot be asked.
  int language_fd = -1;
  int64_t answer_ns = 100'000'000;  // The longest wait for the main thread.
};

class StackProbe {
 public:
  // Installs the native signal's handler, and one around the language's, which must be there. One
  // probe per process; call it from the main thread.
  Status install(const StackProbeConfig& config);

  // One frame a line, innermost first. Waits for the main thread, but not long.
  std::string native();
  // What the language's handler wrote until it returned, or in time.
  std::string language();
  // Ends a call of the system in which the main thread waits, as a signal's handler would (EINTR),
  // and does nothing else; false where there is no native signal.
  bool wake_main();

 private:
  Status handle_native(int flags) const;
  bool is_blocked(int signal_number) const;
  bool ask(int signal_number) const;
  std::string from_proc() const;

  StackProbeConfig config_;
  pthread_t main_{};
  pid_t main_tid_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_STACK_PROBE_H_
