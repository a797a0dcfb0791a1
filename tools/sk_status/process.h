// The processes that flight records are of, as /proc has them.
#ifndef SK_TOOLS_SK_STATUS_PROCESS_H_
#define SK_TOOLS_SK_STATUS_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/record/folder.h"
#include "lib/record/reader.h"

namespace sk::status {

// What "since" is counted from: taken once, behind all that is told of.
struct Now {
  int64_t monotonic_ns = 0, wall_ns = 0;
  uint64_t space = 0;  // own_process_space().
};
Now now();

enum class Life {
  kRunning,
  kStopped,    // It does not go on by itself: Halt says why.
  kEnded,      // Nobody, or nobody but a zombie, is there, or it is another program by now.
  kInvisible,  // In a PID namespace of which nothing is seen here.
};

enum class Halt {
  kSignal,    // SIGSTOP, or a terminal's Ctrl-Z.
  kDebugger,  // One has it.
  kFrozen,    // Its control group is, as that of a container that is paused.
};

struct Process {
  record::ProcessView view;
  std::string path;  // Of its record.
  Life life = Life::kInvisible;
  Halt halt = Halt::kSignal;
  int64_t pid = 0;  // As it is called here, or, of one that is not seen, as it was called there.
  std::string program;  // That it has become, by exec(); "": none.
};
using ProcessPtr = std::shared_ptr<const Process>;

// A record that says nothing, of a process that its name tells.
struct Unread {
  std::string path, sentence;
  Life life = Life::kInvisible;
};

struct Look {
  Now at;
  std::vector<ProcessPtr> processes;
  std::vector<Unread> unread;
  std::vector<std::string> refused;  // A sentence for each folder that is not believed.
};

// Reads all records; waits for nobody.
Look look_at_all(const record::Settings& settings, const record::EnvLookup& env);

// How long ago a moment of that process's CLOCK_MONOTONIC was, and when by the clock of the day.
struct Moment {
  double ago_s = 0;
  int64_t wall_ns = 0;
};
Moment moment_of(const Process& process, int64_t monotonic_ns, const Now& at);

}  // namespace sk::status

#endif  // SK_TOOLS_SK_STATUS_PROCESS_H_
