// The template side of forking: a warmed program that turns itself into other processes.
//
//   controller --request, descriptors--> template --fork--> intermediate --fork--> process
//              <--------------------pid-----------------------'   (then exits)
//
// The intermediate's exit hands its children to the controller, which has made itself their
// subreaper: it can wait for them as for its own. Only then does the template let them go on.
#ifndef SK_TRANSPORT_LOCAL_FORK_SERVER_H_
#define SK_TRANSPORT_LOCAL_FORK_SERVER_H_

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

enum class Forked : uint8_t {
  kNewProcess,  // This is a forked process, set up as its request said.
  kOver         // This is the template, and its controller is gone.
};

// Serves requests that come over `socket`. The process may have no second thread. In a new process
// it leads a session, has the request's descriptors, directory and environment, and dies with
// `controller`; descriptors of the program stay as they are.
Result<Forked> serve_forks(Fd socket, pid_t controller);

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_FORK_SERVER_H_
