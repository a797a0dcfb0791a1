// Child processes of this host: start, watch by pidfd, signal, reap.
#ifndef SK_TRANSPORT_LOCAL_PROCESS_H_
#define SK_TRANSPORT_LOCAL_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"
#include "transport/local/fd.h"

namespace sk::local {

struct SpawnSpec {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH.
  std::vector<std::string> env;   // "NAME=value" over this process's environment; later ones win.
  std::string cwd;                // "": here.
  // Descriptor here -> descriptor there. 0, 1 and 2 not named: /dev/null, inherited, inherited.
  std::vector<std::pair<int, int>> fds;
  bool dies_with_parent = false;  // SIGKILL when the spawning thread ends.
  uint64_t descriptors = 0;       // Soft limit of how many it may open; 0: as here before a raise.
};

// Raises this process's limit of open descriptors as far as it may go. What it was before, for
// SpawnSpec::descriptors; 0 when nothing was changed.
uint64_t raise_descriptor_limit();

// How a process ended.
struct ExitStatus {
  bool signaled = false;
  int code = 0;
};

// Leads a session and process group of its own.
class Process {
 public:
  Process() = default;
  // Default signal handlers and an empty mask in the child; every descriptor that is not named
  // stays behind. Safe in a process with threads.
  static Result<Process> spawn(const SpawnSpec& spec);

  // A process that something else started and that leads a session, too: a child, which only this
  // reaps, or one of others, whose end is seen but not how it was.
  static Result<Process> adopt(pid_t pid);

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_.get(); }
  // To the process's whole group; nothing once it is reaped.
  void signal_group(int signal_number) const;
  // Reaps it if it has ended; kills what is left of its group first.
  std::optional<ExitStatus> try_reap();

 private:
  pid_t pid_ = -1;
  Fd pidfd_;
};

}  // namespace sk::local

#endif  // SK_TRANSPORT_LOCAL_PROCESS_H_
