// The controller process: one thread that drives Controller with real links, processes and time.
#ifndef SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_
#define SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_

#include "lib/base/status.h"

namespace sk::control {

// Serves the session at the other end of `session_fd` until it is over; takes the descriptor. The
// caller has made this process a session leader.
Status serve_session(int session_fd);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_
