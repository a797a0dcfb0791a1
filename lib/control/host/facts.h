// What Linux says of this host and of a rank's process.
#ifndef SK_LIB_CONTROL_HOST_FACTS_H_
#define SK_LIB_CONTROL_HOST_FACTS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "lib/control/controller.h"

namespace sk::control {

HostFacts host_facts();

// Bytes of memory that the process holds; 0 when there is no such process.
uint64_t resident_bytes(pid_t pid);

// What the process's thread of this name does: 'R' runs or would, 'D' waits for a disk, 'T' is
// stopped, 'S' sleeps (proc(5)); 0 when there is none.
char thread_state(pid_t pid, std::string_view name);

// The same of a thread of this process, by its number.
char own_thread_state(pid_t tid);

// How many processes of a control group the kernel has killed for want of memory, from the text of
// memory.events (or v1's memory.oom_control); 0 where it says nothing.
uint64_t oom_kills_in(const std::string& events);

// The same for this process's group. Ranks are in it too unless somebody moved them.
uint64_t oom_kills();

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_HOST_FACTS_H_
