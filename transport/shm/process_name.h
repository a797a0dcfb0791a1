// Names of processes, and what tells of their end.
#ifndef SK_TRANSPORT_SHM_PROCESS_NAME_H_
#define SK_TRANSPORT_SHM_PROCESS_NAME_H_

#include "lib/base/status.h"
#include "transport/session.h"
#include "transport/shm/fd.h"

namespace sk::shm {

// Of the calling process; without a space where /proc does not tell it. An error: no descriptor is
// left to ask.
Result<ProcessName> own_process_name();

// False also where nothing is known of one.
bool same_process(const ProcessName& one, const ProcessName& other);

// What open_pidfd() found.
enum class Seen {
  kAlive,
  kEnded,      // Or its PID is another process's by now.
  kInvisible,  // From here, or with this kernel.
};

// `fd` becomes readable once the process has ended. An error: no descriptor is left for it.
Result<Seen> open_pidfd(const ProcessName& process, Fd& fd);

}  // namespace sk::shm

#endif  // SK_TRANSPORT_SHM_PROCESS_NAME_H_
