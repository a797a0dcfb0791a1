// The names of a rank's language as they were after its last cell: completes and inspects without
// the language, whose main thread is in a cell and may hold its lock for minutes.
//
// Not thread-safe by itself.
#ifndef SK_LIB_CONTROL_TALK_SNAPSHOT_H_
#define SK_LIB_CONTROL_TALK_SNAPSHOT_H_

#include <map>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/control/message.h"

namespace sk::control {

inline constexpr uint64_t kSnapshotBytesMax = 8ull << 20;

class Snapshot {
 public:
  struct Name {
    std::string name;
    std::string help;
  };

  // Replaces what is known of `root`; see sk_worker_snapshot().
  Status set(const std::string& root, std::vector<Name> names);

  // COMPLETE and INSPECT from the names; IS_COMPLETE is unknown here, for it takes the language.
  Reply answer(const Ask& ask) const;

 private:
  using Helps = std::map<std::string, std::string>;  // By full name.
  struct Root {
    Helps helps;
    uint64_t bytes = 0;
  };

  void complete(const Ask& ask, Reply& reply) const;
  void inspect(const Ask& ask, Reply& reply) const;

  std::map<std::string, Root> roots_;
  uint64_t bytes_ = 0;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_TALK_SNAPSHOT_H_
