// What tells one process from another, also once its number has been given anew.
#ifndef SK_LIB_BASE_PROCESS_NAME_H_
#define SK_LIB_BASE_PROCESS_NAME_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace sk {

// When a process began, as /proc/PID/stat has it; 0 where that cannot be read. nullopt, with errno:
// no descriptor or no memory is left to ask.
std::optional<uint64_t> process_start_time(pid_t pid);

// Within which PIDs name the same processes, and start times count from the same moment: a reader's
// time namespace shifts what /proc tells. 0 where /proc is another PID namespace's, whose numbers
// mean other processes, or is not there.
uint64_t own_process_space();

// Of a process that this one sees under `pid`; 0 where it may not look.
uint64_t process_space_of(pid_t pid);

}  // namespace sk

#endif  // SK_LIB_BASE_PROCESS_NAME_H_
