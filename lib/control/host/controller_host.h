// The controller process: one thread that drives Controller with real links, processes and time.
#ifndef SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_
#define SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_

#include "lib/base/status.h"
#include "lib/control/agent.h"
#include "transport/local/link.h"
#include "transport/local/poller.h"

namespace sk::control {

inline constexpr int kRankSecretFd = 6;  // In the rank: where it reads the job's secret.

// Serves the session at the other end of `session_fd` until it is over; takes the descriptors. At
// `door_fd`, a listening socket or -1, a later front end may attach. The caller has made this
// process a session leader.
Status serve_session(int session_fd, int door_fd);

// The loop of it.
Status run_controller(local::Poller poller, local::Link session, local::Fd listener, Job job,
                      local::Fd secret);

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_CONTROLLER_HOST_H_
