// Which rank has which comm, and by what name the session knows it.
//
// Pure. A rank's comm ids are its own: two ranks may use one id, so a table maps (rank, id) to the
// id that the session sees. That is the same text unless another rank has taken it, because objects
// in a front end refer to each other by it. A comm that the session opened is shared by all ranks.
#ifndef SK_LIB_CONTROL_TALK_COMM_TABLE_H_
#define SK_LIB_CONTROL_TALK_COMM_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/control/message.h"
#include "lib/control/rank_set.h"

namespace sk::control {

class CommTable {
 public:
  // A rank's message as the session sees it; nothing when it is of no open comm, or the close of a
  // comm that other ranks still share.
  std::optional<Comm> from_rank(uint32_t rank, Comm message);

  // The ranks that a session's message goes to, each with its own id in it. `live`: where a new
  // comm is opened. Empty when nobody has it.
  std::vector<std::pair<uint32_t, Comm>> from_session(const Comm& message, const RankSet& live);

  // The rank is gone: the comms that nobody else has, as closed.
  std::vector<Comm> forget(uint32_t rank);

 private:
  std::string free_id(uint32_t rank, const std::string& id) const;
  // Takes `rank` off the comm; true when that was the last one.
  bool leave(const std::string& outside, uint32_t rank);

  std::map<std::string, std::map<uint32_t, std::string>> owners_;  // By the session's id.
  std::map<std::pair<uint32_t, std::string>, std::string> outside_;
};

}  // namespace sk::control

#endif  // SK_LIB_CONTROL_TALK_COMM_TABLE_H_
