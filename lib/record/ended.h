// What becomes of the records of processes that have ended.
#ifndef SK_LIB_RECORD_ENDED_H_
#define SK_LIB_RECORD_ENDED_H_

#include <sys/types.h>

#include <cstdint>
#include <map>

#include "lib/base/process_name.h"
#include "lib/record/folder.h"
#include "lib/record/layout.h"

namespace sk::record {

// A process's word on its own end.
void note_own_end(ProcessHead& head, End how, int code);

// For whoever had started the process and has reaped it: how it ended. Where it ended with exit
// status 0 its record is removed; else the first word on it counts.
void note_end(pid_t pid, End how, int code);

// Removes the records of processes that have ended: `keep_s` after that was first seen, and the
// oldest where there are more than kDeadMax. Those of which nobody here can see or say when they
// end, of an unseen PID namespace or of another version of the library, a month after they were
// made.
void sweep(const std::string& folder, int64_t keep_s);
inline constexpr size_t kDeadMax = 256;

// Whether the process that a record names is there: by PID and start where both mean the same here,
// else by what /proc shows of its space.
enum class Seen { kAlive, kEnded, kInvisible };
struct SeenProcess {
  Seen seen = Seen::kInvisible;
  pid_t pid = 0;  // As it is called here, where it is alive.
};

// The processes there are, as they are when first asked for one of another space: that takes a look
// at all of them, once for however many records.
class Processes {
 public:
  SeenProcess find(const FileName& name);

 private:
  void look();
  SeenProcess find_elsewhere(const FileName& name);

  const uint64_t own_space_ = own_process_space();
  bool sees_all_ = false;  // Every process of the machine, and of each of this user's its space.
  bool looked_ = false;
  std::map<uint64_t, std::multimap<int64_t, pid_t>> others_;  // By space, then by PID in it.
};

}  // namespace sk::record

#endif  // SK_LIB_RECORD_ENDED_H_
